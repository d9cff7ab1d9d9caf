"""Step times of scenarios side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.charts.breakdown import bar_end_s, bar_label, error_bars
from app.charts.figure import Figure, Trace
from app.charts.parts import lay_bars, time_bars
from app.charts.style import CLASS_NAMES, CLASSES, HOST, Look, blank
from app.scenario.intervals import Latency
from app.wording import quantities
from app.wording.quantities import MILLISECOND


def stacked_by_class(
    totals: Mapping[str, Latency],
    tables: Sequence[Mapping[str, Latency]],
    title: str,
    look: Look,
) -> Figure:
    """Time of a step in each scenario as stacked bars by operator class on one axis.

    totals: the step of each scenario; its interval is the error bar.  tables: one mapping per
    scenario with latency by class; "host" holds host and pipeline time.
    """
    kinds = {kind for table in tables for kind, value in table.items() if value.seconds}
    figure = blank(look, title, 130 + 62 * len(totals) + 15 * len(kinds))
    places = {bar_label(name, total): total for name, total in totals.items()}
    for kind in (*CLASSES, "host"):
        values = [table.get(kind, Latency(0.0)) for table in tables]
        if any(value.seconds for value in values):
            figure.add_trace(_bar(list(places), values, kind, look))
    figure.add_trace(error_bars(places, look))
    longest = max(map(bar_end_s, totals.values()), default=0.0) / MILLISECOND
    lay_bars(figure, look, "Time [ms]", bottom=110, gap=0.4, range=[0, longest * 1.05])
    return figure


def _bar(names: Sequence[str], values: Sequence[Latency], kind: str, look: Look) -> Trace:
    words = CLASS_NAMES.get(kind, HOST)
    color = look.rest if kind == "host" else look.class_color(kind)
    trace = time_bars(names, [value.seconds for value in values], words, color)
    return trace | {
        "customdata": [[quantities.seconds(value.seconds), value.trust] for value in values],
        "hovertemplate": f"{words}: %{{customdata[0]}}<br>80 %: %{{customdata[1]}}<extra></extra>",
    }
