"""Tables of `nsys stats --format csv`, recognised by their headers, in any time unit.

A file may hold several tables after other output of nsys; the most detailed one about kernels is
used.  Summaries have no timeline, so there is no busy time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from genz_core.errors import ReportError
from profilers.readers import nsys_tables
from profilers.readers.columns import label_of
from profilers.readers.csv_tables import find_tables, read_text
from profilers.readers.nsys_columns import View, folded
from profilers.readers.nsys_tables import TableContents
from profilers.schema import (
    HOST_COLUMNS,
    RANGE_COLUMNS,
    Report,
    copy_table,
    kernel_table,
    table,
)

FORMAT = "nsys-csv"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A report of nsys: the columns that distinguish it, and its reader."""

    columns: frozenset[str]
    read: Callable[[View], TableContents]


def knows(cells: Sequence[str]) -> bool:
    """Whether cells are the header of a report of nsys."""
    return _kind(cells) is not None


def read(path: Path) -> Report:
    """Read a table file.

    Raises:
        ReportError: no known table in it, or a damaged one.
    """
    parts = []
    for csv_table in find_tables(read_text(path), knows):
        kind = _kind(csv_table.header)
        if kind is not None:
            parts.append((_KINDS.index(kind), kind.read(View(csv_table))))
    if not parts:
        raise ReportError("the file has no known table of nsys stats")
    parts.sort(key=lambda part: part[0])
    return _report(path, [part for _, part in parts])


def _kind(cells: Sequence[str]) -> _Kind | None:
    names = {folded(cell)[0] for cell in cells}
    return next((kind for kind in _KINDS if kind.columns <= names), None)


def _report(path: Path, parts: list[TableContents]) -> Report:
    """A report with kernels, copies, ranges and host calls, each from the first table that has
    them.
    """
    kernels = next((p.kernels for p in parts if p.kernels is not None), kernel_table({}))
    copies = next((p.copies for p in parts if p.copies is not None), copy_table({}))
    ranges = next((p.ranges for p in parts if p.ranges is not None), table(RANGE_COLUMNS, {}))
    host = next((p.host for p in parts if p.host is not None), table(HOST_COLUMNS, {}))
    speaking = next((p for p in parts if p.kernels is not None), TableContents())
    notes = [speaking.note] if speaking.note else []
    if not len(kernels):
        notes.append("the table lists no GPU kernels")
    return Report(
        format=FORMAT,
        tool="nsys",
        tool_version=None,
        label=label_of(path),
        kernels=kernels,
        copies=copies,
        ranges=ranges,
        host=host,
        devices=speaking.devices,
        notes=tuple(notes),
    )


def _kinds(*kinds: tuple[str, Callable[[View], TableContents]]) -> tuple[_Kind, ...]:
    return tuple(_Kind(frozenset(columns.split(", ")), read) for columns, read in kinds)


#: Reports of nsys, the most detailed about kernels first, and those with more columns before those
#: with fewer.
_KINDS = _kinds(
    ("start, duration, name, grdx", nsys_tables.gpu_trace),
    ("kernel start, kernel dur, kernel name", nsys_tables.kern_exec_trace),
    ("total time, instances, name", nsys_tables.kern_sum),
    ("total time, instances, category, operation", nsys_tables.gpu_sum),
    ("count, kavg, kernel name", nsys_tables.kern_exec_sum),
    ("nvtx range, kern inst, total time, kernel name", nsys_tables.nvtx_kern_sum),
    ("total time, count, operation", nsys_tables.mem_time_sum),
    ("total, count, operation", nsys_tables.mem_size_sum),
    ("total time, num calls, name", nsys_tables.api_sum),
    ("range, total proj time, range instances", nsys_tables.projection_sum),
    ("total time, instances, range", nsys_tables.range_sum),
    ("name, projected start, projected duration", nsys_tables.projection_trace),
    ("start, end, duration, name, lvl", nsys_tables.range_trace),
    ("start, duration, name, corrid", nsys_tables.api_trace),
)
