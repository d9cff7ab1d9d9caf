"""Panel of a report's timeline: search, zoom, figures of the visible span, the longest gaps."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.charts import timeline as charts
from app.dashboard import display_tables, export
from app.dashboard.caches import ByteCache
from app.dashboard.page_texts import page_text
from app.dashboard.panels.compared_run import IDLE
from app.measuring.report_reading import size_of
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.common.memo import ByIdentity
from genz_core.common.short_repr import shortened
from profilers import Report
from profilers.comparison.findings import Finding
from profilers.operators import activity_bars as bars
from profilers.operators.activity_bars import Span
from profilers.timeline.chrome_trace import chrome_trace, file_stem
from profilers.timeline.gaps import gaps
from profilers.timeline.idle import CAUSES
from profilers.timeline.window import bands, window_statistics

_CHART = "timeline"
_LOOKED_AT, _SELECTED = "timeline_span", "timeline_selected"
#: Rows of the table of kernels found.
_MOST_FOUND = 200
#: Most characters of a name in a search, and of a name from a finding.
_SEARCHED, _NAMED = 200, 140
#: Margins around a kernel and around longer spans, as shares of their length.
_AROUND_ONE, _AROUND = 3.0, 0.05


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Data for every redraw of a report's timeline; `report` is always the same object.

    views: the bars and statistics of the spans last looked at.
    """

    report: Report
    events: bars.Events
    bands: pd.DataFrame
    gaps: pd.DataFrame
    views: ByIdentity[Any] = field(default_factory=lambda: ByIdentity(4))


_PREPARED = ByteCache[_Prepared](most_bytes=256 << 20, ttl_s=1800.0)


def _prepared(report: Report) -> _Prepared:
    key = id(report)
    held = _PREPARED.get(key)
    if held is None or held.report is not report:
        events = bars.events(report.kernels, report.copies)
        held = _Prepared(report, events, bands(report), gaps(report))
        _PREPARED.put(key, held, 2 * size_of(report))
    return held


@st.fragment
def show_timeline(report: Report) -> None:
    """Draw the streams over time, and below them the figures of the visible span."""
    prepared = _prepared(report)
    if not len(prepared.events.lane):
        st.info(page_text("no start times"))
        return
    if st.session_state.get("timeline_of") != report.label:
        _look_at(None)
        st.session_state["timeline_of"] = report.label
    whole = prepared.events.span
    span: Span = st.session_state.get(_LOOKED_AT) or whole
    words = _controls(span, whole)
    _chart(prepared, words, span)
    _statistics(prepared, st.session_state.get(_SELECTED) or span)
    if words:
        _found(prepared.events, words)
    _gaps(prepared.gaps)
    export.save_button(
        "Open in Perfetto", lambda: chrome_trace(report), f"{file_stem(report)}.perfetto.json",
        key="perfetto", icon=":material/open_in_new:", help=page_text("perfetto"),
    )  # fmt: skip


def _look_at(span: Span | None) -> None:
    """Zoom to a span, None for the whole report; for callbacks and before the chart is drawn."""
    st.session_state[_LOOKED_AT] = span
    st.session_state[_SELECTED] = None


def look_at(report: Report, finding: Finding) -> None:
    """Zoom to the longest gap or launch that a finding is about; a callback."""
    prepared = _prepared(report)
    if finding.kind in IDLE:
        for row in prepared.gaps[:1].itertuples():
            _look_at(_around(row.start_s, row.duration_s, 0.5))
        return
    events, words = prepared.events, finding.kernels  # the most important first
    short = {name: shortened(str(name), _NAMED) for name in events.names}
    found = [name for name in short if words.startswith(short[name])]
    if not found:
        return
    name = str(max(found, key=len))[:_SEARCHED]
    hits = events.part(events.called(name))
    at = int(np.argmax(hits.end_s - hits.start_s))
    start_s, end_s = float(hits.start_s[at]), float(hits.end_s[at])
    _look_at(_around(start_s, end_s - start_s, _AROUND_ONE))
    st.session_state["timeline_search"] = name


def _controls(span: Span, whole: Span) -> str:
    """Draw the search box and the buttons that move the span; returns the words to search for."""
    length = span[1] - span[0]
    with st.container(horizontal=True, vertical_alignment="bottom"):
        words = st.text_input(
            "Search kernels", key="timeline_search", max_chars=_SEARCHED,
            placeholder="part of a name", icon=":material/search:", width=260,
        )  # fmt: skip
        for label, symbol, target in (
            ("Earlier", "chevron_left", (span[0] - length / 2, span[1] - length / 2)),
            ("Later", "chevron_right", (span[0] + length / 2, span[1] + length / 2)),
            ("Wider", "zoom_out", (span[0] - length, span[1] + length)),
            ("Whole report", "fit_width", None),
        ):
            moved = None if target is None else _inside(target, whole)
            st.button(
                label, key=f"timeline_{symbol}", icon=f":material/{symbol}:",
                on_click=_look_at, args=(moved,), disabled=span == whole,
            )  # fmt: skip
        selected = st.session_state.get(_SELECTED)
        st.button(
            "Zoom to selection", key="timeline_zoom", icon=":material/zoom_in:",
            on_click=_look_at, args=(selected,), disabled=selected is None,
            help="With Box Select above the chart, drag over a span of time.",
        )  # fmt: skip
    return words.strip()


