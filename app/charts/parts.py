"""Traces, axes and marks used by several charts."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from app.answers.column import in_words
from app.charts.figure import Figure, Trace
from app.charts.style import CLEAR, Look, blank, log_ticks, translucent
from app.scenario.intervals import Ranged
from app.wording import quantities
from app.wording.quantities import MILLISECOND

Words = Callable[[float, int], str]
#: Text style of labels at bar ends: the usual size, however thin the bar is.
BESIDE: Mapping[str, Any] = {
    "textposition": "outside", "constraintext": "none", "textangle": 0, "cliponaxis": False,
}  # fmt: skip


def inside(words: Sequence[str], color: str, look: Look) -> dict[str, Any]:
    """Labels in the middle of bars of a colour, upright."""
    return {
        "text": list(words), "textposition": "inside", "insidetextanchor": "middle",
        "insidetextfont": {"color": look.on(color)}, "textangle": 0,
    }  # fmt: skip


# ------------------------------------------------------------------------------- axes


def log_axis(limits: tuple[float, float], words: Words, *, across: bool = False) -> dict[str, Any]:
    """Layout of a logarithmic axis with formatted ticks; see `style.log_ticks`."""
    ticks = log_ticks(limits, words, across=across)
    return {"type": "log", "range": [math.log10(limit) for limit in limits], **ticks}


def time_axis(times: Iterable[float], *, across: bool = False) -> dict[str, Any]:
    """Layout of a logarithmic time axis [s] with a margin at both ends; {} without times.

    times: values that are not positive and finite are ignored.  across: True for a horizontal axis.
    """
    known = [float(time) for time in times if 0.0 < time < math.inf]
    if not known:
        return {}
    return log_axis((min(known) / 1.3, max(known) * 1.3), quantities.seconds, across=across)


def over_arrivals(
    title: str, x: str, y: str, lines: Iterable[Trace], target_s: float, look: Look
) -> Figure:
    """Lines of latencies over the time of arrival, with a line at the target, 0 for none."""
    figure = blank(look, title, 360)
    figure.add_traces(lines)
    if target_s:
        figure.add_hline(y=target_s, line={"color": look.alarm, "width": 1.5, "dash": "dash"})
    times = [s for trace in figure.data for s in trace["y"] if s is not None]
    axis = {"title_text": y, **time_axis([*times, target_s])}
    return figure.laid(x, axis, hovermode="x unified", margin={"b": 92})


def flops_words(value: float, digits: int) -> str:
    """A compute rate as a tick label: "100 TFLOP/s"."""
    return quantities.scaled(value, "FLOP/s", digits)


def lay_bars(
    figure: Figure, look: Look, title: str, *, bottom: int, mode: str = "stack", gap: float = 0.35,
    top: int | None = None, left: int | None = None, names: Sequence[str] = (), **across: Any,
) -> Figure:  # fmt: skip
    """The figure with axes and layout of horizontal bars, the first on top, names on the left.

    title, across: of the horizontal axis.  mode: how bars of the same name combine.  bottom, top,
    left: margins [px]; by default the upper one has room for the buttons and a title, and Plotly
    chooses the left one.  names: of the bars in their order, if a trace leaves out some; by
    default in the order of the traces.
    """
    x = {**({"title_text": title} if title else {}), "tickformat": "~g", **across}
    y = {"autorange": "reversed", "showgrid": False, "tickfont_color": look.ink}
    y |= {"categoryorder": "array", "categoryarray": list(names)} if names else {}
    sides = {"t": top, "b": bottom, "l": left}
    margin = {side: space for side, space in sides.items() if space is not None}
    return figure.laid(x, y, barmode=mode, bargap=gap, margin=margin)


# ------------------------------------------------------------------------------- traces


def lying_bars(
    names: Iterable[str], values: Iterable[float], name: str, color: str, hover: str,
    **properties: Any,
) -> Trace:  # fmt: skip
    """Horizontal bars.  hover: hover template."""
    own = {"marker": {"color": color}, "hovertemplate": hover, **properties}
    return Trace(type="bar", y=list(names), x=list(values), orientation="h", name=name, **own)


def time_bars(
    names: Iterable[str], seconds: Iterable[float], name: str, color: str, **properties: Any
) -> Trace:
    """Horizontal bars of times [s], drawn in milliseconds; the hover formats the time."""
    times = [float(value) for value in seconds]
    shown = [quantities.seconds(value) for value in times]
    hover = f"{name}: %{{customdata}}<extra>%{{y}}</extra>"
    values = [value / MILLISECOND for value in times]
    return lying_bars(names, values, name, color, hover, **{"customdata": shown, **properties})


def line(
    xs: Iterable[Any], ys: Iterable[Any], name: str, color: str, hover: str, **properties: Any
) -> Trace:
    """A line two pixels wide.  hover: template, "" for none.  properties: `line` extends it."""
    own = {"color": color, "width": 2, **properties.pop("line", {})}
    return _points(xs, ys, name, hover, line=own, **{"mode": "lines", **properties})


def time_line(
    xs: Iterable[float], seconds: Sequence[float | None], name: str, color: str, **properties: Any
) -> Trace:
    """A line of times [s], which the hover formats.  properties: as for `line`."""
    hover, words = f"%{{customdata}}<extra>{name}</extra>", [in_words(s, "s") for s in seconds]
    return line(xs, seconds, name, color, hover, customdata=words, **properties)


def dots(
    xs: Iterable[Any], ys: Iterable[Any], name: str, marker: Mapping[str, Any], hover: str,
    **properties: Any,
) -> Trace:  # fmt: skip
    """Points.  hover: template, "" for none."""
    return _points(xs, ys, name, hover, marker=dict(marker), **{"mode": "markers", **properties})


def _points(
    xs: Iterable[Any], ys: Iterable[Any], name: str, hover: str, **properties: Any
) -> Trace:
    told = {"hovertemplate": hover} if hover else {"hoverinfo": "skip"}
    return Trace(type="scatter", x=list(xs), y=list(ys), name=name, **told, **properties)


def ring(size: Any, color: str, fill: str = CLEAR) -> dict[str, Any]:
    """The marker of a hollow point.  size: of each point or of all [px]."""
    return {"size": size, "color": fill, "line": {"width": 2, "color": color}}


def band(
    xs: Sequence[float], lows: Sequence[float], highs: Sequence[float], name: str, color: str
) -> list[Trace]:
    """An interval around a line as a shaded area; no trace if no point has an interval."""
    rows = [row for row in zip(xs, lows, highs, strict=True) if all(map(math.isfinite, row))]
    if not rows:
        return []
    places, bottom, top = (list(side) for side in zip(*rows, strict=True))
    return [area([*places, *reversed(places)], [*top, *reversed(bottom)], name, color, 0.15)]


def area(xs: Sequence[float], ys: Sequence[float], name: str, color: str, opacity: float) -> Trace:
    """A closed area without an edge and without a hover."""
    fill = translucent(color, opacity)
    return line(xs, ys, name, color, "", fill="toself", fillcolor=fill, line={"width": 0})


def limit_mark(
    xs: Sequence[float], ys: Sequence[str], name: str, look: Look, size: int, hover: str,
    **more: Any,
) -> Trace:  # fmt: skip
    """A short stroke across each bar at its limit.  size: its length [px].  hover: template."""
    marker = {"symbol": "line-ns-open", "size": size, "color": look.alarm, "line": {"width": 2}}
    return dots(xs, ys, name, marker, hover, **more)


def error_reach(
    above: Sequence[float | None], below: Sequence[float | None], **style: Any
) -> dict[str, Any]:
    """Error bars of these lengths above and below their points, None for no bar."""
    sides = {"array": list(above), "arrayminus": list(below)}
    return {"type": "data", "symmetric": False, **sides, **style}


def interval_reach(
    latencies: Iterable[Ranged], unit: float, look: Look, width: int
) -> dict[str, Any]:
    """Error bars for the 80 % intervals of latencies that have one.  width: in pixels."""
    every = list(latencies)

    def bars(lengths: Iterable[float]) -> list[float | None]:
        return [length / unit if math.isfinite(length) else None for length in lengths]

    return error_reach(
        bars(one.high - one.value for one in every), bars(one.value - one.low for one in every),
        color=look.ink, thickness=1.2, width=width,
    )  # fmt: skip


# ------------------------------------------------------------------------------- marks


def guide_across(
    figure: Figure, place: float, words: str, color: str, *, log: bool = False, size: int = 11,
    width: float = 1, end: Literal["left", "right"] = "right", **text: Any,
) -> None:  # fmt: skip
    """Draw a dashed horizontal line at `place`, with its label above an end, apart from an axis.

    text: further properties of the label.
    """
    figure.add_hline(place, {"color": color, "width": width, "dash": "dash"})
    side = {"x": 0, "xshift": 4} if end == "left" else {"x": 1}
    figure.add_text(
        words, size, color, xref="paper", y=math.log10(place) if log else place,
        xanchor=end, yanchor="bottom", **side, **text,
    )  # fmt: skip


def guide_upwards(
    figure: Figure, place: float, words: str, color: str, *, log: bool = True, **text: Any
) -> None:
    """Draw a dashed vertical line at `place`, with its label on top unless `text` places it."""
    figure.add_vline(place, {"color": color, "width": 1, "dash": "dash"})
    figure.add_text(
        words, text.pop("size", 11), color, x=math.log10(place) if log else place,
        **{"y": 1.0, "yref": "paper", "yanchor": "bottom", **text},
    )  # fmt: skip


def corner_words(figure: Figure, words: str, color: str, line: int = 0) -> None:
    """Write a text above the upper right corner of a chart.  line: 1 above a text that is there."""
    figure.add_text(
        words, 12, color, x=1, y=1, xref="paper", yref="paper", xanchor="right", yanchor="bottom",
        yshift=18 * line,
    )  # fmt: skip
