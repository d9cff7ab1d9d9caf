"""The timeline of a report: kernels of each stream as bars, with steps, phases and ranges above.

The bars are those of `profilers.operators.activity_bars`, all from the time span in view.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from app.charts.figure import Figure, Trace
from app.charts.parts import lying_bars
from app.charts.style import CLASS_NAMES, Look, blank, translucent
from app.wording import quantities
from app.wording.markdown import chart_text
from app.wording.quantities import MILLISECOND
from genz_core.common.short_repr import shortened
from profilers.operators.activity_bars import COPY, OTHER, Span, overlaps

#: Number of steps and phases drawn (the longest first), and number shaded behind the bars.
_MOST_BANDS, _MOST_SHADES = 300, 40


def timeline(
    activity: pd.DataFrame, ranges: pd.DataFrame, bands: pd.DataFrame, span: Span, look: Look
) -> Figure:
    """Bars of each stream below ranges, steps and phases, one colour per operator class.

    activity: of `activity_bars` or `found_bars`.  ranges: of `range_bars`.  bands: of
    `profilers.timeline.window.bands`.  span: shown by the axis [s].
    """
    bands = bands[overlaps(bands, span)] if len(bands) else bands
    bands = bands.nlargest(_MOST_BANDS, "duration_s")
    lanes = [lane for table in (bands, ranges, activity) for lane in sorted(set(table["lane"]))]
    figure = blank(look, "", 158 + 40 * max(len(lanes), 3))
    phases = (
        ("prefill", "Prefill", look.classes[0]),
        ("decode", "Decode", look.classes[2]),
        ("mixed", "Prefill and decode", look.classes[4]),
        ("", "Steps", look.faint),
    )
    for phase, words, color in phases:
        of_phase = bands[bands["phase"] == phase]
        if len(of_phase):
            figure.add_trace(_trace(of_phase, words, color))
            whole = of_phase[of_phase["lane"] == "phases"]
            for row in whole.nlargest(_MOST_SHADES, "duration_s").itertuples():
                start = row.start_s / MILLISECOND
                end = start + row.duration_s / MILLISECOND
                figure.add_vrect(start, end, fillcolor=translucent(color, 0.07), layer="below")
    if len(ranges):
        figure.add_trace(_trace(ranges, "Ranges", look.rest))
    figure.add_traces(_activity_traces(activity, look))
    window = [edge / MILLISECOND for edge in span]
    return figure.laid(
        {"title_text": "Time since the first event [ms]", "tickformat": "~g", "range": window},
        {"categoryorder": "array", "categoryarray": lanes[::-1], "showgrid": False,
         "tickfont_color": look.ink, "fixedrange": True, "range": [-0.5, len(lanes) - 0.5],
         "autorange": False},
        barmode="overlay", bargap=0.2, uirevision=str(span), hovermode="closest",
        margin={"t": 40, "b": 96}, dragmode="pan", selectdirection="h",
    )  # fmt: skip


def _activity_traces(activity: pd.DataFrame, look: Look) -> Iterator[Trace]:
    """Activity by operator class, copies and the rest; faint where a search found nothing."""
    names = {**CLASS_NAMES, COPY: "Copies and sets", OTHER: "Unclassified"}
    for kind, words in names.items():
        of_class = activity[activity["class"] == kind]
        if len(of_class):
            trace = _trace(of_class, words, look.ink if kind == COPY else look.class_color(kind))
            if "found" in activity:
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
    return lying_bars(
        rows["lane"], rows["duration_s"] / MILLISECOND, words, color,
        f"%{{customdata[0]}}<br>%{{customdata[1]}} from %{{base:.4g}} ms<extra>{words}</extra>",
        base=(rows["start_s"] / MILLISECOND).tolist(), customdata=spans,
        marker={"color": color, "line": {"width": 0}}, unselected={"marker": {"opacity": 0.6}},
    )  # fmt: skip