def _inside(span: Span, whole: Span) -> Span | None:
    """A span moved and cut to lie in the whole one; None if it is all of it."""
    length = min(span[1] - span[0], whole[1] - whole[0])
    start = min(max(span[0], whole[0]), whole[1] - length)
    moved = (start, start + length)
    return None if moved == whole else moved


def _around(start_s: float, duration_s: float, share: float) -> Span:
    """A span around an event, wide enough to show both of its edges."""
    beside = max(duration_s * share, 1e-9)
    return start_s - beside, start_s + duration_s + beside


def _chart(prepared: _Prepared, words: str, span: Span) -> None:
    def read() -> tuple[pd.DataFrame, pd.DataFrame, str]:
        shown = prepared.events.within(span)
        ranges = bars.range_bars(prepared.report.ranges, span)
        if not words:
            return bars.activity_bars(shown), ranges, ""
        found = shown.called(words)
        return bars.found_bars(shown, found), ranges, f"{int(found.sum()):,} found among "

    activity, ranges, hits = prepared.views.get(read, values=("bars", words, span))
    figure = charts.timeline(activity, ranges, prepared.bands, span, export.look())
    alt = "Activity of each device stream over time"
    export.chart(figure, _CHART, alt, clicked=_clicked, spans=True)
    events, length, start = int(activity["events"].sum()), span[1] - span[0], max(span[0], 0.0)
    drawn = {"events": events, "bars": len(activity), "length": length, "start": start}
    st.caption(hits + page_text("timeline", **drawn))


def _clicked() -> None:
    """Zoom to the clicked bar, or keep the dragged span."""
    selection = st.session_state[_CHART]["selection"]
    boxes, points = selection.get("box", []), selection["points"]
    if boxes:
        first, last = sorted(edge * quantities.MILLISECOND for edge in boxes[-1]["x"])
        st.session_state[_SELECTED] = (first, last)
    elif points:
        _, _, start_s, duration_s, events = points[0]["customdata"]
        _look_at(_around(start_s, duration_s, _AROUND_ONE if events == 1 else _AROUND))
    else:
        st.session_state[_SELECTED] = None


def _statistics(prepared: _Prepared, span: Span) -> None:
    found = prepared.views.get(
        lambda: window_statistics(prepared.report, *span), values=("statistics", span)
    )
    dragged = st.session_state.get(_SELECTED) is not None
    st.markdown("**Selection**" if dragged else "**In view**")
    with st.grid(5, min_column_width=120):
        st.metric("Span", quantities.seconds(found.span_s))
        st.metric("Launches", f"{found.launches:,}")
        st.metric("Kernel time", quantities.seconds(found.kernel_s))
        st.metric("Busy", quantities.seconds(found.busy_s))
        st.metric("Idle", quantities.percent(found.idle_share))
    with st.expander("Kernels in this span", key="timeline_kernels"):
        table = found.by_name.head(_MOST_FOUND)
        display_tables.draw_times(table, "timeline_names", height="auto")


def _found(events: bars.Events, words: str) -> None:
    """Draw the longest kernels that were found; a row zooms to its kernel."""
    hits = events.part(events.called(words))
    if not len(hits.lane):
        st.caption(f"No kernel or copy name contains {plain(words)}.")
        return
    longest = np.argsort(-(hits.end_s - hits.start_s), kind="stable")[:_MOST_FOUND]
    table = pd.DataFrame(
        {
            "start_s": hits.start_s[longest],
            "duration_s": (hits.end_s - hits.start_s)[longest],
            "name": [hits.names[name] for name in hits.name[longest]],
            "stream": [hits.lanes[lane] for lane in hits.lane[longest]],
        }
    )
    total = float((hits.end_s - hits.start_s).sum())
    st.markdown(page_text("found events", events=len(hits.lane), total=total))
    _rows_that_zoom(table, "timeline_found", _AROUND_ONE)


def _gaps(table: pd.DataFrame) -> None:
    """Draw the longest gaps; a row zooms to its gap."""
    if not len(table):
        return
    with st.expander(f"Longest gaps ({len(table)})", key="timeline_gaps_open"):
        st.caption("Spans in which a device was idle. Select a row to zoom to its gap.")
        words = table.assign(cause=table["cause"].map(CAUSES))
        words = words.drop(columns="device") if words["device"].nunique() < 2 else words
        _rows_that_zoom(words, "timeline_gaps", 0.5)


def _rows_that_zoom(table: pd.DataFrame, key: str, share: float) -> None:
    """Draw a table with start_s and duration_s; choosing a row looks at its span."""

    def zoom() -> None:
        chosen = st.session_state[key]["selection"]["rows"]
        if chosen:
            row = table.iloc[chosen[0]]
            _look_at(_around(float(row["start_s"]), float(row["duration_s"]), share))

    display_tables.draw_times(table, key, height=250, on_select=zoom, selection_mode="single-row")
