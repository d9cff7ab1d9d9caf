"""NVTX ranges of an Nsight Systems export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.readers.columns import Labels, ShapeTexts, nullable_integers, range_name
from profilers.readers.database import ABSENT, Database
from profilers.schema import RANGE_COLUMNS, table
from profilers.timeline import time_spans

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NVTX = "NVTX_EVENTS"
#: eventType of ranges pushed and popped on one thread, and of those started and ended anywhere.
_PUSH_POP, _START_END = 59, 60
#: The low 24 bits of a globalTid are the thread, the rest is the process.
PROCESS_MASK = ~np.int64(0xFFFFFF)


@dataclass(frozen=True, slots=True)
class Ranges:
    """NVTX ranges on the clock of the tool [ns], one entry each.

    own_parent: the enclosing range of the same kind.  parent: the enclosing range of any kind.
    `name_code` indexes `names`; `shape_code` indexes `shapes` (JSON of the inputs of an operator
    that PyTorch's `emit_nvtx(record_shapes=True)` names), -1 for none.
    """

    start: Ints
    end: Ints
    thread: Ints
    on_thread: Bools
    own_parent: Ints
    parent: Ints
    name_code: Ints
    names: tuple[str, ...]
    shape_code: Ints
    shapes: tuple[str, ...]

    def innermost(self, thread: Ints, start: Ints, end: Ints) -> Ints:
        """Row of the innermost range around each host call, -1 for none."""
        process = self.thread & PROCESS_MASK
        of_thread = self._innermost(self.on_thread, self.thread, (thread, start, end))
        anywhere = (thread & PROCESS_MASK, start, end)
        return np.where(
            of_thread >= 0, of_thread, self._innermost(~self.on_thread, process, anywhere)
        )

    def _innermost(self, some: Bools, thread: Ints, calls: tuple[Ints, Ints, Ints]) -> Ints:
        spans = (thread, self.start, self.end, self.own_parent)
        return _innermost(np.flatnonzero(some), spans, calls)

    def to_frame(self, processes: Ints, origin: int) -> pd.DataFrame:
        """The ranges table; `processes` are the sorted globalPids that kernels are numbered by."""
        _, threads = np.unique(self.thread, return_inverse=True)
        process = self.thread & PROCESS_MASK
        place = np.searchsorted(processes, process)
        inside = np.minimum(place, max(len(processes) - 1, 0))
        same = processes[inside] == process if len(processes) else np.zeros(len(process), bool)
        columns = {
            "name": pd.Categorical.from_codes(self.name_code, list(self.names)),
            "process": nullable_integers(np.where(same, place, -1)),
            "thread": threads,
            "start_s": (self.start - origin) * 1e-9,
            "duration_s": (self.end - self.start) * 1e-9,
            "parent": nullable_integers(self.parent),
        }
        return table(RANGE_COLUMNS, columns)


def read_ranges(database: Database, label: Callable[[str], str] = range_name) -> Ranges:
    """All closed ranges of the export, with the range that encloses each.

    Args:
        label: shortens the text of a range; by default it drops details that differ from call to
            call, since a long capture has millions of calls.
    """
    wanted = ("rowid", "start", "end", "eventType", "globalTid", "textId")
    rows = database.integers(
        _NVTX, wanted, f"WHERE eventType IN ({_PUSH_POP}, {_START_END}) AND end IS NOT NULL"
    )
    on_thread = rows["eventType"] == _PUSH_POP
    labels, shapes = Labels(label), ShapeTexts()
    codes, shape_codes = _coded(database, rows["rowid"], rows["textId"], (labels.code, shapes.code))
    settled, names = labels.settled()
    own_parent, parent = _parents(rows["globalTid"], rows["start"], rows["end"], on_thread)
    return Ranges(
        start=rows["start"],
        end=rows["end"],
        thread=rows["globalTid"],
        on_thread=on_thread,
        own_parent=own_parent,
        parent=parent,
        name_code=settled[codes],
        names=names,
        shape_code=shape_codes - 1,
        shapes=shapes.texts(),
    )


def _coded(
    database: Database, rowid: Ints, text_id: Ints, coders: Sequence[Callable[[str], int]]
) -> list[Ints]:
    """Code of the text of each range, which is stored inline or by string id; 0 for no text.

    coders: functions that give a text its code; one list of codes for each.
    """
    codes = np.zeros((len(coders), len(rowid)), dtype=np.int64)
    registered = set(text_id[text_id != ABSENT].tolist())
    by_id = {
        number: [code(text) for code in coders]
        for number, text in (database.texts("StringIds", "id", "value") if registered else ())
        if number in registered
    }
    if by_id:
        unique, place = np.unique(text_id, return_inverse=True)
        none = [0] * len(coders)
        codes = np.array([by_id.get(i, none) for i in unique.tolist()], dtype=np.int64).T[:, place]
    pairs = database.texts(_NVTX, "rowid", "text", 'WHERE "text" IS NOT NULL')
    coded = ((number, *(code(text) for code in coders)) for number, text in pairs)
    own = np.fromiter(chain.from_iterable(coded), np.int64).reshape(-1, 1 + len(coders))
    if len(own) and len(rowid):
        order = time_spans.stable_order(rowid)
        at = np.minimum(np.searchsorted(rowid[order], own[:, 0]), len(order) - 1)
        same = rowid[order[at]] == own[:, 0]
        codes[:, order[at[same]]] = own[same, 1:].T
    return list(codes)


def _parents(thread: Ints, start: Ints, end: Ints, on_thread: Bools) -> tuple[Ints, Ints]:
    """The parent of each range among those of its kind; and the same with process-wide ranges as
    parents of the outermost ranges of threads.
    """
    own = np.full(len(start), -1, dtype=np.int64)
    process = thread & PROCESS_MASK
    for rows, key in ((on_thread, thread), (~on_thread, process)):
        at = np.flatnonzero(rows)
        parent_at = time_spans.parents(key[at], start[at], end[at])
        own[at] = np.where(parent_at >= 0, at[parent_at], -1)
    parent = own.copy()
    roots = np.flatnonzero(on_thread & (own < 0))
    calls = (process[roots], start[roots], end[roots])
    spans = (process, start, end, own)
    parent[roots] = _innermost(np.flatnonzero(~on_thread), spans, calls)
    return own, parent


def _innermost(
    rows: Ints, spans: tuple[Ints, Ints, Ints, Ints], calls: tuple[Ints, Ints, Ints]
) -> Ints:
    """The innermost of the ranges `rows` around each call, as a row of all ranges.

    Args:
        spans: (thread, start, end, parent) of all ranges; parents of `rows` are among `rows`.
    """
    if not len(rows):
        return np.full(len(calls[0]), -1, dtype=np.int64)
    thread, start, end, parent = spans
    place = np.full(len(start) + 1, -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    inner = time_spans.innermost((thread[rows], start[rows], end[rows], place[parent[rows]]), calls)
    return np.where(inner >= 0, rows[inner], -1)
