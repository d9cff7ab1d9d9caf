"""Kernels on the roofline of their device, from the hardware counters of Nsight Compute.

The counters of ncu count per clock cycle and state the clock, so a rate needs no duration.
Additions and multiplications are one FLOP, a multiply-add two.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from profilers.schema import Report

_WORK = {"add": 1.0, "mul": 1.0, "fma": 2.0}
_PER_CYCLE = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
_TITLED = "Predicated-On {} Thread Instructions Executed Per Cycle"
_CLOCK = ("smsp__cycles_elapsed.avg.per_second", "SM Frequency")
_DRAM = ("dram__bytes.sum.per_second", "DRAM Bandwidth [byte/s]")
_TENSOR_BUSY = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
)
#: Counters of the peaks: most multiply-adds and bytes per cycle, and the clocks that they refer to.
_MOST_FMA = (
    "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
    "Theoretical Predicated-On FFMA Thread Instructions Executed",
)
_SM_CLOCK = ("sm__cycles_elapsed.avg.per_second", "SM Frequency")
_MOST_BYTES = ("dram__bytes.sum.peak_sustained", "Theoretical DRAM Bytes Accessible")
_DRAM_CLOCK = ("dram__cycles_elapsed.avg.per_second", "DRAM Frequency")

_COUNTERS = frozenset(
    {
        *(_PER_CYCLE.format(kind + op) for kind in "dfh" for op in _WORK),
        *(_TITLED.format((kind + op).upper()) for kind in "dfh" for op in _WORK),
        *_CLOCK, *_DRAM, *_TENSOR_BUSY, *_MOST_FMA, *_SM_CLOCK, *_MOST_BYTES, *_DRAM_CLOCK,
    }
)  # fmt: skip

Counters = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Roofs:
    """Peak rates of a device at the clocks of the run, according to ncu.

    flops_per_s: 32-bit multiply-adds of the CUDA cores.  bytes_per_s: of its memory.
    """

    flops_per_s: float
    bytes_per_s: float


def roofs(report: Report) -> Roofs | None:
    """Median peaks over the counters of a report; None where it has none."""
    rows = [
        (
            2.0 * _first(counters, _MOST_FMA) * _first(counters, _SM_CLOCK),
            _first(counters, _MOST_BYTES) * _first(counters, _DRAM_CLOCK),
        )
        for counters in _counters(report).values()
    ]
    stated = [row for row in rows if min(row) > 0]
    return Roofs(*np.median(stated, axis=0).tolist()) if stated else None


def roofline(report: Report) -> pd.DataFrame:
    """Kernels with counted rates, by name.

    Columns: name, operator_class, count, time_s (0 where unknown), flops_per_s, bytes_per_s,
    flops_per_byte, at_least (True: uncounted tensor-core work may come on top), compute_pct,
    dram_pct.
    """
    kernels = report.kernels.reset_index(drop=True)
    counters = _counters(report)
    rates = [_rates(row, counters.get(at, {})) for at, row in enumerate(_amounts(kernels))]
    columns = ["flops_per_s", "bytes_per_s", "at_least"]
    table = pd.concat(
        [
            kernels[["name", "operator_class", "count", "compute_pct", "dram_pct"]],
            kernels["duration_s"].rename("time_s"),
            pd.DataFrame(rates, columns=columns, index=kernels.index),
        ],
        axis=1,
    )
    table = table[(table["flops_per_s"] > 0) & (table["bytes_per_s"] > 0)]
    timed = bool((table["time_s"] > 0).all())
    table["weight"] = table["time_s"] if timed else table["count"].astype(float)
    for rate in ("flops_per_s", "bytes_per_s"):
        table[rate] *= table["weight"]
    grouped = table.groupby("name", observed=True).agg(
        operator_class=("operator_class", "first"),
        count=("count", "sum"),
        time_s=("time_s", "sum"),
        flops_per_s=("flops_per_s", "sum"),
        bytes_per_s=("bytes_per_s", "sum"),
        weight=("weight", "sum"),
        at_least=("at_least", "any"),
        compute_pct=("compute_pct", "mean"),
        dram_pct=("dram_pct", "mean"),
    )
    weight = grouped.pop("weight")
    for rate in ("flops_per_s", "bytes_per_s"):
        grouped[rate] /= weight
    grouped["flops_per_byte"] = grouped["flops_per_s"] / grouped["bytes_per_s"]
    return grouped.reset_index().astype({"name": str, "operator_class": str})


def _amounts(kernels: pd.DataFrame) -> Iterable[tuple[float, float, float]]:
    """FLOPs, DRAM bytes and seconds of each kernel."""
    columns = (kernels[name].to_numpy() for name in ("flops", "dram_bytes", "duration_s"))
    return zip(*columns, strict=True)


def _rates(amounts: tuple[float, float, float], counters: Counters) -> tuple[float, float, bool]:
    """FLOP/s, bytes/s, and whether uncounted tensor-core work may come on top of the former."""
    flops, moved, seconds = amounts
    bytes_per_s = moved / seconds if seconds > 0 else math.nan
    if math.isnan(bytes_per_s):
        bytes_per_s = _first(counters, _DRAM)
    if flops > 0 and seconds > 0:
        return flops / seconds, bytes_per_s, False
    idle = _first(counters, _TENSOR_BUSY) == 0.0
    return _scalar(counters) * _first(counters, _CLOCK), bytes_per_s, not idle


def _scalar(counters: Counters) -> float:
    """FLOPs per cycle of the CUDA cores; NaN where they are not counted."""
    taken = [
        flops * _first(counters, (_PER_CYCLE.format(name), _TITLED.format(name.upper())))
        for name, flops in ((kind + op, flops) for kind in "dfh" for op, flops in _WORK.items())
    ]
    counted = [value for value in taken if not math.isnan(value)]
    return math.fsum(counted) if counted else math.nan


def _first(counters: Counters, names: Iterable[str]) -> float:
    """The first of several counters that has a value; NaN where none has."""
    return next((counters[name] for name in names if not math.isnan(counters.get(name, math.nan))),
                math.nan)  # fmt: skip


def _counters(report: Report) -> dict[int, dict[str, float]]:
    """The counters that this module reads, by kernel row."""
    wanted = report.metrics[report.metrics["name"].isin(_COUNTERS)]
    by_kernel: dict[int, dict[str, float]] = {}
    for kernel, name, value in zip(
        wanted["kernel"].tolist(), wanted["name"].astype(str), wanted["value"].tolist(), strict=True
    ):
        by_kernel.setdefault(kernel, {})[name] = value
    return by_kernel
