"""Consistency checks of profiler reports: by themselves, and against the step that is priced.

A check of a report by itself needs no model.  Against a priced step, the launches must be those of
its layers, its time no less than the hardware allows, and its number format the stated one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from genz_core.systems import System
from genz_core.workload import Estimate
from profilers.comparison.account import TOLERANCE, Check, Outcome
from profilers.comparison.comparable import BELOW_BOUND
from profilers.comparison.device_checks import of_device
from profilers.matching.measured_step import MeasuredPhase
from profilers.matching.predicted_step import Expected
from profilers.operators.number_formats import type_of_name
from profilers.phases.summary_steps import launched_steps
from profilers.schema import Measurement, Report, kernel_table

#: Products in another format than the priced one may take up to this share of the products' time; a
#: judgement, as are the other limits here.
OTHER_FORMATS = 0.2
#: Relative difference allowed between the counted and the stated steps: some launches join no
#: operator.
_OTHER_STEPS = 0.45
#: Below this share of its kernel time that matches the priced model, another model ran.
_MATCHED = 0.5
#: Classes whose peak is the same number on all systems.
_SAME = ({"bf16", "fp16"},)
#: Operator classes below this share of a step are not checked against the hardware.
_SMALL = 0.03
#: Below this many FLOPs per byte, most of what a product reads are weights.
_FEW_TOKENS = 16.0
_ONE_STREAM = "kernels of a stream <= its span"
_DRAM = "memory traffic <= bandwidth"
_FLOPS = "arithmetic <= peak"
_SHARES = "shares of a peak <= 100 %"
_OPERATORS = "operators = step"
_LAYERS = "launches over layers = steps"
_MATCHES = "half of the kernel time matches predicted operators"
_HARDWARE = "nothing faster than the hardware"
_BYTES = "bytes of products = parameters in the format"
_FORMAT = "matrix products outside the priced format <= its limit"
_ANOTHER_DEVICE = (
    "another device than stated was measured, or times and counts come from different clocks"
)


def of_report(report: Report, system: System | None = None) -> tuple[Check, ...]:
    """Checks of a report by itself.

    system: the device that it names, None where it is not known.
    """
    kernels = report.kernels
    return (
        _one_stream(kernels),
        _traffic(kernels, _bandwidth(report, system)),
        _arithmetic(kernels, system),
        _shares(kernels),
        *of_device(report.devices, kernels, system),
    )


def _one_stream(kernels: pd.DataFrame) -> Check:
    """Kernels of one stream run one after the other, so their sum is at most the time that they
    span.

    Kernels of a CUDA graph may run concurrently and are left out.
    """
    alone = kernels[~kernels["in_graph"].fillna(False).astype(bool)]
    timed = alone.dropna(subset=["start_s", "duration_s"])
    if not len(timed):
        return Check(_ONE_STREAM, "not made", why="no kernel outside of a graph has a time")
    ends = timed.assign(end_s=timed["start_s"] + timed["duration_s"])
    keys = [ends[name].fillna(-1) for name in ("process", "device", "stream")]
    sums = ends.groupby(keys).agg(
        spent=("duration_s", "sum"), first=("start_s", "min"), last=("end_s", "max")
    )
    span = (sums["last"] - sums["first"]).to_numpy()
    at = int(np.argmax(sums["spent"].to_numpy() / np.maximum(span, 1e-12)))
    why = "durations and starts are from different clocks, or streams were merged"
    return _most(_ONE_STREAM, float(sums["spent"].iloc[at]) * 1e3, float(span[at]) * 1e3, "ms", why)


def _bandwidth(report: Report, system: System | None) -> float | None:
    """Bandwidth of the memory [bytes/s], from the report, otherwise from the datasheet."""
    stated = [d.memory_bytes_per_s for d in report.devices if d.memory_bytes_per_s]
    return stated[0] if stated else system.memory_bytes_per_s if system else None


def _traffic(kernels: pd.DataFrame, limit: float | None) -> Check:
    found = _fastest(kernels, "dram_bytes")
    if found is None:
        return Check(_DRAM, "not made", why="the report has no byte counts")
    if not limit:
        return Check(_DRAM, "not made", why="the bandwidth of its device is not known")
    return _most(_DRAM, found / 1e9, limit / 1e9, "GB/s", _ANOTHER_DEVICE)


def _arithmetic(kernels: pd.DataFrame, system: System | None) -> Check:
    found = _fastest(kernels, "flops")
    if found is None:
        return Check(_FLOPS, "not made", why="the report has no FLOP counts")
    if system is None:
        return Check(_FLOPS, "not made", why="the peak of its device is not known")
    limit = max(system.peak_flops_per_s.values()) * system.boost_factor
    return _most(_FLOPS, found / 1e12, limit / 1e12, "TFLOP/s", _ANOTHER_DEVICE)


def _fastest(kernels: pd.DataFrame, amount: str) -> float | None:
    """The highest rate among the kernels of a name [1/s], None where none has both figures."""
    known = kernels[(kernels[amount] > 0) & (kernels["duration_s"] > 0)]
    if not len(known):
        return None
    sums = known.groupby(known["name"].astype(object))[[amount, "duration_s"]].sum()
    return float((sums[amount] / sums["duration_s"]).max())


def _shares(kernels: pd.DataFrame) -> Check:
    most = kernels[["compute_pct", "dram_pct"]].to_numpy(dtype=float)
    if not np.isfinite(most).any():
        return Check(_SHARES, "not made", why="the report states no share of a peak")
    why = "counters of another unit than percent of the sustained peak"
    return _most(_SHARES, float(np.nanmax(most)), 100.0, "%", why)


def _most(name: str, found: float, limit: float, unit: str, why: str) -> Check:
    """A check that a figure is at most its limit, within the tolerance."""
    return _judged(name, found > limit * (1.0 + TOLERANCE), found, limit, unit, why)


def _judged(
    name: str,
    fails: bool,
    found: float,
    limit: float,
    unit: str,
    why: str,
    phase: str = "",
    part: str = "",
) -> Check:
    """A check of two figures.  why: the likely cause where it fails."""
    outcome: Outcome = "failed" if fails else "passed"
    return Check(name, outcome, found, limit, unit, why if fails else "", phase, part)


# ------------------------------------------------------------------------------- a priced step


def of_comparison(
    phases: pd.DataFrame,
    classes: pd.DataFrame,
    priced: Mapping[str, Expected],
    measured: Mapping[str, MeasuredPhase],
    measurement: Measurement,
    reports: Sequence[Report],
    estimate: Estimate,
    devices: int = 1,
    config: int = 0,
) -> tuple[Check, ...]:
    """Checks of a comparison's steps, by phase, then of its reports by themselves.

    Args:
        phases, classes: tables of a `Comparison`.  priced, measured: their steps by phase.
    """
    found: list[Check] = []
    for whole in phases.to_dict("records"):
        phase = str(whole["phase"])
        found += [
            _of_operators(measurement, measured[phase], devices),
            _of_layers(whole, priced[phase], measured[phase], reports, devices),
            _of_matches(whole),
            *_of_hardware(whole, classes[classes["phase"] == phase]),
        ]
        if phase != "mixed":
            found.append(_of_format(measured[phase], estimate, config))
    for report in reports:
        found += of_report(report, estimate.system)
    if not reports and measurement.system is not None:
        found += of_device([measurement.system], kernel_table({}), estimate.system)
    return tuple(found)


def _of_operators(measurement: Measurement, found: MeasuredPhase, devices: int) -> Check:
    """Sum of operators against the step that was timed separately; the difference is the host's
    time.
    """
    timing = measurement.phases.get(found.phase)
    if found.launches is not None or timing is None or timing.basis == "kernels":
        why = "its time is the sum of its operators"
        return Check(_OPERATORS, "not made", why=why, phase=found.phase)
    rows = measurement.operators[measurement.operators["phase"] == found.phase]
    spent = float(rows["time_s"].sum()) / (found.steps * devices)
    if not spent > 0:
        return Check(_OPERATORS, "not made", why="no operator was timed", phase=found.phase)
    beyond = spent > found.total_s * (1.0 + TOLERANCE)
    why = "operators include profiler overhead, or the timed and profiled steps differ"
    return _judged(_OPERATORS, beyond, spent * 1e3, found.total_s * 1e3, "ms", why, found.phase)


def _of_layers(
    whole: Mapping[str, Any],
    step: Expected,
    found: MeasuredPhase,
    reports: Sequence[Report],
    devices: int,
) -> Check:
    """Number of steps that the launches hold, counted by the priced layers, against the stated
    number.
    """
    phase = found.phase
    if found.launches is not None and found.launches.timed:
        held = float(whole["repeats"]) * found.steps
    else:
        held = launched_steps(step, reports, phase, devices)
    if not held:
        why = "no kernel that each layer launches once was counted"
        return Check(_LAYERS, "not made", why=why, phase=phase)
    apart = abs(held - found.steps) > _OTHER_STEPS * found.steps
    why = (
        "a range or summary holds another number of steps than assumed (--steps), or the model has "
        "another number of layers"
    )
    return _judged(_LAYERS, apart, held, found.steps, "steps", why, phase)


def _of_matches(whole: Mapping[str, Any]) -> Check:
    """Share of a step's kernel time that matches an operator of the priced model."""
    phase, share = str(whole["phase"]), float(whole["joined_share"])
    if whole["basis"] != "kernels" or not whole["wall_s"] > 0:
        why = "its time is not that of kernels with start times"
        return Check(_MATCHES, "not made", why=why, phase=phase)
    why = (
        "another model ran, or one with another number of layers, or one range holds several steps "
        "(--steps)"
    )
    few = share < _MATCHED
    return _judged(_MATCHES, few, 100.0 * share, 100.0 * _MATCHED, "%", why, phase)


