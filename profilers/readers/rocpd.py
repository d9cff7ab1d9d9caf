"""Databases of AMD's rocpd, the SQLite output of rocprofv3.

Every table name ends in the capture's id (`rocpd_kernel_dispatch_0000ddb5_...`); a merged file
holds several captures.  Two generations of the schema are read: with times and places in the rows
themselves, or through `rocpd_timestamp` and `rocpd_track` (ROCm/rocprofiler-sdk,
source/share/rocprofiler-sdk-rocpd/rocpd_tables.sql and data_views.sql).  Views are never used;
nothing about hosts, processes, commands or environments is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genz_core.errors import ReportError
from profilers.readers.columns import (
    MAX_NAME_CHARS,
    categories,
    extents,
    label_of,
    nullable_integers,
)
from profilers.readers.database import ABSENT, Database, opened
from profilers.readers.rocprof_csv import copy_kind
from profilers.schema import (
    RANGE_COLUMNS,
    DeviceInfo,
    Report,
    copy_table,
    kernel_table,
    table,
)
from profilers.timeline import time_spans

FORMAT = "rocpd"
Ints = NDArray[np.int64]
Rows = dict[str, Ints]

_PREFIX = "rocpd_"
_DISPATCH, _COPY, _REGION = "rocpd_kernel_dispatch", "rocpd_memory_copy", "rocpd_region"
_PLACES = ("pid", "agent_id", "queue_id", "stream_id", "tid")
_SIZES = tuple(f"{kind}_size_{axis}" for kind in ("grid", "workgroup") for axis in "xyz")
_MAX_CAPTURES = 64
_NS = 1e-9


def knows(path: Path) -> bool:
    """Whether a SQLite file is a database of rocpd.

    Raises:
        ReportError: it cannot be read.
    """
    with opened(path) as database:
        return bool(database.tables(_PREFIX))


def read(path: Path) -> Report:
    """Read a database.

    Raises:
        ReportError: damaged, hostile, or without a table of dispatches.
    """
    with opened(path) as database:
        suffixes = [name.removeprefix(_DISPATCH) for name in database.tables(_DISPATCH)]
        if not suffixes:
            raise ReportError("this database of rocpd has no table of kernel dispatches")
        if len(suffixes) > _MAX_CAPTURES:
            raise ReportError(f"the database holds over {_MAX_CAPTURES} captures; give fewer")
        captures = [_Capture(database, suffix) for suffix in suffixes]
        return _report(path, captures)


class _Capture:
    """One capture of a database: its kernels, copies and regions on the clock of the tool."""

    def __init__(self, database: Database, suffix: str) -> None:
        self._database, self._suffix = database, suffix
        self.kernels = self._timed(_DISPATCH, ("kernel_id", *_SIZES))
        self.copies = self._timed(_COPY, ("name_id", "size", "dst_agent_id"))
        self.regions = self._timed(_REGION, ("name_id",))
        self.strings = self._texts("rocpd_string", "string")
        self.symbols = self._texts("rocpd_info_kernel_symbol", "kernel_name")
        self.symbols |= self._texts("rocpd_info_kernel_symbol", "display_name")
        self.agents = self._texts("rocpd_info_agent", "name")
        self.agents |= self._texts("rocpd_info_agent", "product_name")

    def _texts(self, name: str, column: str) -> dict[int, str]:
        pairs = self._database.texts(f"{name}{self._suffix}", "id", column)
        return {number: text[:MAX_NAME_CHARS] for number, text in pairs if text}

    def _timed(self, name: str, wanted: tuple[str, ...]) -> Rows:
        """Columns of a table, with start and end [ns] and with agent, queue and stream of its rows.

        Raises:
            ReportError: a row ends before it starts.
        """
        table_name = f"{name}{self._suffix}"
        here = self._database.columns(table_name)
        rows = self._database.integers(
            table_name, (*wanted, *_PLACES, "start", "end", "start_id", "end_id", "track_id")
        )
        if "start" not in here and len(rows["start"]):
            times = self._by_id("rocpd_timestamp", ("value",))
            for side in ("start", "end"):
                rows[side] = _looked_up(times["value"], times["id"], rows[f"{side}_id"])
            tracks = self._by_id("rocpd_track", _PLACES)
            rows |= {
                place: _looked_up(tracks[place], tracks["id"], rows["track_id"])
                for place in _PLACES
            }
        known = (rows["start"] != ABSENT) & (rows["end"] != ABSENT)
        rows = {column: values[known] for column, values in rows.items()}
        if bool((rows["end"] < rows["start"]).any()):
            raise ReportError(f"a row of {name} ends before it starts; the database is damaged")
        order = np.argsort(rows["start"], kind="stable")
        return {column: values[order] for column, values in rows.items()}

    def _by_id(self, name: str, columns: tuple[str, ...]) -> Rows:
        return self._database.integers(f"{name}{self._suffix}", ("id", *columns))


def _looked_up(values: Ints, ids: Ints, wanted: Ints) -> Ints:
    """The value of each wanted id, `ABSENT` where there is none."""
    order = np.argsort(ids, kind="stable")
    if not len(ids):
        return np.full(len(wanted), ABSENT)
    at = np.minimum(np.searchsorted(ids[order], wanted), len(ids) - 1)
    return np.where(ids[order[at]] == wanted, values[order[at]], ABSENT)


def _report(path: Path, captures: list[_Capture]) -> Report:
    starts = [
        int(rows["start"][0])
        for capture in captures
        for rows in (capture.kernels, capture.copies, capture.regions)
        if len(rows["start"])
    ]
    origin = min(starts, default=0)
    kernels = [_kernels(capture, at, origin) for at, capture in enumerate(captures)]
    notes = () if any(len(part) for part in kernels) else ("the report holds no GPU kernels",)
    return Report(
        format=FORMAT,
        tool="rocprof",
        tool_version=None,
        label=label_of(path),
        kernels=_stacked(kernels, kernel_table({})),
        copies=_stacked([_copies(c, at, origin) for at, c in enumerate(captures)], copy_table({})),
        ranges=_ranges(captures, origin),
        devices=_devices(captures),
        notes=notes,
    )


def _stacked(parts: list[pd.DataFrame], empty: pd.DataFrame) -> pd.DataFrame:
    """Tables of several captures concatenated, with the types of the first."""
    full = [part for part in parts if len(part)]
    if len(full) < 2:
        return full[0] if full else empty
    stacked = pd.concat([part.astype(_uncategorised(part)) for part in full], ignore_index=True)
    return stacked.astype({name: empty[name].dtype.name for name in empty})


def _uncategorised(part: pd.DataFrame) -> Mapping[str, str]:
    return {name: "object" for name in part if part[name].dtype.name == "category"}


def _places(rows: Rows, capture: int) -> dict[str, Any]:
    stream = np.where(rows["stream_id"] >= 0, rows["stream_id"], rows["queue_id"])
    return {
        "process": capture,
        "device": nullable_integers(np.maximum(rows["agent_id"], -1)),
        "stream": nullable_integers(np.maximum(stream, -1)),
    }


def _times(rows: Rows, origin: int) -> dict[str, Any]:
    return {
        "start_s": (rows["start"] - origin) * _NS,
        "duration_s": (rows["end"] - rows["start"]) * _NS,
    }


def _kernels(capture: _Capture, at: int, origin: int) -> pd.DataFrame:
    rows = capture.kernels
    names = _named(rows["kernel_id"], capture.symbols)
    grid, block = extents(
        [np.maximum(rows[f"grid_size_{axis}"], 0) for axis in "xyz"],
        [np.maximum(rows[f"workgroup_size_{axis}"], 1) for axis in "xyz"],
    )
    columns = {
        "tool": "rocprof",
        **_places(rows, at),
        **_times(rows, origin),
        "name": names,
        "grid": grid,
        "block": block,
    }
    return kernel_table(columns, len(rows["start"]))


def _named(ids: Ints, names: Mapping[int, str]) -> pd.Categorical:
    """The name of each id; an id without a name is called by its number."""
    codes, unique = pd.factorize(ids)
    shown = [names.get(number) or f"unnamed {number}" for number in unique.tolist()]
    return categories(codes, shown)


def _copies(capture: _Capture, at: int, origin: int) -> pd.DataFrame:
    rows = capture.copies
    codes, unique = pd.factorize(rows["name_id"])
    kinds = [copy_kind(capture.strings.get(number, "")) for number in unique.tolist()]
    size = rows["size"].astype(np.float64)
    columns = {
        **_places(rows, at),
        **_times(rows, origin),
        "kind": categories(codes, kinds),
        "bytes": np.where(size < 0, np.nan, size),
    }
    return copy_table(columns, len(rows["start"]))


def _ranges(captures: list[_Capture], origin: int) -> pd.DataFrame:
    """Regions of all captures: markers, and calls of HIP and HSA where they were traced."""
    tables = []
    for at, capture in enumerate(captures):
        rows = capture.regions
        _, threads = np.unique(rows["tid"], return_inverse=True)
        columns = {
            "name": _named(rows["name_id"], capture.strings),
            "process": at,
            "thread": threads,
            **_times(rows, origin),
            "parent": nullable_integers(
                time_spans.parents(threads.astype(np.int64), rows["start"], rows["end"])
            ),
        }
        tables.append(table(RANGE_COLUMNS, columns, len(rows["start"])))
    offset = 0
    for frame in tables:
        frame["parent"] = frame["parent"] + offset
        offset += len(frame)
    return _stacked(tables, table(RANGE_COLUMNS, {}))


def _devices(captures: list[_Capture]) -> tuple[DeviceInfo, ...]:
    """The agents that ran kernels, by index."""
    found: dict[int, str] = {}
    for capture in captures:
        for agent in np.unique(capture.kernels["agent_id"]).tolist():
            if agent >= 0:
                found.setdefault(agent, capture.agents.get(agent, ""))
    return tuple(DeviceInfo(index=index, name=name) for index, name in sorted(found.items()))
