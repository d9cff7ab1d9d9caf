"""The tables of a torch trace: kernels tied to their operators, copies, annotations, devices."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.readers.columns import MAX_NAME_CHARS, label_of, nullable_integers, range_paths
from profilers.readers.torch_header import devices_of, facts_of
from profilers.schema import (
    HOST_COLUMNS,
    RANGE_COLUMNS,
    WAIT_COLUMNS,
    DeviceInfo,
    Report,
    copy_table,
    kernel_table,
    table,
)
from profilers.timeline import time_spans

FORMAT = "torch-trace"

#: A launch: start, end, "External id", whether it launches a graph, and thread.
Launch = tuple[float, float, Hashable, bool, int]
#: An operator: its name, and JSON of the shapes, types and plain values of its inputs.
Operator = tuple[str, str | None, str | None, str | None]
Called = TypeVar("Called")


@dataclass(slots=True)
class Calls(Generic[Called]):
    """Calls on the host in packed arrays: name, start and end [us], ordinal of the thread."""

    what: list[Called] = field(default_factory=list)
    start_us: array[float] = field(default_factory=lambda: array("d"))
    end_us: array[float] = field(default_factory=lambda: array("d"))
    threads: array[int] = field(default_factory=lambda: array("q"))

    def add(self, called: Called, start_us: float, duration_us: float, thread: int) -> None:
        """Append a call."""
        self.what.append(called)
        self.start_us.append(start_us)
        self.end_us.append(start_us + duration_us)
        self.threads.append(thread)

    def spans(self, origin: float) -> tuple[time_spans.Int, time_spans.Int, time_spans.Int]:
        """(thread, start, end) of all calls, in nanoseconds since the origin."""
        return (
            np.array(self.threads, dtype=np.int64),
            _nanoseconds(self.start_us, origin),
            _nanoseconds(self.end_us, origin),
        )


@dataclass(slots=True)
class TraceEvents:
    """The events of a trace that are kept, times in microseconds; the lists about kernels are
    parallel.
    """

    names: list[str] = field(default_factory=list)
    times: list[tuple[float, float, int, int]] = field(default_factory=list)  # ts dur device stream
    links: list[tuple[Hashable, Hashable, bool]] = field(default_factory=list)
    shapes: list[tuple[str | None, str | None]] = field(default_factory=list)  # grid, block
    copies: list[tuple[str, float, float, int, int, float]] = field(default_factory=list)
    launches: dict[Hashable, Launch] = field(default_factory=dict)
    operators: dict[Hashable, Operator] = field(default_factory=dict)
    operator_calls: Calls[Operator] = field(default_factory=Calls)
    module_calls: Calls[str] = field(default_factory=Calls)
    waits: list[tuple[float, float]] = field(default_factory=list)  # start, end
    annotations: list[tuple[str, float, float]] = field(default_factory=list)
    device_annotations: list[tuple[str, float, float]] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    call_us: dict[str, float] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    text_chars: int = 0
    kept: int = 0
    seen: int = 0
    _threads: dict[Hashable, int] = field(default_factory=dict)
    _operators: dict[Operator, Operator] = field(default_factory=dict)

    def thread(self, name: Hashable) -> int:
        """Ordinal of a thread."""
        return self._threads.setdefault(name, len(self._threads))

    def operator(self, operator: Operator) -> Operator:
        """The stored copy of an operator, since many calls have the same name and inputs."""
        return self._operators.setdefault(operator, operator)


def build_report(path: Path, events: TraceEvents, header: dict[str, Any]) -> Report:
    """The report of a trace from its kept events and its header."""
    origin = origin_of(events)
    ranges = _ranges(events, origin)
    kernels = _kernels(events, origin, ranges)
    facts = facts_of(header)
    used = sorted(kernels["device"].dropna().unique().tolist())
    own_device = (DeviceInfo(name=str(facts["run_device"])),) if facts.get("run_device") else ()
    return Report(
        format=FORMAT,
        tool="torch",
        tool_version=None,
        label=label_of(path),
        kernels=kernels,
        copies=_copies(events, origin),
        ranges=ranges,
        host=_host(events),
        waits=_waits(events, origin),
        devices=devices_of(header, used) or own_device,
        facts=facts,
        notes=_notes(kernels),
    )


def origin_of(events: TraceEvents) -> float:
    """Start of the first kept event [us]."""
    return min(
        [t[0] for t in events.times]
        + [c[1] for c in events.copies]
        + [a[1] for a in events.annotations]
        + [launch[0] for launch in events.launches.values()],
        default=0.0,
    )


def _nanoseconds(microseconds: Any, origin: float) -> time_spans.Int:
    """Nanoseconds since the origin; the format gives microseconds with three decimals."""
    return np.rint((np.asarray(microseconds, dtype=np.float64) - origin) * 1e3).astype(np.int64)


def _ranges(events: TraceEvents, origin: float) -> pd.DataFrame:
    starts = _nanoseconds([a[1] for a in events.annotations], origin)
    ends = _nanoseconds([a[2] for a in events.annotations], origin)
    columns = {
        "name": [a[0][:MAX_NAME_CHARS] for a in events.annotations],
        "process": 0,
        "start_s": starts * 1e-9,
        "duration_s": (ends - starts) * 1e-9,
        "parent": nullable_integers(
            time_spans.parents(np.zeros(len(starts), dtype=np.int64), starts, ends)
        ),
    }
    return table(RANGE_COLUMNS, columns)


def _kernels(events: TraceEvents, origin: float, ranges: pd.DataFrame) -> pd.DataFrame:
    launches = [events.launches.get(correlation) for _, correlation, _ in events.links]
    in_graph = [
        graph or (launch is not None and launch[3])
        for (_, _, graph), launch in zip(events.links, launches, strict=True)
    ]
    operators = [
        None if graph else _operator(events, link, launch)
        for link, launch, graph in zip(events.links, launches, in_graph, strict=True)
    ]
    eager = [None if graph else at for at, graph in zip(launches, in_graph, strict=True)]
    _add_operators_around(events, origin, eager, in_graph, operators)
    range_id = _range_ids(events, origin, launches)
    parent = ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    labels = ranges["name"].cat
    path, _ = range_paths(
        labels.categories.tolist(), labels.codes.to_numpy(np.int64), parent, range_id
    )
    launch_us = [origin if launch is None else launch[0] for launch in launches]
    unlaunched = np.array([launch is None for launch in launches], dtype=bool)
    return kernel_table(
        {
            "tool": "torch",
            "process": 0,
            "device": nullable_integers([t[2] for t in events.times]),
            "stream": nullable_integers([t[3] for t in events.times]),
            "name": events.names,
            "start_s": _nanoseconds([t[0] for t in events.times], origin) * 1e-9,
            "duration_s": _nanoseconds([t[1] for t in events.times], 0.0) * 1e-9,
            "grid": [grid for grid, _ in events.shapes],
            "block": [block for _, block in events.shapes],
            "in_graph": in_graph,
            "launch_s": np.where(unlaunched, np.nan, _nanoseconds(launch_us, origin) * 1e-9),
            "range_id": nullable_integers(range_id),
            "nvtx_path": path,
            "module": _module_paths(events, origin, eager),
            "operator": [o and o[0] for o in operators],
            "input_shapes": [o and o[1] for o in operators],
            "input_types": [o and o[2] for o in operators],
            "input_values": [o and o[3] for o in operators],
            "attributed_by": [o and "torch_link" for o in operators],
        }
    )


def _operator(
    events: TraceEvents, link: tuple[Hashable, Hashable, bool], launch: Launch | None
) -> Operator | None:
    """The operator of a kernel, by its own id or its launch's id, unless that id is the
    correlation.
    """
    external, correlation, _ = link
    ids = (external, launch[2] if launch else None)
    named = (events.operators.get(name) for name in ids if name is not None and name != correlation)
    return next(filter(None, named), None)


def _rows_around(calls: Calls[Any], origin: float, launches: list[Launch]) -> time_spans.Int:
    """Row of the innermost call around each launch on its thread, -1 for none."""
    thread, start, end = calls.spans(origin)
    parent = time_spans.parents(thread, start, end)
    at = np.array([launch[4] for launch in launches], dtype=np.int64)
    began, ended = (_nanoseconds([launch[side] for launch in launches], origin) for side in (0, 1))
    return time_spans.innermost((thread, start, end, parent), (at, began, ended))


def _add_operators_around(
    events: TraceEvents,
    origin: float,
    launches: list[Launch | None],
    in_graph: list[bool],
    operators: list[Operator | None],
) -> None:
    """Fill in the operators of kernels that no id names: the innermost operator around their
    launch, or one whose id is the correlation.
    """
    lost = [i for i, launch in enumerate(launches) if launch is not None and operators[i] is None]
    calls = [launch for i in lost if (launch := launches[i]) is not None]
    rows = _rows_around(events.operator_calls, origin, calls).tolist() if calls else []
    for i, row in zip(lost, rows, strict=True):
        operators[i] = events.operator_calls.what[row] if row >= 0 else None
    for i, (external, correlation, _) in enumerate(events.links):
        if operators[i] is None and not in_graph[i] and external == correlation:
            operators[i] = events.operators.get(correlation)


def _module_paths(
    events: TraceEvents, origin: float, launches: list[Launch | None]
) -> pd.Categorical | None:
    """Path of the modules around each launch, outermost first; None without a module stack."""
    modules = events.module_calls
    if not modules.what:
        return None
    names = {name: code for code, name in enumerate(dict.fromkeys(modules.what))}
    codes = np.array([names[name] for name in modules.what], dtype=np.int64)
    launched = np.array([i for i, launch in enumerate(launches) if launch], dtype=np.int64)
    calls = [launch for launch in launches if launch is not None]
    rows = np.full(len(launches), -1, dtype=np.int64)
    rows[launched] = _rows_around(modules, origin, calls)
    parent = time_spans.parents(*modules.spans(origin))
    path, _ = range_paths(list(names), codes, parent, rows)
    return path


def _range_ids(
    events: TraceEvents, origin: float, launches: list[Launch | None]
) -> NDArray[np.int64]:
    """Row of the innermost annotation around each kernel's launch, -1 for none.

    Where the launch was not recorded, the device's copy of the annotations around the kernel is
    used.
    """
    range_id = np.full(len(launches), -1, dtype=np.int64)
    launched = np.array([i for i, launch in enumerate(launches) if launch], dtype=np.int64)
    calls = [launches[i] for i in launched]
    range_id[launched] = enclosing(
        [(a[1], a[2]) for a in events.annotations], [(c[0], c[1]) for c in calls if c], origin
    )
    first_of_name = {name: row for row, (name, _, _) in reversed([*enumerate(events.annotations)])}
    mirrored = [m for m in events.device_annotations if m[0] in first_of_name]
    lost = np.flatnonzero(range_id < 0)
    inside = enclosing(
        [(m[1], m[2]) for m in mirrored],
        [(events.times[i][0], events.times[i][0] + events.times[i][1]) for i in lost],
        origin,
    )
    rows = np.array([first_of_name[m[0]] for m in mirrored] + [-1], dtype=np.int64)
    range_id[lost] = rows[inside]
    return range_id


def enclosing(
    spans: list[tuple[float, float]], calls: list[tuple[float, float]], origin: float
) -> NDArray[np.int64]:
    """Row of the innermost span around each call, -1 for none.  Times in microseconds."""
    start, end = (_nanoseconds([s[side] for s in spans], origin) for side in (0, 1))
    one_thread = np.zeros(len(spans), dtype=np.int64)
    parent = time_spans.parents(one_thread, start, end)
    call_start, call_end = (_nanoseconds([c[side] for c in calls], origin) for side in (0, 1))
    its_thread = np.zeros(len(calls), dtype=np.int64)
    return time_spans.innermost(
        (one_thread, start, end, parent), (its_thread, call_start, call_end)
    )


def _copies(events: TraceEvents, origin: float) -> pd.DataFrame:
    copies = events.copies
    return copy_table(
        {
            "process": 0,
            "device": nullable_integers([c[3] for c in copies]),
            "stream": nullable_integers([c[4] for c in copies]),
            "kind": [c[0] for c in copies],
            "start_s": _nanoseconds([c[1] for c in copies], origin) * 1e-9,
            "duration_s": _nanoseconds([c[2] for c in copies], 0.0) * 1e-9,
            "bytes": np.array([c[5] for c in copies], dtype=np.float64),
        },
    )


def _waits(events: TraceEvents, origin: float) -> pd.DataFrame:
    """Calls in which the host waited for the device."""
    start, end = (_nanoseconds([wait[side] for wait in events.waits], origin) for side in (0, 1))
    return table(WAIT_COLUMNS, {"start_s": start * 1e-9, "duration_s": (end - start) * 1e-9})


def _host(events: TraceEvents) -> pd.DataFrame:
    names = list(events.call_us)
    return table(
        HOST_COLUMNS,
        {
            "name": names,
            "count": [events.calls[name] for name in names],
            "time_s": [events.call_us[name] * 1e-6 for name in names],
        },
    )


def _notes(kernels: pd.DataFrame) -> tuple[str, ...]:
    if not len(kernels):
        return (
            "the trace holds no device kernels: it was taken on a CPU, or records only the host",
        )
    unlinked = int(kernels["attributed_by"].isna().sum())
    graphs = int(kernels["in_graph"].fillna(False).sum())
    notes = []
    if graphs:
        notes.append(f"{graphs} kernels ran in a graph, whose launch names no operators")
    if unlinked > graphs:
        notes.append(f"{unlinked - graphs} kernels have no recorded launch or operator")
    return tuple(notes)
