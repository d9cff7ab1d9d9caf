"""Kernels from hardware counters of Nsight Compute: time, FLOPs, DRAM bytes, percent of peaks.

Counters of a report file are in base units (ns, byte, %); the CSV reader converts its columns to
these.  ncu serialises and replays kernels at fixed clocks and with a flushed cache: its times
belong on no timeline and are never added to those of another tool.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from genz_core.errors import ReportError
from profilers.readers.columns import MAX_NAME_CHARS, nullable_integers
from profilers.schema import (
    METRIC_COLUMNS,
    DeviceInfo,
    Report,
    kernel_table,
    table,
)

Reading = float | str | None

_DURATION = ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_duration", "Duration")
_DRAM_READ = ("dram__bytes_read.sum", "dram__bytes_read")
_DRAM_WRITE = ("dram__bytes_write.sum", "dram__bytes_write")
_DRAM_TOTAL = ("dram__bytes.sum", "dram__bytes")
_DRAM_RATE = ("dram__bytes.sum.per_second",)
_COMPUTE_PCT = ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "Compute (SM) Throughput")
_DRAM_PCT = (
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "DRAM Throughput",
)
#: Thread-level instructions: an addition or multiplication is one FLOP, a multiply-add two.
_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
_SASS_FLOPS = {
    f"{kind}{op}": flops for kind in "dfh" for op, flops in (("add", 1), ("mul", 1), ("fma", 2))
}
_TENSOR_PREFIX = "sm__ops_path_tensor_"
_TENSOR_BUSY = (
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
)


#: Counters above this come from a division by zero.
_MAX_READING = 1e30


@dataclass(slots=True)
class KernelResult:
    """A profiled launch.  ranges: open NVTX ranges, outermost first."""

    name: str
    full_name: str
    grid: str = ""
    block: str = ""
    stream: int = -1
    device: int = -1
    ranges: list[str] = field(default_factory=list)
    metrics: dict[str, Reading] = field(default_factory=dict)


def build_report(
    format: str,
    label: str,
    results: Sequence[KernelResult],
    tool_version: str | None = None,
    devices: tuple[DeviceInfo, ...] = (),
    facts: Mapping[str, str | float | int] | None = None,
) -> Report:
    """The report of profiled launches.

    Raises:
        ReportError: there are none.
    """
    return Report(
        format=format,
        tool="ncu",
        tool_version=tool_version,
        label=label,
        kernels=_kernels(results),
        metrics=_metrics(results),
        devices=_used(devices, results),
        facts=dict(facts or {}),
        notes=_notes(results),
    )


def _used(
    devices: tuple[DeviceInfo, ...], results: Sequence[KernelResult]
) -> tuple[DeviceInfo, ...]:
    used = {_device_index(result) for result in results} - {-1}
    return tuple(device for device in devices if device.index in used) or devices


def _device_index(result: KernelResult) -> int:
    stated = number(result, ("launch__device_id",))
    return result.device if math.isnan(stated) else int(stated)


def _kernels(results: Sequence[KernelResult]) -> pd.DataFrame:
    paths = ["/".join(result.ranges)[:MAX_NAME_CHARS] or None for result in results]
    return kernel_table(
        {
            "tool": "ncu",
            "process": 0,
            "device": nullable_integers([_device_index(result) for result in results]),
            "stream": nullable_integers([result.stream for result in results]),
            "name": [result.name[:MAX_NAME_CHARS] for result in results],
            "full_name": [result.full_name[:MAX_NAME_CHARS] for result in results],
            "duration_s": [number(result, _DURATION) * 1e-9 for result in results],
            "grid": [result.grid or None for result in results],
            "block": [result.block or None for result in results],
            "nvtx_path": paths,
            "operator": [result.ranges[-1] if result.ranges else None for result in results],
            "flops": [_flops(result) for result in results],
            "dram_bytes": [_dram_bytes(result) for result in results],
            "compute_pct": [number(result, _COMPUTE_PCT) for result in results],
            "dram_pct": [number(result, _DRAM_PCT) for result in results],
            "attributed_by": [path and "ncu_nvtx" for path in paths],
        },
        rows=len(results),
    )


def number(result: KernelResult, names: Sequence[str]) -> float:
    """The value of the first of several metrics that is a number; NaN where none is."""
    for name in names:
        reading = result.metrics.get(name)
        if isinstance(reading, float) and abs(reading) < _MAX_READING:
            return reading
    return math.nan


def _dram_bytes(result: KernelResult) -> float:
    """Bytes read and written; NaN unless both directions are known."""
    both = number(result, _DRAM_READ) + number(result, _DRAM_WRITE)
    total = number(result, _DRAM_TOTAL)
    rate = number(result, _DRAM_RATE) * number(result, _DURATION) * 1e-9
    return next((value for value in (both, total, rate) if not math.isnan(value)), math.nan)


def _flops(result: KernelResult) -> float:
    """FLOPs of scalar instructions and tensor cores; NaN where the counters miss some.

    Tensor cores are counted by their per-type operation counters (Hopper and later).  A kernel that
    used the tensor pipes without such counters has unknown FLOPs, not just those of its scalar
    part.
    """
    tensor = [
        reading
        for name, reading in result.metrics.items()
        if name.startswith(_TENSOR_PREFIX) and name.endswith(".sum") and "_src_int" not in name
        if isinstance(reading, float) and abs(reading) < _MAX_READING
    ]
    busy = number(result, _TENSOR_BUSY)
    if not tensor and busy > 0:
        return math.nan
    scalar = _scalar_flops(result)
    if scalar is None and not any(tensor):
        return math.nan  # tensor cores were idle, and the other instructions were not counted
    return math.fsum([*tensor, scalar or 0.0])


def _scalar_flops(result: KernelResult) -> float | None:
    """FLOPs of scalar floating-point instructions, None where none is counted.

    The roofline section counts per cycle; cycles are its clock times the duration.
    """
    cycles = number(result, ("smsp__cycles_elapsed.avg.per_second",)) * 1e-9
    cycles *= number(result, _DURATION)
    taken = []
    for key, flops in _SASS_FLOPS.items():
        total = number(result, (_SASS.format(key),))
        per_cycle = number(result, (_SASS.format(key) + ".per_cycle_elapsed",))
        rate = flops * per_cycle * cycles
        readings = [value for value in (flops * total, rate) if not math.isnan(value)]
        taken += readings[:1]
    return math.fsum(taken) if taken else None


def _metrics(results: Sequence[KernelResult]) -> pd.DataFrame:
    rows = [
        (row, name, reading if abs(reading) < _MAX_READING else math.nan)
        for row, result in enumerate(results)
        for name, reading in result.metrics.items()
        if isinstance(reading, float)
    ]
    kernel, name, value = zip(*rows, strict=True) if rows else ((), (), ())
    return table(METRIC_COLUMNS, {"kernel": kernel, "name": name, "value": value})


def _notes(results: Sequence[KernelResult]) -> tuple[str, ...]:
    if not results:
        raise ReportError("the report holds no profiled kernel; check the filters given to ncu")
    untimed = sum(math.isnan(number(result, _DURATION)) for result in results)
    notes = ["times are of kernels that ncu ran one by one at fixed clocks"]
    if untimed:
        notes.append(f"{untimed} of {len(results)} kernels have no duration")
    return tuple(notes)
