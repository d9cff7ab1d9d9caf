"""Tables of AMD's rocprofv3 (`--output-format csv`), of `rocpd2csv`, and of the older rocprof.

Recognised by their headers: kernel and copy traces, calls of HIP and HSA, markers, counters and
statistics.  Columns are as the tools print them (ROCm/rocprofiler-sdk, source/docs/data and "Using
rocprofv3"); times are nanoseconds on the clock of the machine.  A table of agents is refused, as it
holds no activity.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genz_core.errors import ReportError
from profilers.readers.columns import MAX_NAME_CHARS, extents, label_of, nullable_integers
from profilers.readers.csv_tables import CsvTable, find_tables, read_text
from profilers.schema import (
    HOST_COLUMNS,
    METRIC_COLUMNS,
    RANGE_COLUMNS,
    DeviceInfo,
    Report,
    copy_table,
    kernel_table,
    table,
)
from profilers.timeline import time_spans

FORMAT = "rocprof-csv"
Ints = NDArray[np.int64]
_NS = 1e-9
_AGENT = frozenset({"node_id", "agent_type", "name"})

#: MEMORY_COPY_HOST_TO_DEVICE -> HtoD.
_DIRECTION = re.compile(r"(?:MEMORY_COPY_)?(HOST|DEVICE)_TO_(HOST|DEVICE)$")
_CALL = re.compile(r"_?_?(hip|hsa|roctx|rccl|nccl)_?[A-Z]|hsa_|roctx")
_DOMAIN = re.compile(r"(KERNEL_DISPATCH|MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY|[A-Z_]+_API)$")
_CLONE = re.compile(r"( \[clone [^\]]*\])+$|\.kd$")


class _View:
    """A table by lower-case column names."""

    def __init__(self, source: CsvTable) -> None:
        self.rows = len(source.rows)
        self._source = source
        self._at: dict[str, int] = {}
        for place, cell in enumerate(source.header):
            self._at.setdefault(_folded(cell), place)

    def __contains__(self, name: str) -> bool:
        return name in self._at

    def text(self, name: str) -> list[str]:
        return [cell[:MAX_NAME_CHARS] for cell in self._source.text(self._at.get(name))]

    def integers(self, name: str) -> Ints:
        """A column of whole numbers, exact to the nanosecond.

        Raises:
            ReportError: a cell is not a whole number.
        """
        cells = self.text(name)
        try:
            return np.array([int(cell) for cell in cells], dtype=np.int64)
        except (ValueError, OverflowError):
            wrong = next((cell for cell in cells if not cell.strip().lstrip("-").isdecimal()), "")
            raise ReportError(
                f"{wrong[:40]!r} stands in the column {name!r} of the table, which holds whole "
                "numbers"
            ) from None

    def numbers(self, name: str) -> NDArray[np.float64]:
        return np.array(self._source.numbers(self._at.get(name)), dtype=np.float64)

    def ordinals(self, name: str) -> pd.arrays.IntegerArray:
        """A column of ordinals (the 4 of "Agent 4"); unknown where there is none."""
        numbers = [re.search(r"\d{1,9}", cell) for cell in self.text(name)]
        return nullable_integers([int(found[0]) if found else -1 for found in numbers])


def _folded(cell: str) -> str:
    return cell.strip().lower()


def knows(cells: Sequence[str]) -> bool:
    """Whether cells are the header of a table of rocprof."""
    return _kind(cells) is not None


def read(path: Path) -> Report:
    """Read a table file.

    Raises:
        ReportError: a damaged table, or one without activity.
    """
    parts: dict[str, Any] = {}
    for source in find_tables(read_text(path), knows):
        kind = _kind(source.header)
        if kind is not None:
            for name, value in kind(_View(source)).items():
                parts.setdefault(name, value)
    notes = parts.get("notes", ())
    if "kernels" not in parts:
        notes = (*notes, "the table lists no GPU kernels; kernel_trace.csv has them")
    return Report(
        format=FORMAT,
        tool="rocprof",
        tool_version=None,
        label=label_of(path),
        **{"kernels": kernel_table({}), **parts, "notes": notes},
    )


def agents(path: Path) -> tuple[DeviceInfo, ...]:
    """The GPUs of an agent_info.csv, by the node number that traces use.

    Raises:
        ReportError: it is not such a table, or is damaged.
    """
    for source in find_tables(read_text(path), lambda cells: set(map(_folded, cells)) >= _AGENT):
        view = _View(source)
        names = view.text("product_name" if "product_name" in view else "name")
        rows = zip(view.integers("node_id").tolist(), view.text("agent_type"), names, strict=True)
        return tuple(DeviceInfo(index=at, name=name) for at, kind, name in rows if kind == "GPU")
    raise ReportError("this is not a table of agents")


# ------------------------------------------------------------------------------- traces


def _spans(view: _View, start: str, end: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Start since the first row and duration of each row [s].

    Raises:
        ReportError: a row ends before it starts.
    """
    starts, ends = view.integers(start), view.integers(end)
    if bool((ends < starts).any()):
        raise ReportError("a row of the table ends before it starts; it is damaged")
    origin = int(starts.min()) if len(starts) else 0
    return (starts - origin) * _NS, (ends - starts) * _NS


