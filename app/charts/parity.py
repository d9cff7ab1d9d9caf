"""Predicted against measured on logarithmic axes, a histogram of the errors, errors by split."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from app.charts.figure import Figure, Trace
from app.charts.parts import area, dots, line, log_axis
from app.charts.style import CLASS_NAMES, Look, blank
from app.wording import quantities
from genz_core.types import Array, Mask

#: Values by column, [points].
Points = Mapping[str, ArrayLike]
REST = "all others"
#: Half-widths of the bands around y = x, widest first: predicted / measured within 1 +- each.
BANDS = (0.2, 0.1)
_MARKS = ("circle", "diamond", "square", "triangle-up", "cross", "triangle-down", "x", "star")
_SPLIT_MARKS = (
    "x", "circle-open", "circle", "star", "diamond", "square", "triangle-up", "triangle-down",
)  # fmt: skip
_MOST = 8
_LEAST_RATIO, _MOST_RATIO = 0.25, 4.0


def parity(points: Points, by: str, title: str, look: Look) -> Figure:
    """Predicted against measured seconds, with y = x and bands of 10 and 20 %.

    points: predicted_s, measured_s, `label` for the hover, and the column `by`.  Each group of
    `largest_groups` has its own colour and shape.
    """
    figure = blank(look, title, 480)
    predicted, measured = _seconds(points)
    usable = np.flatnonzero(_positive(predicted) & _positive(measured))
    if not usable.size:
        return figure
    times = np.concatenate([predicted[usable], measured[usable]]).tolist()
    limits = (min(times) / 1.5, max(times) * 1.5)
    for width in BANDS:
        low, high = limits
        rim = [low * (1 - width), high * (1 - width), high * (1 + width), low * (1 + width)]
        opacity = 0.12 if width > 0.15 else 0.2
        xs = [low, high, high, low]
        figure.add_trace(area(xs, rim, f"within {width:.0%}", look.good, opacity))
    equal = line(limits, limits, "", look.ink, "", line={"width": 1}, showlegend=False)
    figure.add_trace(equal)
    groups, labels = (np.asarray(points[name], dtype=object)[usable] for name in (by, "label"))
    clouds = largest_groups(groups)
    colors = _colors(list(clouds), look)
    for number, (name, at) in enumerate(clouds.items()):
        of_group = (labels[at], predicted[usable][at], measured[usable][at])
        symbol = _MARKS[number % len(_MARKS)]
        figure.add_trace(_cloud(name, *of_group, symbol, colors[name]))
    across = log_axis(limits, quantities.seconds, across=True)
    x = {"title_text": "Measured", "minor_showgrid": False, **across}
    y = {"title_text": "Predicted", "minor_showgrid": False, **log_axis(limits, quantities.seconds)}
    return figure.laid(x, y, hovermode="closest", margin={"b": 110, "l": 76})


def error_histogram(points: Points, title: str, look: Look) -> Figure:
    """Histogram of predicted / measured on a logarithmic axis, in 40 bins.

    Ratios beyond a factor of four are counted in the outermost bins.
    """
    figure = blank(look, title, 480)
    predicted, measured = _seconds(points)
    drawn = _positive(predicted)
    kept = np.clip(predicted[drawn] / measured[drawn], _LEAST_RATIO, _MOST_RATIO)
    edges = np.linspace(np.log(_LEAST_RATIO), np.log(_MOST_RATIO), 41)
    counts, _ = np.histogram(np.log(kept), edges)
    middles = (edges[:-1] + edges[1:]) / 2
    inside = [abs(np.expm1(middle)) <= max(BANDS) for middle in middles]
    bins = [f"{np.exp(low):.2f} to {np.exp(high):.2f}" for low, high in pairwise(edges)]
    colors = [look.classes[0] if near else look.faint for near in inside]
    trace = Trace(
        x=middles, y=counts, width=float(edges[1] - edges[0]) * 0.92, marker={"color": colors},
        type="bar", customdata=bins, showlegend=False,
        hovertemplate="%{customdata} × measured: %{y} points<extra></extra>",
    )  # fmt: skip
    figure.add_trace(trace)
    figure.add_vline(x=0.0, line={"color": look.ink, "width": 1})
    words = {0.25: "¼ or less", 0.5: "½", 1.0: "as measured", 2.0: "2×", 4.0: "4× or more"}
    ticks = {"tickvals": [float(np.log(at)) for at in words], "ticktext": list(words.values())}
    x = {"title_text": "Predicted over measured", "showgrid": False, **ticks}
    return figure.laid(x, "Points", margin={"b": 110}, bargap=0)


def largest_groups(values: Iterable[Any]) -> dict[str, list[int]]:
    """The places of equal values, largest group first.

    All groups beyond the eighth are combined under `REST`.
    """
    members: dict[str, list[int]] = {}
    for at, value in enumerate(values):
        members.setdefault(str(value) or "not stated", []).append(at)
    ordered = dict(sorted(members.items(), key=lambda item: -len(item[1])))
    if len(ordered) <= _MOST + 1:
        return ordered
    names = list(ordered)
    rest = [at for name in names[_MOST:] for at in ordered[name]]
    return {name: ordered[name] for name in names[:_MOST]} | {REST: rest}


def _seconds(points: Points) -> tuple[Array, Array]:
    """Predicted and measured, [points]."""
    predicted, measured = (
        np.asarray(points[name], dtype=float) for name in ("predicted_s", "measured_s")
    )
    return predicted, measured


def _positive(values: Array) -> Mask:
    return np.isfinite(values) & (values > 0)


def _colors(names: Sequence[str], look: Look) -> dict[str, str]:
    """Colour of each group: that of its operator class if groups are classes."""
    kinds = {words: kind for kind, words in CLASS_NAMES.items()}
    if kinds.keys() & set(names):
        return {name: look.class_color(kinds.get(name, name)) for name in names}
    return dict(zip(names, cycle(look.classes), strict=False)) | {REST: look.faint}


def _cloud(
    name: str, labels: Iterable[Any], predicted: Array, measured: Array, symbol: str, color: str
) -> Trace:
    made_s, seen_s = predicted.tolist(), measured.tolist()
    told = [
        [label, quantities.seconds(made), quantities.seconds(seen), f"{made / seen - 1.0:+.0%}"]
        for label, made, seen in zip(labels, made_s, seen_s, strict=True)
    ]
    marker = {"color": color, "symbol": symbol, "size": 6, "opacity": 0.7, "line": {"width": 0}}
    hover = "%{customdata[0]}<br>predicted %{customdata[1]}, measured %{customdata[2]} "
    hover += "(%{customdata[3]})<extra></extra>"
    return dots(seen_s, made_s, name, marker, hover, customdata=told)


def errors_by_split(
    rows: Sequence[Mapping[str, Any]], splits: Mapping[str, str], look: Look
) -> Figure:
    """Mean absolute error [%] of each operator on a logarithmic axis, one marker per split.

    rows: see `app.accuracy.shipped_errors.operator_matrix`.  splits: descriptions in order.
    """
    figure = blank(look, "Mean absolute error by operator", 170 + 42 * len(rows))
    names = [str(row["operator"]).replace("_", " ") for row in rows]
    for at, (split, meaning) in enumerate(splits.items()):
        color = look.faint if split == "roofline" else look.classes[at]
        marker = {"color": color, "symbol": _SPLIT_MARKS[at], "size": 11, "line": {"width": 1.5}}
        hover = f"%{{y}}, {split}: %{{x}} %<br>{meaning}<extra></extra>"
        figure.add_trace(dots([row[split] for row in rows], names, split, marker, hover))
    ticks = [5, 10, 20, 40, 80]
    across = {"type": "log", "tickvals": ticks, "ticktext": [str(tick) for tick in ticks]}
    x = {"title_text": "Mean absolute error [%]", **across}
    y = {"autorange": "reversed", "tickfont_color": look.ink}
    return figure.laid(x, y, margin={"b": 110}, hovermode="closest")
