"""The timeline of a report: kernels of each stream as bars, with steps, phases and ranges above.

At most `MAX_BARS` bars are sent to the browser, all from the time span in view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.charts.figure import Figure, Trace, bar
from app.charts.style import CLASS_NAMES, CLASSES, Look, blank, translucent
from app.wording import quantities
from app.wording.markdown import chart_text
from app.wording.quantities import MILLISECOND
from profilers.operators.kernel_classes import ENGINE_CLASS
from profilers.report_text import shortened

#: Number of bars that a browser draws without delay.
MAX_BARS = 2000
#: Number of steps and phases drawn (the longest first), and number shaded behind the bars.
_MOST_BANDS, _MOST_SHADES = 300, 40
_RANGE_SHARE, _RANGE_DEPTH = 0.25, 4
_COPY, _OTHER = "copy", "other"
_KINDS = (*CLASSES, _COPY, _OTHER)
Codes = NDArray[np.int64]
#: Start and end [s] on the report's clock.
Span = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Events:
    """Device activity, one entry per event, sorted by lane and start.

    lane, kind, name: indices into `lanes`, `_KINDS` and `names`.  start_s, end_s: on the report's
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
    classes = kernels["operator_class"].astype(object).map(ENGINE_CLASS)
    parts = [
        _activity(kernels, classes.where(classes.isin(CLASSES), _OTHER), "name"),
        _activity(copies, pd.Series(_COPY, index=copies.index, dtype=object), "kind"),
    ]
    found = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    found = found[found["end_s"] > found["start_s"]]
    lane, lanes = pd.factorize(found["lane"], sort=True)
    order = np.lexsort((found["start_s"].to_numpy(), lane))
    found, lane = found.iloc[order], lane[order]
    name, names = pd.factorize(found["name"])
    kind = pd.Index(_KINDS).get_indexer(found["class"])
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
        group * len(_KINDS) + shown.kind,
        shown.end_s - shown.start_s,
        len(at) * len(_KINDS),
    ).reshape(-1, len(_KINDS))
    names = [
        shown.names[name] if n == 1 else f"{n:,} events"
        for name, n in zip(shown.name[at], count, strict=True)
    ]
    return pd.DataFrame(
        {
            "lane": [shown.lanes[lane] for lane in shown.lane[at]],
            "start_s": start,
            "duration_s": end - start,
            "class": [_KINDS[kind] for kind in spent.argmax(axis=1)] if len(at) else [],
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


def range_bars(
    ranges: pd.DataFrame, span: Span | None = None, most: int = int(MAX_BARS * _RANGE_SHARE)
) -> pd.DataFrame:
    """The longest ranges of the outermost levels within a span: lane, start_s, duration_s, name."""
    timed = ranges.dropna(subset=["start_s", "duration_s"])
    depth = _depths(ranges)[timed.index.to_numpy(dtype=np.int64)] if len(timed) else []
    shown = timed.assign(depth=depth)
    if span is not None:
        shown = shown[_overlaps(shown, span)]
    shown = shown[shown["depth"] < _RANGE_DEPTH].nlargest(most, "duration_s")
    return pd.DataFrame(
        {
            "lane": [f"ranges {level + 1}" for level in shown["depth"]],
            "start_s": shown["start_s"].to_numpy(),
            "duration_s": shown["duration_s"].to_numpy(),
            "name": shown["name"].astype(object).fillna("unnamed").to_numpy(),
        }
    )


def _overlaps(rows: pd.DataFrame, span: Span) -> pd.Series:
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


@dataclass(frozen=True, slots=True)
class Rows:
    """The contents of a timeline.

    activity: of `activity_bars` or `found_bars`.  ranges: of `range_bars`.  bands: of
    `profilers.timeline.window.bands`.
    """

    activity: pd.DataFrame
    ranges: pd.DataFrame
    bands: pd.DataFrame


def timeline(rows: Rows, span: Span, look: Look) -> Figure:
    """Bars of each stream below ranges, steps and phases, one colour per operator class.

    span: shown by the axis [s].
    """
    bands = rows.bands[_overlaps(rows.bands, span)] if len(rows.bands) else rows.bands
    bands = bands.nlargest(_MOST_BANDS, "duration_s")
    lanes = [
        lane for table in (bands, rows.ranges, rows.activity) for lane in sorted(set(table["lane"]))
    ]
    figure = blank(look, "", 158 + 40 * max(len(lanes), 3))
    for phase, words, color in _phases(look):
        of_phase = bands[bands["phase"] == phase]
        if len(of_phase):
            figure.add_trace(_trace(of_phase, words, color))
            whole = of_phase[of_phase["lane"] == "phases"]
            for row in whole.nlargest(_MOST_SHADES, "duration_s").itertuples():
                start = row.start_s / MILLISECOND
                end = start + row.duration_s / MILLISECOND
                figure.add_vrect(start, end, fillcolor=translucent(color, 0.07), layer="below")
    if len(rows.ranges):
        figure.add_trace(_trace(rows.ranges, "Ranges", look.rest))
    figure.add_traces(_activity_traces(rows.activity, look))
    window = [edge / MILLISECOND for edge in span]
    return figure.laid(
        {"title_text": "Time since the first event [ms]", "tickformat": "~g", "range": window},
        {"categoryorder": "array", "categoryarray": lanes[::-1], "showgrid": False,
         "tickfont_color": look.ink, "fixedrange": True, "range": [-0.5, len(lanes) - 0.5],
         "autorange": False},
        barmode="overlay", bargap=0.2, uirevision=str(span), hovermode="closest",
        margin={"t": 40, "b": 96}, dragmode="pan", selectdirection="h",
    )  # fmt: skip


def _phases(look: Look) -> Iterator[tuple[str, str, str]]:
    yield "prefill", "Prefill", look.classes[0]
    yield "decode", "Decode", look.classes[2]
    yield "mixed", "Prefill and decode", look.classes[4]
    yield "", "Steps", look.faint


def _kinds(look: Look) -> Iterator[tuple[str, str, str]]:
    for name in CLASSES:
        yield name, CLASS_NAMES[name], look.class_color(name)
    yield _COPY, "Copies and sets", look.ink
    yield _OTHER, "Unclassified", look.faint


def _activity_traces(activity: pd.DataFrame, look: Look) -> Iterator[Trace]:
    searched = "found" in activity
    for kind, words, color in _kinds(look):
        of_class = activity[activity["class"] == kind]
        if not len(of_class):
            continue
        trace = _trace(of_class, words, color)
        if searched:
            trace["marker"]["opacity"] = np.where(of_class["found"], 1.0, 0.12).tolist()
        yield trace


def _trace(rows: pd.DataFrame, words: str, color: str) -> Trace:
    events = rows["events"] if "events" in rows else [2] * len(rows)
    names = [chart_text(shortened(str(name), 90)) for name in rows["name"]]
    spans = [
        [name, quantities.seconds(length), start, length, int(count)]
        for name, start, length, count in zip(
            names, rows["start_s"], rows["duration_s"], events, strict=True
        )
    ]
    return bar(
        y=rows["lane"].tolist(),
        x=(rows["duration_s"] / MILLISECOND).tolist(),
        base=(rows["start_s"] / MILLISECOND).tolist(),
        orientation="h",
        name=words,
        marker={"color": color, "line": {"width": 0}},
        customdata=spans,
        unselected={"marker": {"opacity": 0.6}},
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} from %{base:.4g} ms<extra>"
        + words
        + "</extra>",
    )