def _kernel_trace(view: _View) -> Mapping[str, Any]:
    start_s, duration_s = _spans(view, "start_timestamp", "end_timestamp")
    names = _names(view.text("kernel_name"))
    grid, block = _sizes(view)
    columns = {
        "tool": "rocprof",
        "device": view.ordinals("agent_id"),
        "stream": view.ordinals("stream_id" if "stream_id" in view else "queue_id"),
        "name": names,
        "start_s": start_s,
        "duration_s": duration_s,
        "grid": grid,
        "block": block,
    }
    return {"kernels": kernel_table(columns, view.rows)}


def _old_trace(view: _View) -> Mapping[str, Any]:
    """results.csv of the older rocprof: one row per dispatch."""
    start_s, duration_s = _spans(view, "beginns", "endns")
    names = _names(view.text("kernelname"))
    columns = {
        "tool": "rocprof",
        "device": view.ordinals("gpu-id"),
        "stream": view.ordinals("queue-id"),
        "name": names,
        "start_s": start_s,
        "duration_s": duration_s,
    }
    return {"kernels": kernel_table(columns, view.rows)}


def _names(cells: Sequence[str]) -> list[str]:
    """Names without suffixes that the compiler appends: "copy_kernel(float*) [clone .kd]"."""
    return [_CLONE.sub("", cell) for cell in cells]


def _sizes(view: _View) -> tuple[list[str | None], list[str | None]]:
    """Block and grid sizes; the tool counts the threads of the whole grid."""
    if "workgroup_size_x" not in view or "grid_size_x" not in view:
        return [None] * view.rows, [None] * view.rows
    threads = [view.integers(f"grid_size_{axis}") for axis in "xyz"]
    groups = [view.integers(f"workgroup_size_{axis}") for axis in "xyz"]
    return extents(threads, groups)


def _copy_trace(view: _View) -> Mapping[str, Any]:
    start_s, duration_s = _spans(view, "start_timestamp", "end_timestamp")
    kinds = [copy_kind(cell) for cell in view.text("direction")]
    to_device = view.ordinals("destination_agent_id")
    columns = {
        "device": to_device,
        "stream": view.ordinals("stream_id"),
        "kind": kinds,
        "start_s": start_s,
        "duration_s": duration_s,
    }
    return {"copies": copy_table(columns, view.rows)}


def copy_kind(direction: str) -> str:
    """ "HtoD" of "MEMORY_COPY_HOST_TO_DEVICE"."""
    match = _DIRECTION.search(direction.strip().upper())
    return f"{match[1][0]}to{match[2][0]}" if match else "copy"


def _call_trace(view: _View) -> Mapping[str, Any]:
    """Calls of HIP and HSA; markers become ranges."""
    start_s, duration_s = _spans(view, "start_timestamp", "end_timestamp")
    names = view.text("function")
    if all(cell.upper().startswith("MARKER") for cell in view.text("domain")) and view.rows:
        threads, _ = pd.factorize(np.array(view.text("thread_id"), dtype=object))
        return {"ranges": _ranges(names, threads.astype(np.int64), start_s, duration_s)}
    calls = pd.DataFrame({"name": names, "time_s": duration_s, "count": 1})
    return {"host": _host(calls)}


def _host(calls: pd.DataFrame) -> pd.DataFrame:
    summed = calls.groupby("name", sort=False, as_index=False)[["count", "time_s"]].sum()
    return table(HOST_COLUMNS, {name: summed[name] for name in HOST_COLUMNS})