def _of_hardware(whole: Mapping[str, Any], classes: pd.DataFrame) -> Iterator[Check]:
    """A step and its classes against their bounds; only the step where no class beats its bound."""
    why = (
        "the run had fewer tokens or layers, another format, more devices or another device than "
        "the priced scenario"
    )
    phase = str(whole["phase"])
    rows: list[tuple[str, Mapping[str, Any]]] = [("", whole)]
    for row in classes.to_dict("records"):
        mine = row["measured_s"] > 0 and row["bound_s"] > _SMALL * whole["measured_s"]
        if mine and row["measured_s"] < BELOW_BOUND * row["bound_s"]:
            rows.append((str(row["class"]), row))
    for part, row in rows:
        measured, bound = float(row["measured_s"]), float(row["bound_s"])
        if not (measured > 0 and bound > 0):
            why_not = "no time of it was measured"
            yield Check(_HARDWARE, "not made", why=why_not, phase=phase, part=part)
            continue
        beyond = measured < BELOW_BOUND * bound
        said = f"{why}, or its kernels have other names" if part else why
        yield _judged(_HARDWARE, beyond, measured * 1e3, bound * 1e3, "ms", said, phase, part)


def _of_format(found: MeasuredPhase, estimate: Estimate, config: int) -> Check:
    """Bytes that products read, against the parameters in the priced format; where bytes are not
    counted, the formats that kernel names indicate.
    """
    table = pd.DataFrame(getattr(estimate, found.phase).table(config))
    products = table[(table["class"] == "gemm") & (table["predicted_s"] > 0)]
    if not len(products):
        return Check(_BYTES, "not made", why="no matrix product is priced", phase=found.phase)
    if (read := _bytes_read(found, products)) is not None:
        stated = float((products["bytes"] * products["runs"]).sum())
        apart = abs(read - stated) > OTHER_FORMATS * stated
        why = "the weights are in another format than priced, or the layers differ"
        return _judged(_BYTES, apart, read / 1e9, stated / 1e9, "GB", why, found.phase)
    meant = str(products.loc[products["predicted_s"].idxmax(), "compute"])
    spent = time_by_format(found)
    total = sum(seconds for seconds, _ in spent.values())
    if not total:
        why = "no bytes are counted, and no kernel's name spells a format"
        return Check(_BYTES, "not made", why=why, phase=found.phase)
    others = {k: s for k, (s, _) in spent.items() if k != meant and {k, meant} not in _SAME}
    share = sum(others.values()) / total
    why = f"kernels compute in {max(others, key=lambda k: others[k], default=meant)}"
    return _judged(
        f"{_FORMAT} ({meant})", share > OTHER_FORMATS, share * 100.0, OTHER_FORMATS * 100.0, "%",
        why, found.phase,
    )  # fmt: skip


