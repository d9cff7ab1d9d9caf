"""Candidates of a plan as points: the frontier, targets as guide lines, the plans marked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.charts.figure import Figure, Trace
from app.charts.labels import LEGEND_LINE, legend_entry, legend_lines, room_beside
from app.charts.parts import dots, guide_across, guide_upwards, line, ring
from app.charts.style import CLEAR, Look, blank, translucent
from app.decide.axes import Axis
from app.decide.candidate_points import FACTS, MEETS, Points, Series, Vertex

#: Position and label of the targets on both axes.
Guides = tuple[Sequence[tuple[float, str]], Sequence[tuple[float, str]]]
#: Heights [px]: the plot with its title, the least margin below it, the axis title in that margin.
_PLOT, _BELOW, _TITLE = 370, 130, 66
_FEW = 1500  # most points drawn; WebGL draws more, but needs unsafe scripts


def candidates(points: Points, look: Look) -> Figure:
    """Every candidate on two axes; a point's first `customdata` is its number.

    Candidates that meet all targets are filled circles, the others hollow ones.  Of too many points
    every n-th of each series is drawn; the frontier and the plans are always complete.  The figure
    is as high as the legend needs on a telephone.
    """
    x, y = points.x, points.y
    figure = blank(look, f"{y.words} against {x.words}", 0)
    each = math.ceil(sum(len(series.at) for series in points.series) / _FEW)
    good = {series.name for series in points.series if series.meets}
    for series in sorted(points.series, key=lambda one: one.meets):
        # each group has one legend entry, from candidates that meet the targets if there are any
        named = series.meets or series.name not in good
        figure.add_trace(_cloud(series, points, look, each) | {"showlegend": named})
    if points.missed:
        figure.add_trace(_key(MEETS, _full(look.ink)))
        figure.add_trace(_key(points.missed, _hollow(look.ink)))
    rings = {plan.at: 18 - 2 * min(rank, 4) for rank, plan in enumerate(points.plans)}
    if points.frontier:
        figure.add_trace(_frontier(points, rings, look))
    if points.plans:
        figure.add_trace(_plans(points.plans, rings, look))
    finish(figure, (x, y), (points.x_guides, points.y_guides), look, _BELOW)
    entries = [trace["name"] for trace in figure.data if trace.get("showlegend", True)]
    legend = _TITLE + LEGEND_LINE * legend_lines(entries)
    figure.update_layout(height=_PLOT + max(_BELOW, legend))
    return figure


def finish(
    figure: Figure, axes: tuple[Axis, Axis], guides: Guides, look: Look, bottom: int
) -> None:
    """Set axis titles and draw targets as dashed lines with a label at the end.

    Axes are logarithmic or start at zero.  bottom: margin [px].
    """
    log = {"type": "log", "tickformat": "~g", "dtick": "D2"}
    x, y = (
        {"title_text": axis.title, **(log if axis.logarithmic else {"rangemode": "tozero"})}
        for axis in axes
    )
    figure.laid(x, y, margin={"t": 64, "b": bottom, "r": 24}, hovermode="closest")
    across = [x for trace in figure.data for x in trace.get("x", ()) if x is not None]
    for at, (place, words) in enumerate(guides[0]):
        left = sum(x > place for x in across) > sum(x < place for x in across)
        # away from the axis labels; labels of close targets are stacked
        side = {"xanchor": "left" if left else "right", "yshift": 13 * (at % 2)}
        guide_upwards(figure, place, words, look.alarm, log=axes[0].logarithmic, **side)
    for place, words in guides[1]:
        guide_across(figure, place, words, look.alarm, log=axes[1].logarithmic)


def _cloud(series: Series, points: Points, look: Look, each: int) -> Trace:
    """The points of a series.  each: only every `each`-th point is drawn."""
    at, x, y, facts = (values[::each] for values in (series.at, series.x, series.y, series.facts))
    color = look.classes[series.group % len(look.classes)]
    names = " · ".join(
        f"{name} %{{customdata[{at}]:,.0f}}" for at, name in enumerate(FACTS[:-1], start=1)
    )
    custom = [
        [int(one), *told, name]
        for one, told, name in zip(at, facts.tolist(), series.families[::each], strict=True)
    ]
    return dots(
        x.tolist(), y.tolist(),
        legend_entry(series.name),
        _full(color) if series.meets else _hollow(color),
        f"{names}<br>{points.x.words} %{{x:.4g}}, {points.y.words} %{{y:,.4g}}"
        f"<extra>%{{customdata[{len(FACTS) + 1}]}}</extra>",
        legendgroup=series.name, customdata=custom,
    )  # fmt: skip


def _full(color: str) -> dict[str, Any]:
    """The marker of a candidate that meets its targets."""
    return {"size": 7, "color": color}


def _hollow(color: str) -> dict[str, Any]:
    """The marker of a candidate that misses a target."""
    return {"size": 6, "color": translucent(color, 0.6), "symbol": "circle-open"}


def _key(words: str, marker: Mapping[str, Any]) -> Trace:
    """A legend entry that explains a marker; no point is drawn."""
    return dots([None], [None], legend_entry(words), marker, "")


def _frontier(points: Points, rings: Mapping[int, int], look: Look) -> Trace:
    """The frontier; a label keeps off the ring around its point.  rings: sizes by candidate."""
    vertices, across, upwards = points.frontier, points.x.logarithmic, points.y.logarithmic
    sizes = [rings.get(vertex.at, 4) for vertex in vertices]
    colors = [CLEAR if vertex.at in rings else look.ink for vertex in vertices]
    words = [vertex.words for vertex in vertices]
    trace = line(
        [vertex.x for vertex in vertices], [vertex.y for vertex in vertices], "Pareto frontier",
        look.ink, "%{customdata[1]}<extra>frontier</extra>", mode="lines+markers+text",
        line={"width": 1.5}, marker={"size": sizes, "color": colors, "opacity": 1}, text=words,
        textfont={"size": 11, "color": look.faint}, cliponaxis=False,
        customdata=[[vertex.at, vertex.words] for vertex in vertices],
    )  # fmt: skip
    clouds = [(series.x.tolist(), series.y.tolist()) for series in points.series]
    room_beside([(trace["x"], trace["y"])], (across, upwards), clouds).label(trace)
    return trace


def _plans(plans: Sequence[Vertex], rings: Mapping[int, int], look: Look) -> Trace:
    sizes = [rings[plan.at] for plan in plans]
    return dots(
        [plan.x for plan in plans], [plan.y for plan in plans], "the plans, the best largest",
        ring(sizes, look.good), "%{customdata[1]}<extra>a plan</extra>",
        customdata=[[plan.at, plan.words] for plan in plans],
    )  # fmt: skip
