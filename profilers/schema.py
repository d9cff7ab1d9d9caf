"""Tables and records of measured data, the same for every tool: `Report`, `Measurement`.

A kernel table has a row per launch (or per aggregate, in a summary, with `count` > 1) and the
columns of `KERNEL_COLUMNS`.  Times are seconds on the clock of the report, which starts at its
first event.  What a report does not state is unknown: NaN in a float column, <NA> in an
integer or text column, None in a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd

from genz_core.errors import ReportError
from genz_core.types import Workload
from profilers.steps import MeasuredStep

Tool = Literal["nsys", "ncu", "torch", "rocprof", "unitrace", "xla"]
Basis = Literal["wall", "gpu", "kernels"]

#: How a row got its operator, strongest evidence first; `kernel_name` and weaker are guesses from
#: names.
ATTRIBUTIONS = (
    "torch_link",
    "nvtx_range",
    "ncu_nvtx",
    "phase_pattern",
    "kernel_name",
    "unclassified",
)
PHASES = ("prefill", "decode", "mixed")

#: Column -> dtype of the kernel table.
KERNEL_COLUMNS: Mapping[str, str] = {
    "tool": "category",
    "process": "Int64",  # ordinal of the process in the report, not its id
    "device": "Int64",
    "stream": "Int64",
    "name": "category",  # as the tool's own tables print it
    "full_name": "category",  # with template arguments; missing where it is no longer than `name`
    "start_s": "float64",
    "duration_s": "float64",  # summed over `count`
    "count": "int64",
    "grid": "category",  # "x,y,z" blocks
    "block": "category",  # "x,y,z" threads
    "in_graph": "boolean",  # launched by a CUDA or HIP graph
    "launch_s": "float64",  # when the host called for it
    "range_id": "Int64",  # innermost row of `Report.ranges`
    "nvtx_path": "category",  # outermost/.../innermost range
    "module": "category",  # outermost/.../innermost nn.Module around the launch
    "step": "Int64",  # row of `Report.ranges` of the step that launched it
    "operator": "category",
    "input_shapes": "category",  # JSON list of the shapes of the operator's inputs
    "input_types": "category",  # JSON list of their types
    "input_values": "category",  # JSON list of their plain values, kept of attention alone
    "operator_class": "category",
    "phase": "category",
    "flops": "float64",  # summed over `count`
    "dram_bytes": "float64",  # summed over `count`
    "compute_pct": "float64",  # of the peak, sustained over the kernel
    "dram_pct": "float64",
    "attributed_by": "category",
    "phase_by": "category",
}

#: Column -> dtype of the copies table: device activity beside kernels (copies, memory sets, and
#: whole graphs where the tool traced none of their kernels).
COPY_COLUMNS: Mapping[str, str] = {
    "process": "Int64",
    "device": "Int64",
    "stream": "Int64",
    "kind": "category",  # "HtoD", "DtoH", "DtoD", "PtoP", "memset" ...
    "start_s": "float64",
    "duration_s": "float64",
    "count": "int64",
    "bytes": "float64",
}

#: Column -> dtype of the ranges table: NVTX ranges and profiler annotations on the host.
RANGE_COLUMNS: Mapping[str, str] = {
    "name": "category",
    "process": "Int64",
    "thread": "Int64",  # ordinal
    "start_s": "float64",
    "duration_s": "float64",
    "parent": "Int64",  # row of the range around it on the same thread
    "count": "int64",
}

#: Column -> dtype of the metrics table: hardware counters of ncu, in base units.
METRIC_COLUMNS: Mapping[str, str] = {
    "kernel": "int64",  # row of the kernel table
    "name": "category",
    "value": "float64",
}

#: Column -> dtype of the host table: runtime and driver calls.
HOST_COLUMNS: Mapping[str, str] = {"name": "category", "count": "int64", "time_s": "float64"}

#: Column -> dtype of the table of operators that the host itself ran, where it used no device.
HOST_OPERATOR_COLUMNS: Mapping[str, str] = {
    "name": "category",
    "range_id": "Int64",  # innermost row of `Report.ranges`
    "count": "int64",
    "time_s": "float64",  # without the operators that it calls, summed over `count`
}

#: Column -> dtype of the waits table: calls in which the host waits for the device.
WAIT_COLUMNS: Mapping[str, str] = {"start_s": "float64", "duration_s": "float64"}

#: Column -> dtype of a measured operator table; an estimate's table has the same names.
OPERATOR_COLUMNS: Mapping[str, str] = {
    "phase": "object",
    "name": "object",
    "kind": "object",  # operator class as measured, see `kernel_classes`
    "class": "object",  # operator class of `genz_core`, None where it has none
    "layer": "Int64",
    "count": "int64",  # runs
    "flops": "float64",  # of one run
    "bytes": "float64",  # of one run
    "time_s": "float64",  # of all runs
}

#: Limits of plausible values: no capture lasts 30 years, no kernel does 1e30 operations.
_MAX_SECONDS, _MAX_AMOUNT = 1e9, 1e30

_FILL: Mapping[str, Any] = {
    "float64": np.nan,
    "int64": 1,  # a row is one launch unless `count` is given
    "Int64": pd.NA,
    "boolean": pd.NA,
    "category": None,
    "object": None,
}


#: The types by name, resolved once, because pandas' lookup of a name is slow.
_DTYPES: Mapping[str, Any] = {name: pd.api.types.pandas_dtype(name) for name in _FILL}


#: Field of a trace's header in which a run of Ridgeline states what ran.
OWN_RUN = "ridgeline_run"


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """An accelerator as a report or the operating system describes it; "" for an unknown name."""

    index: int | None = None
    name: str = ""
    units: int | None = None
    memory_bytes: float | None = None
    memory_bytes_per_s: float | None = None
    clock_hz: float | None = None
    l2_bytes: float | None = None
    compute_capability: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a profiler report.

    format: "nsys-sqlite", "nsys-csv", "ncu-rep", "ncu-csv", "torch-trace", "rocprof-csv",
        "rocprof-json", "rocpd", "unitrace" or "xplane".
    tool_version: version of the tool that wrote it, None where the file does not state it.
    label: name of the file, without folder and ending.
    kernels, copies, ranges, host, metrics: tables, see the column lists of this module.
    waits: likewise, None where the reader records none.
    facts: whitelisted facts about the run (world_size, cuda_version ...), never about the host.
    notes: what the file does not hold, in sentences.
    host_operators: operators of a trace without kernels, as one of a CPU.
    truncated: where the file breaks off, in a sentence that is also its first note; "" where it is
    complete.
    """

    format: str
    tool: Tool
    tool_version: str | None
    label: str
    kernels: pd.DataFrame
    copies: pd.DataFrame = field(default_factory=lambda: copy_table({}))
    ranges: pd.DataFrame = field(default_factory=lambda: table(RANGE_COLUMNS, {}))
    host: pd.DataFrame = field(default_factory=lambda: table(HOST_COLUMNS, {}))
    metrics: pd.DataFrame = field(default_factory=lambda: table(METRIC_COLUMNS, {}))
    devices: tuple[DeviceInfo, ...] = ()
    facts: Mapping[str, str | float | int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    waits: pd.DataFrame | None = None
    truncated: str = ""
    host_operators: pd.DataFrame = field(default_factory=lambda: table(HOST_OPERATOR_COLUMNS, {}))


@dataclass(frozen=True, slots=True)
class PhaseTiming:
    """Repeated timings of one phase.

    samples_s: one per repeat.  basis: "wall" for wall time with the device synchronised, "cpu" for
    the processor time of the single thread that ran, "gpu" for the union of the device's busy
    intervals, "kernels" for summed kernel durations.
    """

    phase: str
    samples_s: tuple[float, ...]
    basis: Literal["wall", "cpu", "gpu", "kernels"] = "wall"

    @property
    def mean_s(self) -> float:
        return float(np.mean(self.samples_s)) if self.samples_s else float("nan")

    @property
    def median_s(self) -> float:
        return self.percentile_s(50)

    @property
    def std_s(self) -> float:
        """Standard deviation of the repeats, NaN for fewer than two."""
        return float(np.std(self.samples_s, ddof=1)) if len(self.samples_s) > 1 else float("nan")

    def percentile_s(self, percent: float) -> float:
        return float(np.percentile(self.samples_s, percent)) if self.samples_s else float("nan")


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measured times in the form of a prediction.

    source: "live" or the format of the report.  system: the device that ran, as detected.
    model, engine, workload: None where unknown.  phases: timings by phase.  operators: a table of
    `OPERATOR_COLUMNS`, with further columns allowed.  steps: of a sweep, which has no workload.
    """

    source: str
    operators: pd.DataFrame
    phases: Mapping[str, PhaseTiming] = field(default_factory=dict)
    system: DeviceInfo | None = None
    model: str | None = None
    engine: str | None = None
    workload: Workload | None = None
    facts: Mapping[str, str | float | int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    steps: tuple[MeasuredStep, ...] = ()


def table(
    columns: Mapping[str, str], data: Mapping[str, Any], rows: int | None = None
) -> pd.DataFrame:
    """A table of exactly `columns`; missing ones are filled as unknown, others refused.

    Args:
        columns: name -> dtype, one of the lists of this module.
        data: name -> array, series or scalar.
        rows: length, needed only where every entry of `data` is a scalar or none is given.

    Raises:
        ReportError: an unknown column, unequal lengths, values of another type, impossible
            numbers.
    """
    unknown = sorted(set(data) - set(columns))
    if unknown:
        raise ReportError(f"no such column: {', '.join(unknown)}; known: {', '.join(columns)}")
    lengths = {len(v) for v in data.values() if not np.isscalar(v) and v is not None}
    if len(lengths) > 1:
        raise ReportError(f"columns of unequal length: {sorted(lengths)}")
    index = pd.RangeIndex(lengths.pop() if lengths else rows or 0)
    try:
        filled = {name: _column(data.get(name), dtype, index) for name, dtype in columns.items()}
    except (TypeError, ValueError, OverflowError) as error:
        raise ReportError(f"a column holds values of the wrong type: {error}") from None
    _refuse_impossible({name: v for name, v in filled.items() if columns[name] == "float64"})
    return pd.DataFrame(filled, index=index, copy=False)


def _refuse_impossible(numbers: Mapping[str, Any]) -> None:
    """Raise where a number is infinite or a time is longer than any capture."""
    for name, values in numbers.items():
        limit = _MAX_SECONDS if name.endswith("_s") else _MAX_AMOUNT
        if bool((np.abs(np.asarray(values)) > limit).any()):
            raise ReportError(f"the report holds an impossible {name}; it is damaged")


def _column(values: Any, dtype: str, index: pd.RangeIndex) -> Any:
    if values is None or np.isscalar(values):
        fill = _FILL[dtype] if values is None else values
        if dtype == "category":
            codes = np.full(len(index), -1 if fill is None else 0, dtype=np.int8)
            return pd.Categorical.from_codes(codes, [] if fill is None else [fill])
        return pd.Series(fill, index=index, dtype=_DTYPES[dtype])
    if isinstance(values, pd.Categorical):
        return values
    if isinstance(values, pd.Series):
        values = values.array
    return pd.Series(values, index=index).astype(_DTYPES[dtype]).array


def kernel_table(data: Mapping[str, Any], rows: int | None = None) -> pd.DataFrame:
    """A checked kernel table.

    Raises:
        ReportError: see `table`; also a negative duration or count.
    """
    kernels = table(KERNEL_COLUMNS, data, rows)
    refuse_negative(kernels, "duration_s", "count", "flops", "dram_bytes")
    return kernels


def copy_table(data: Mapping[str, Any], rows: int | None = None) -> pd.DataFrame:
    """A checked table of copies.

    Raises:
        ReportError: see `table`; also a negative duration or size.
    """
    copies = table(COPY_COLUMNS, data, rows)
    refuse_negative(copies, "duration_s", "count", "bytes")
    return copies


def refuse_negative(frame: pd.DataFrame, *columns: str) -> None:
    """Raise where an amount is below zero."""
    for name in columns:
        if bool((frame[name] < 0).any()):
            raise ReportError(f"the report holds a negative {name}; it is damaged")
