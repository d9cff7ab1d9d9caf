"""Headline figures and memory of setups side by side."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.charts.breakdown import bar_end_s, bar_label, error_bars, stacked_bars
from app.charts.figure import Figure
from app.charts.memory import PARTS, part_bars
from app.charts.parts import interval_reach, lay_bars, limit_mark, lying_bars
from app.charts.style import KIND_NAMES, Look, blank
from app.decide.comparison import HEADLINES, Figures, best
from app.scenario.intervals import Ranged
from app.wording import quantities
from app.wording.quantities import GIGABYTE, MILLISECOND

#: Ratio of the largest to the smallest value from which an axis is logarithmic.
_WIDE = 20.0


def headline(table: Mapping[str, Figures], name: str, look: Look) -> Figure:
    """One figure of every setup as bars with 80 % intervals; the best has another colour."""
    about, first = HEADLINES[name], best(table, name)
    known = {
        label: found[name] for label, found in table.items() if math.isfinite(found[name].value)
    }
    scale = {"s": 1e-3, "bytes": GIGABYTE}.get(about.unit, 1.0)
    unit = {"s": "ms", "bytes": "GB"}.get(about.unit, about.unit)
    figure = blank(look, f"{about.head} [{unit}]", 90 + 34 * max(len(known), 1))
    colors = [look.good if label == first else look.classes[0] for label in known]
    trace = lying_bars(
        known, [one.value / scale for one in known.values()], "", "",
        "%{y}: %{text}<extra></extra>", marker={"color": colors}, showlegend=False,
        text=[about.words(one.value) for one in known.values()], textposition="auto",
        insidetextfont={"color": [look.on(color) for color in colors]},
        insidetextanchor="start", constraintext="none", textangle=0,
    )  # fmt: skip
    if any(math.isfinite(one.high) for one in known.values()):
        trace["error_x"] = interval_reach(known.values(), scale, look, 4)
    figure.add_trace(trace)
    ticks = "~s" if about.unit == "tok/s" else "~g"
    values = [one.value for one in known.values()]
    wide = bool(values) and max(values) > _WIDE * min(values) > 0.0
    axis: dict[str, Any] = {"type": "log", "dtick": "D2"} if wide else {"rangemode": "tozero"}
    return lay_bars(figure, look, "", bottom=36, tickformat=ticks, **axis)


def memory(parts: Mapping[str, Mapping[str, float]], usable: Sequence[float], look: Look) -> Figure:
    """Memory of a device in each setup by its use, with the usable memory marked.

    parts: bytes by part of `genz_core.capacity.memory.Memory`, by setup.  usable: bytes per
    setup, in the same order.
    """
    figure = blank(look, "Memory of the fullest device [GB]", 130 + 44 * len(parts))
    names = list(parts)
    for part in PARTS:
        figure.add_trace(part_bars(part, names, [parts[name][part] for name in names], look))
    limits = [value / GIGABYTE for value in usable]
    trace = limit_mark(
        limits, names, "usable", look, 22, "usable: %{customdata}<extra></extra>",
        customdata=[quantities.size(value) for value in usable],
    )  # fmt: skip
    figure.add_trace(trace)
    return lay_bars(figure, look, "", bottom=72, gap=0.4, rangemode="tozero")


def stacked_by_class(
    totals: Mapping[str, Ranged], tables: Sequence[Mapping[str, Ranged]], title: str, look: Look
) -> Figure:
    """Time of a step in each scenario as stacked bars by operator class on one axis.

    totals: the step of each scenario; its interval is the error bar.  tables: one mapping per
    scenario with latency by class; "host" holds host and pipeline time.
    """
    places = {bar_label(name, total): total for name, total in totals.items()}
    units = [MILLISECOND] * len(places)
    traces = list(stacked_bars(list(places), tables, units, KIND_NAMES, look.class_color))
    figure = blank(look, title, 130 + 62 * len(totals) + 15 * len(traces))
    figure.add_traces([*traces, error_bars(places, look)])
    longest = max(map(bar_end_s, totals.values()), default=0.0) / MILLISECOND
    return lay_bars(figure, look, "Time [ms]", bottom=110, gap=0.4, range=[0, longest * 1.05])