def _bytes_read(found: MeasuredPhase, products: pd.DataFrame) -> float | None:
    """Bytes that a step's products read; None where they are not counted, or where so many tokens
    ran that weights are not most of them.
    """
    if found.launches is None or not products["flops_per_byte"].max() <= _FEW_TOKENS:
        return None
    kernels = found.launches.kernels
    read = kernels["dram_bytes"][kernels["operator_class"].isin(["gemm", "gemv"])]
    if not len(read) or read.isna().any():
        return None
    return float(read.sum()) / (found.launches.runs * found.steps_in_run)


def time_by_format(found: MeasuredPhase) -> dict[str, tuple[float, str]]:
    """{number format: seconds of a step in products whose kernel names indicate it, and the longest
    of them}.
    """
    if found.launches is not None:
        kernels = found.launches.kernels
        products = kernels[kernels["operator_class"].isin(["gemm", "gemv"])]
        steps = found.launches.runs * found.steps_in_run
        sums = products.groupby(products["name"].astype(object))["duration_s"].sum() / steps
    elif len(found.operators):
        products = found.operators[found.operators["class"] == "gemm"]
        sums = products.groupby("name")["time_s"].sum()
    else:
        return {}
    spent: dict[str, tuple[float, str]] = {}
    for name, time_s in sums.sort_values(ascending=False).items():
        if spelled := type_of_name(str(name)):
            before, kernel = spent.get(spelled, (0.0, str(name)))
            spent[spelled] = before + float(time_s), kernel
    return spent
