"""Bars of a timeline: a report's activity and ranges, merged to as many as a browser draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.operators.kernel_classes import ENGINE_CLASS

#: Number of bars that a browser draws without delay.
MAX_BARS = 2000
_RANGE_SHARE, _RANGE_DEPTH = 0.25, 4
#: Kinds of activity: the engine's operator classes, copies and sets, kernels of no class.
COPY, OTHER = "copy", "other"
KINDS = (*dict.fromkeys(ENGINE_CLASS.values()), COPY, OTHER)
Codes = NDArray[np.int64]
#: Start and end [s] on the report's clock.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Events:
    """Device activity, one entry per event, sorted by lane and start.

    lane, kind, name: indices into `lanes`, `KINDS` and `names`.  start_s, end_s: on the report's
    clock.
    """

    lane: Codes
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    kind: Codes
    name: Codes
    lanes: Sequence[str]
    names: Sequence[str]

    @property
    def span(self) -> Span:
        """From the first start to the last end [s]; 0 to 0 without events."""
        if not len(self.start_s):
            return 0.0, 0.0
        return float(self.start_s.min()), float(self.end_s.max())

    def part(self, rows: NDArray[np.bool_]) -> Events:
        """The events selected by a mask."""
        return Events(
            self.lane[rows], self.start_s[rows], self.end_s[rows], self.kind[rows],
            self.name[rows], self.lanes, self.names,
        )  # fmt: skip

    def within(self, span: Span) -> Events:
        """The events that overlap a span of time."""
        return self.part((self.end_s > span[0]) & (self.start_s < span[1]))

    def called(self, words: str) -> NDArray[np.bool_]:
        """Whether each event's name contains all of `words`, ignoring case, [events]."""
        wanted = words.lower().split()
        found = [all(word in name.lower() for word in wanted) for name in self.names]
        return np.array(found, dtype=bool)[self.name]


def events(kernels: pd.DataFrame, copies: pd.DataFrame) -> Events:
    """Device activity with known times.

    kernels, copies: tables of a `Report`.
    """
    classes = kernels["operator_class"].astype(object).map(ENGINE_CLASS).fillna(OTHER)
    parts = [
        _activity(kernels, classes, "name"),
        _activity(copies, pd.Series(COPY, index=copies.index, dtype=object), "kind"),
    ]
    found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    found = found[found["end_s"] > found["start_s"]]
    lane, lanes = pd.factorize(found["lane"], sort=True)
    order = np.lexsort((found["start_s"].to_numpy(), lane))
    found, lane = found.iloc[order], lane[order]
    name, names = pd.factorize(found["name"])
    kind = pd.Index(KINDS).get_indexer(found["class"])
    start_s, end_s = found["start_s"].to_numpy(), found["end_s"].to_numpy()
    return Events(lane, start_s, end_s, kind, name, list(lanes), [str(one) for one in names])


def _activity(table: pd.DataFrame, kinds: pd.Series, named: str) -> pd.DataFrame:
    timed = (table["start_s"].notna() & table["duration_s"].notna()).to_numpy()
    rows = table[timed]
    start_s = rows["start_s"].to_numpy()
    return pd.DataFrame(
        {
            "lane": _lanes(rows),
            "start_s": start_s,
            "end_s": start_s + rows["duration_s"].to_numpy(),
            "class": kinds[timed].to_numpy(),
            "name": rows[named].astype(object).fillna("unnamed").to_numpy(),
        }
    )


def _lanes(rows: pd.DataFrame) -> NDArray[np.object_]:
    """The lane name of each row, computed once per stream."""
    streams = rows.groupby(["device", "stream"], dropna=False)
    firsts = rows[["device", "stream"]].drop_duplicates()
    number = streams.ngroup()
    names = {
        number.loc[row]: f"GPU {device} · stream {stream}" if pd.notna(device) else "GPU"
        for row, device, stream in firsts.itertuples()
    }
    named = np.array([names[one] for one in range(len(names))], dtype=object)
    return named[number.to_numpy()]


