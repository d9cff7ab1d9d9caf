"""Spans of time: nesting of ranges, the range that encloses a call, and the length of unions."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int64]
Seconds = NDArray[np.float64]

#: Ranges nested deeper than this are ignored in attribution.
MAX_DEPTH = 256
#: Profilers resolve nanoseconds: sums of spans are exact in whole ones.
_TICKS_PER_S, _TICK_S = 1e9, 1e-9


def parents(thread: Int, start: Int, end: Int) -> Int:
    """Row of the range that encloses each range on its thread, -1 for none.

    Args:
        thread, start, end: one entry per range; ranges of a thread need not nest properly.
    """
    order = np.lexsort((-end, start, thread))
    nested = _nested_parents(thread[order], start[order], end[order])
    parent = np.full(len(start), -1, dtype=np.int64)
    if nested is None:
        return _open_parents(order, thread, start, end)
    parent[order] = np.where(nested >= 0, order[nested], -1)
    return parent


def _nested_parents(thread: Int, start: Int, end: Int) -> Int | None:
    """`parents` of ranges sorted by thread and start, level by level; None where they do not nest.

    The parent of a range is the last range before it that is one level up.
    """
    count = len(start)
    if bool((end <= start).any()):
        return None
    times = np.concatenate([start, end])
    ends_first = np.repeat([1, 0], count)
    events = np.lexsort((ends_first, times, np.concatenate([thread, thread])))
    steps = np.where(events < count, 1, -1)
    level = np.cumsum(steps)[events < count] - 1
    if count and (int(level.min()) < 0 or int(level.max()) >= MAX_DEPTH):
        return None
    parent = np.full(count, -1, dtype=np.int64)
    by_level = np.split(np.argsort(level, kind="stable"), np.cumsum(np.bincount(level))[:-1])
    for above, below in itertools.pairwise(by_level):
        parent[below] = above[np.searchsorted(above, below) - 1]
    inner = np.flatnonzero(parent >= 0)
    around = parent[inner]
    whole = (thread[around] == thread[inner]) & (end[around] >= end[inner])
    return parent if bool(whole.all()) else None


def _open_parents(order: Int, thread: Int, start: Int, end: Int) -> Int:
    """`parents` of ranges that need not nest: of the ranges open at the start, the one
    opened last.
    """
    parent = np.full(len(start), -1, dtype=np.int64)
    threads, starts, ends = thread.tolist(), start.tolist(), end.tolist()
    open_rows: list[int] = []
    current = None
    for row in order.tolist():
        if threads[row] != current:
            current = threads[row]
            open_rows.clear()
        while open_rows and ends[open_rows[-1]] <= starts[row]:
            open_rows.pop()
        if open_rows:
            parent[row] = open_rows[-1]
        if len(open_rows) < MAX_DEPTH:
            open_rows.append(row)
    return parent


def innermost(ranges: tuple[Int, Int, Int, Int], calls: tuple[Int, Int, Int]) -> Int:
    """Row of the innermost range that encloses each call, -1 for none.

    Args:
        ranges: (thread, start, end, parent) with `parent` as `parents` gives it.
        calls: (thread, start, end), one entry per call.
    """
    thread, start, end, parent = ranges
    if not len(start):
        return np.full(len(calls[0]), -1, dtype=np.int64)
    row = _latest_started(thread, start, -end, calls[0], calls[1])
    for _ in range(MAX_DEPTH + 1):
        ended = np.flatnonzero((row >= 0) & (end[row] < calls[2]))
        if not len(ended):
            return row
        row[ended] = parent[row[ended]]
    row[(row >= 0) & (end[row] < calls[2])] = -1
    return row


def outermost(parent: Int, row: Int, marks: NDArray[np.bool_]) -> Int:
    """Row of the outermost marked range around each row, itself included; -1 for none.

    Args:
        parent: as `parents` gives it, one entry per range.  row: ranges to start from, -1 for none.
        marks: whether each range counts.
    """
    found = np.full(len(row), -1, dtype=np.int64)
    if not len(parent):
        return found
    for _ in range(MAX_DEPTH + 1):
        inside = row >= 0
        if not bool(inside.any()):
            break
        found = np.where(inside & marks[row], row, found)
        row = np.where(inside, parent[row], -1)
    return found


def _latest_started(thread: Int, start: Int, tie: Int, call_thread: Int, call_start: Int) -> Int:
    """Row of the range on the call's thread that started last before the call, -1 for none."""
    order = np.lexsort((tie, start, thread))
    sorted_thread, sorted_start = thread[order], start[order]
    latest = np.full(len(call_thread), -1, dtype=np.int64)
    by_thread = stable_order(call_thread)
    sorted_calls = call_thread[by_thread]
    for name in sorted_calls[np.flatnonzero(np.diff(sorted_calls, prepend=sorted_calls[:1] - 1))]:
        low, high = np.searchsorted(sorted_thread, [name, name + 1])
        if low == high:
            continue
        first, last = np.searchsorted(sorted_calls, [name, name + 1])
        rows = by_thread[first:last]
        at = low - 1 + np.searchsorted(sorted_start[low:high], call_start[rows], side="right")
        latest[rows] = np.where(at >= low, order[np.maximum(at, 0)], -1)
    return latest


def stable_order(values: Int) -> Int:
    """Stable row order that sorts `values`; cheap where they are already sorted."""
    if bool((values[1:] >= values[:-1]).all()):
        return np.arange(len(values))
    return np.argsort(values, kind="stable")


def resolved(seconds: float) -> float:
    """A time [s] rounded to the whole nanosecond, which is what profilers resolve."""
    return round(seconds * _TICKS_PER_S) * _TICK_S


def union_s(start_s: Seconds, duration_s: Seconds) -> float:
    """Total length [s] of the union of spans, to the whole nanosecond; 0 for none.

    Args:
        start_s, duration_s: one entry per span [s].
    """
    start, duration = (
        np.rint(values * _TICKS_PER_S).astype(np.int64) for values in (start_s, duration_s)
    )
    return union(start, start + duration) * _TICK_S


def union(start: Int, end: Int) -> int:
    """Total length of the union of spans, in the unit of its arguments."""
    if not len(start):
        return 0
    order = stable_order(start)
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    covered = np.concatenate(([start[0]], reach[:-1]))
    return int(np.maximum(end - np.maximum(start, covered), 0).sum())