def _ranges(
    names: list[str], threads: Ints, start_s: NDArray[Any], duration_s: NDArray[Any]
) -> pd.DataFrame:
    starts = np.rint(start_s / _NS).astype(np.int64)
    ends = starts + np.rint(duration_s / _NS).astype(np.int64)
    columns = {
        "name": names,
        "thread": threads,
        "start_s": start_s,
        "duration_s": duration_s,
        "parent": nullable_integers(time_spans.parents(threads, starts, ends)),
    }
    return table(RANGE_COLUMNS, columns)


# ------------------------------------------------------------------------------- counters


def _counters(view: _View) -> Mapping[str, Any]:
    """counter_collection: one row per dispatch and counter."""
    dispatches = view.text("dispatch_id")
    codes, unique = pd.factorize(np.array(dispatches, dtype=object))
    first = np.full(len(unique), -1, dtype=np.int64)
    order = np.arange(len(codes))[::-1]
    first[codes[order]] = order
    names = np.array(_names(view.text("kernel_name")), dtype=object)[first]
    columns: dict[str, Any] = {
        "tool": "rocprof",
        "name": names,
        "device": view.ordinals("agent_id")[first],
        "stream": view.ordinals("queue_id")[first],
    }
    if "start_timestamp" in view and "end_timestamp" in view:
        start_s, duration_s = _spans(view, "start_timestamp", "end_timestamp")
        columns |= {"start_s": start_s[first], "duration_s": duration_s[first]}
    metrics = {
        "kernel": codes,
        "name": view.text("counter_name"),
        "value": view.numbers("counter_value"),
    }
    return {
        "kernels": kernel_table(columns, len(first)),
        "metrics": table(METRIC_COLUMNS, metrics, view.rows),
        "notes": ("kernels of a counter collection run one by one: no timeline",),
    }


# ------------------------------------------------------------------------------- statistics


def _statistics(view: _View) -> Mapping[str, Any]:
    """*_stats.csv: calls and total time by name, for kernels, copies or calls."""
    names, counts = view.text("name"), view.integers("calls")
    seconds = view.numbers("totaldurationns") * _NS
    if bool((counts < 0).any()):
        raise ReportError("the table holds a negative number of calls; it is damaged")
    if view.rows and all(_DOMAIN.match(name) for name in names):
        raise ReportError(
            "this table of rocprof sums whole domains; give kernel_trace.csv or kernel_stats.csv"
        )
    if view.rows and all(_DIRECTION.search(name.upper()) for name in names):
        kinds = [copy_kind(name) for name in names]
        return {"copies": copy_table({"kind": kinds, "count": counts, "duration_s": seconds})}
    if view.rows and all(_CALL.match(name) for name in names):
        calls = pd.DataFrame({"name": names, "time_s": seconds, "count": counts})
        return {"host": _host(calls)}
    titles = _names(names)
    columns = {
        "tool": "rocprof",
        "name": titles,
        "count": counts,
        "duration_s": seconds,
    }
    return {"kernels": kernel_table(columns, view.rows)}


def _refused(view: _View) -> Mapping[str, Any]:
    raise ReportError(
        "this table of rocprof describes devices or memory and lists no kernels; give "
        "kernel_trace.csv, kernel_stats.csv or the rocpd database"
    )


#: Columns that identify a table -> its reader; tables with more columns before those with fewer.
_KINDS: tuple[tuple[frozenset[str], Callable[[_View], Mapping[str, Any]]], ...] = tuple(
    (frozenset(columns.split(", ")), read_table)
    for columns, read_table in (
        ("kernel_name, counter_name, counter_value, dispatch_id", _counters),
        ("kernel_name, start_timestamp, end_timestamp", _kernel_trace),
        ("direction, start_timestamp, end_timestamp", _copy_trace),
        ("domain, function, start_timestamp, end_timestamp", _call_trace),
        ("kernelname, beginns, endns", _old_trace),
        ("name, calls, totaldurationns", _statistics),
        ("node_id, agent_type, cu_count", _refused),
        ("kind, operation, allocation_size, start_timestamp", _refused),
    )
)


def _kind(cells: Sequence[str]) -> Callable[[_View], Mapping[str, Any]] | None:
    names = {_folded(cell) for cell in cells}
    return next((read_table for columns, read_table in _KINDS if columns <= names), None)