def activity_bars(shown: Events, most: int = MAX_BARS) -> pd.DataFrame:
    """Events merged to at most `most` bars: lane, start_s, duration_s, class, name, events.

    If there are more events, those with the shortest gaps between them are merged into one bar,
    which takes the class of most of its time.  Lanes beyond `most` are omitted.
    """
    first = _first_of_bars(shown, most)
    group = np.cumsum(first) - 1
    at = np.flatnonzero(first)
    start, count = shown.start_s[at], np.diff(np.r_[at, len(first)])
    end = np.maximum.reduceat(shown.end_s, at) if len(at) else start
    spent = np.bincount(
        group * len(KINDS) + shown.kind,
        shown.end_s - shown.start_s,
        len(at) * len(KINDS),
    ).reshape(-1, len(KINDS))
    names = [
        shown.names[name] if n == 1 else f"{n:,} events"
        for name, n in zip(shown.name[at], count, strict=True)
    ]
    return pd.DataFrame(
        {
            "lane": [shown.lanes[lane] for lane in shown.lane[at]],
            "start_s": start,
            "duration_s": end - start,
            "class": [KINDS[kind] for kind in spent.argmax(axis=1)] if len(at) else [],
            "name": names,
            "events": count,
        }
    )[:most]


def _first_of_bars(shown: Events, most: int) -> NDArray[np.bool_]:
    """Whether a new bar starts at each event, [events]; bars are separated at the longest gaps."""
    if not len(shown.lane):
        return np.zeros(0, dtype=bool)
    other = np.r_[True, shown.lane[1:] != shown.lane[:-1]]
    pause = np.r_[np.inf, shown.start_s[1:] - shown.end_s[:-1]]
    pause[other] = np.inf
    parted = np.zeros(len(pause), dtype=bool)
    parted[np.argsort(-pause, kind="stable")[:most]] = True
    return parted | other


def found_bars(shown: Events, found: NDArray[np.bool_], most: int = MAX_BARS) -> pd.DataFrame:
    """`activity_bars` in which no bar mixes events that match a search with others.

    found: whether each event matches.  The table has a further column `found`.
    """
    hits = activity_bars(shown.part(found), most // 2).assign(found=True)
    rest = activity_bars(shown.part(~found), most - len(hits)).assign(found=False)
    return pd.concat([table for table in (rest, hits) if len(table)] or [rest], ignore_index=True)


def range_bars(ranges: pd.DataFrame, span: Span | None = None) -> pd.DataFrame:
    """The longest ranges of the outermost levels within a span: lane, start_s, duration_s, name."""
    timed = ranges.dropna(subset=["start_s", "duration_s"])
    depth = _depths(ranges)[timed.index.to_numpy(dtype=np.int64)] if len(timed) else []
    shown = timed.assign(depth=depth)
    if span is not None:
        shown = shown[overlaps(shown, span)]
    most = int(MAX_BARS * _RANGE_SHARE)
    shown = shown[shown["depth"] < _RANGE_DEPTH].nlargest(most, "duration_s")
    return pd.DataFrame(
        {
            "lane": [f"ranges {level + 1}" for level in shown["depth"]],
            "start_s": shown["start_s"].to_numpy(),
            "duration_s": shown["duration_s"].to_numpy(),
            "name": shown["name"].astype(object).fillna("unnamed").to_numpy(),
        }
    )


def overlaps(rows: pd.DataFrame, span: Span) -> pd.Series:
    """Whether each bar overlaps a span of time."""
    return (rows["start_s"] + rows["duration_s"] > span[0]) & (rows["start_s"] < span[1])


def _depths(ranges: pd.DataFrame) -> Codes:
    """Nesting depth of each range, [ranges], counted up to the depth that is drawn."""
    parent = ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    at, depth = parent.copy(), np.zeros(len(parent), dtype=np.int64)
    for _ in range(_RANGE_DEPTH):
        inside = at >= 0
        depth += inside
        at = np.where(inside, parent[at], -1)
    return depth
