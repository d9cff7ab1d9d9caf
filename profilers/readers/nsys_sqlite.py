"""Nsight Systems exports: `nsys export --type sqlite`, schemas of 2020 to 2026.

Tables that a capture did not need are missing, and columns differ by version.  Process and
correlation id together identify a launch.  The host call of a launch lies inside NVTX ranges of its
thread, and the innermost of these is the operator.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genz_core.errors import ReportError
from profilers.readers.columns import categories, label_of, nullable_integers, range_paths
from profilers.readers.database import ABSENT, MAGIC, Database, opened
from profilers.readers.nsys_devices import Devices, read_devices
from profilers.readers.nsys_ranges import PROCESS_MASK, Ranges, read_ranges
from profilers.schema import (
    HOST_COLUMNS,
    Report,
    copy_table,
    kernel_table,
    table,
)
from profilers.timeline import time_spans

FORMAT = "nsys-sqlite"

Ints = NDArray[np.int64]
Rows = dict[str, Ints]
Columns = dict[str, Any]

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"

_LAUNCH_COLUMNS = ("start", "end", "deviceId", "streamId", "correlationId", "globalPid")
_NAME_COLUMNS = ("demangledName", "shortName", "graphNodeId")
_CALL_COLUMNS = ("globalTid", "correlationId", "start", "end", "nameId")

_COPY_KINDS = {1: "HtoD", 2: "DtoH", 3: "HtoA", 4: "AtoH", 5: "AtoA", 6: "AtoD", 7: "DtoA"}
_COPY_KINDS |= {8: "DtoD", 9: "HtoH", 10: "PtoP", 11: "unified HtoD", 12: "unified DtoH"}
_COPY_KINDS |= {13: "unified DtoD"}

_VERSION_SUFFIX = re.compile(r"_v\d+$")
_FACTS = {"EXPORT_SCHEMA_VERSION": "schema_version", "EXPORT_PRODUCT_NAME": "product"}


def sniff(head: bytes) -> bool:
    return head.startswith(MAGIC)


def read(path: Path) -> Report:
    """Read an export.

    Raises:
        ReportError: damaged, hostile, or a database of something else.
    """
    with opened(path) as database:
        if "StringIds" not in database:
            raise ReportError(
                "this SQLite database is not an Nsight Systems export (it has no StringIds table); "
                "export with: nsys export --type sqlite -o report.sqlite report.nsys-rep"
            )
        return _report(path, database)


def _report(path: Path, database: Database) -> Report:
    launches = _launches(database)
    calls = database.integers(_RUNTIME, _CALL_COLUMNS)
    copies = _read_copies(database)
    ranges = read_ranges(database)
    starts = [rows["start"] for rows in (launches, calls, copies)] + [ranges.start]
    origin = min((int(start.min()) for start in starts if len(start)), default=0)
    processes = np.sort(pd.unique(np.concatenate([launches["globalPid"], copies["globalPid"]])))
    devices = read_devices(database, launches["deviceId"], launches["globalPid"])
    metadata = _metadata(database)
    host, notes = _host(database, calls), _notes(launches, copies)
    columns = {
        **_links(launches, calls, ranges, origin),
        **_places(launches, processes, devices, origin),
        **_names(database, launches),
    }
    del calls, launches  # so that a million rows are in memory only once
    return Report(
        format=FORMAT,
        tool="nsys",
        tool_version=metadata.get("EXPORT_PRODUCT_VERSION"),
        label=label_of(path),
        kernels=kernel_table(columns),
        copies=_copies(copies, processes, origin),
        ranges=ranges.to_frame(processes, origin),
        host=host,
        devices=devices.listed,
        facts={_FACTS[key]: value for key, value in metadata.items() if key in _FACTS},
        notes=notes,
    )


def _launches(database: Database) -> Rows:
    """Kernel rows in the order they ran."""
    wanted = {name: name for name in (*_LAUNCH_COLUMNS, *_NAME_COLUMNS)}
    wanted |= {side: _packed_extent(database, side) for side in ("grid", "block")}
    rows = database.integers(_KERNEL, wanted)
    if bool((np.diff(rows["start"]) < 0).any()):
        order = np.argsort(rows["start"], kind="stable")
        rows = {name: values[order] for name, values in rows.items()}
    return rows


def _places(launches: Rows, processes: Ints, devices: Devices, origin: int) -> Columns:
    """Columns of time, device, stream and grid and block size of each kernel."""
    graph = launches["graphNodeId"]
    return {
        "tool": "nsys",
        "process": np.searchsorted(processes, launches["globalPid"]),
        "device": nullable_integers(devices.of_kernel),
        "stream": nullable_integers(launches["streamId"]),
        "start_s": (launches["start"] - origin) * 1e-9,
        "duration_s": (launches["end"] - launches["start"]) * 1e-9,
        "grid": _extents(launches["grid"]),
        "block": _extents(launches["block"]),
        "in_graph": graph > 0,
    }


def _names(database: Database, launches: Rows) -> Columns:
    """Columns of short name and full signature of each kernel."""
    full, short = launches["demangledName"], launches["shortName"]
    strings = _strings(database, full, short)
    signature = _named(full, strings)
    return {"name": _named(np.where(short == ABSENT, full, short), strings), "full_name": signature}


def _links(launches: Rows, calls: Rows, ranges: Ranges, origin: int) -> Columns:
    """Columns of the host call of each kernel, and of the ranges around it."""
    call = _call_of(launches, calls)
    linked = np.flatnonzero(call >= 0)
    linked_calls = {name: calls[name][call[linked]] for name in ("globalTid", "start", "end")}
    range_id = np.full(len(call), -1, dtype=np.int64)
    range_id[linked] = ranges.innermost(
        linked_calls["globalTid"], linked_calls["start"], linked_calls["end"]
    )
    path, operator = range_paths(ranges.names, ranges.name_code, ranges.parent, range_id)
    launch_s = np.full(len(call), np.nan)
    launch_s[linked] = (linked_calls["start"] - origin) * 1e-9
    way = pd.Categorical.from_codes(np.where(range_id >= 0, 0, -1), ["nvtx_range"])
    shape = np.append(ranges.shape_code, -1)[range_id]
    return {
        "launch_s": launch_s,
        "range_id": nullable_integers(range_id),
        "nvtx_path": path,
        "operator": operator,
        "input_shapes": categories(shape, ranges.shapes),
        "attributed_by": way,
    }


def _call_of(launches: Rows, calls: Rows) -> Ints:
    """Row of the host call behind each kernel, -1 for none: same process, same correlation."""
    callers = calls["globalTid"] & PROCESS_MASK
    place, pids = pd.factorize(np.concatenate([launches["globalPid"], callers]))
    correlation = np.concatenate([launches["correlationId"], calls["correlationId"]])
    keys = place * np.int64(1 << 32) + (correlation & 0xFFFFFFFF)
    kernel_keys, call_keys = keys[: len(launches["start"])], keys[len(launches["start"]) :]
    if not len(call_keys) or len(pids) >= 1 << 30:
        return np.full(len(kernel_keys), -1, dtype=np.int64)
    order = time_spans.stable_order(call_keys)
    at = np.minimum(np.searchsorted(call_keys[order], kernel_keys), len(order) - 1)
    return np.where(call_keys[order[at]] == kernel_keys, order[at], -1)


def _packed_extent(database: Database, side: str) -> str:
    """SQL of a grid or block as one integer: 31 bits of x, 16 each of y and z (CUDA's limits)."""
    x, y, z = (database.integer(_KERNEL, f"{side}{axis}") for axis in "XYZ")
    return f"(((({x}) & 2147483647) << 32) | ((({y}) & 65535) << 16) | (({z}) & 65535))"


def _extents(packed: Ints) -> pd.Categorical:
    """ "x,y,z" of packed extents; unknown where one of them is missing."""
    codes, unique = pd.factorize(packed)
    triples = [(p >> 32, (p >> 16) & 0xFFFF, p & 0xFFFF) for p in unique.tolist()]
    valid = np.array([all(triple) for triple in triples] + [False])
    return categories(np.where(valid[codes], codes, -1), [f"{x},{y},{z}" for x, y, z in triples])


def _strings(database: Database, *ids: Ints) -> dict[int, str]:
    """{id: text} of some string ids."""
    wanted = {number for column in ids for number in np.unique(column).tolist()}
    pairs = database.texts("StringIds", "id", "value")
    return {number: text for number, text in pairs if number in wanted}


def _named(ids: Ints, strings: Mapping[int, str]) -> pd.Categorical:
    codes, unique = pd.factorize(ids)
    missing = np.array([number not in strings for number in unique.tolist()] + [True])
    names = [strings.get(number, "") for number in unique.tolist()]
    return categories(np.where(missing[codes], -1, codes), names)


def _read_copies(database: Database) -> Rows:
    """Copies, memory sets and whole graphs; `kind` is the copyKind, 0 for a set, -1 for a graph."""
    columns = (*_LAUNCH_COLUMNS, "bytes", "copyKind")
    parts = [database.integers(name, columns) for name in (_MEMCPY, _MEMSET, _GRAPH)]
    for part, kind in zip(parts[1:], (0, -1), strict=True):
        part["copyKind"] = np.full(len(part["start"]), kind)
    return {name: np.concatenate([part[name] for part in parts]) for name in columns}


def _copies(rows: Rows, processes: Ints, origin: int) -> pd.DataFrame:
    kinds = {**_COPY_KINDS, 0: "memset", -1: "graph"}
    codes, unique = pd.factorize(rows["copyKind"])
    size = rows["bytes"].astype(np.float64)
    columns = {
        "process": np.searchsorted(processes, rows["globalPid"]),
        "device": nullable_integers(rows["deviceId"]),
        "stream": nullable_integers(rows["streamId"]),
        "kind": categories(codes, [kinds.get(kind, "copy") for kind in unique.tolist()]),
        "start_s": (rows["start"] - origin) * 1e-9,
        "duration_s": (rows["end"] - rows["start"]) * 1e-9,
        "bytes": np.where(size < 0, np.nan, size),
    }
    return copy_table(columns)


def _host(database: Database, calls: Rows) -> pd.DataFrame:
    """Runtime and driver calls by name, without the version that nsys appends to it."""
    codes, unique = pd.factorize(calls["nameId"])
    strings = _strings(database, np.asarray(unique, dtype=np.int64))
    names = [_VERSION_SUFFIX.sub("", strings.get(number, "")) for number in unique.tolist()]
    seconds = np.bincount(codes, (calls["end"] - calls["start"]) * 1e-9, minlength=len(names))
    counts = np.bincount(codes, minlength=len(names))
    host = table(HOST_COLUMNS, {"name": names, "count": counts, "time_s": seconds})
    return host.groupby("name", observed=True, as_index=False, sort=False).sum()


def _metadata(database: Database) -> dict[str, str]:
    """Version and schema of the export; nothing of its host."""
    metadata: dict[str, str] = {}
    for name in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        keys = dict(database.texts(name, "rowid", "name"))
        values = dict(database.texts(name, "rowid", "value"))
        wanted = (*_FACTS, "EXPORT_PRODUCT_VERSION")
        metadata |= {
            key: values[row][:100] for row, key in keys.items() if key in wanted and row in values
        }
    return metadata


def _notes(launches: Rows, copies: Rows) -> tuple[str, ...]:
    graphs = copies["copyKind"] == -1
    if bool(graphs.any()):
        total = float((copies["end"] - copies["start"])[graphs].sum()) * 1e-6
        return (
            f"{int(graphs.sum())} CUDA graph launches ({total:.2f} ms) were traced as a whole and "
            "hide their kernels; record with --cuda-graph-trace=node to see them",
        )
    return () if len(launches["start"]) else ("the capture holds no GPU kernels",)
