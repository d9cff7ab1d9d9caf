"""The layer graph: operators in execution order, grouped by layers and by parts of a layer.

A square is an operator, coloured by class; a triangle folds and unfolds a group; the bar is its
share of the step's operator time.  Every line is a point to click; its id is its custom data.
"""

from collections.abc import Sequence

from app.charts import parts
from app.charts.figure import Figure, Trace
from app.charts.style import BUTTONS, CLASS_NAMES, Look, blank
from app.model_inside.layer_tree import GraphLine
from app.wording import quantities

_ROW_PX, _INDENT, _BARS, _WIDEST = 27, 0.045, 0.66, 0.2


def layer_graph(lines: Sequence[GraphLine], chosen: str, look: Look) -> Figure:
    """The lines of a layer graph from the top down.  chosen: id of the operator in detail."""
    figure = blank(look, "", _ROW_PX * len(lines) + BUTTONS + 12)
    total = sum(line.seconds for line in lines if line.level == 0) or 1.0
    xs = [0.02 + _INDENT * line.level for line in lines]
    colors = [look.faint if line.folds else look.class_color(line.operator_class) for line in lines]
    figure.add_trace(_edges(lines, xs, look))
    figure.add_traces(_bars(lines, colors, total, look))
    figure.add_trace(_nodes(lines, xs, colors, chosen, total, look))
    fixed = {"visible": False, "fixedrange": True}
    return figure.laid(
        {"range": [0, 1], **fixed},
        {"range": [len(lines) - 0.4, -0.6], **fixed},
        margin={"t": BUTTONS, "b": 4, "l": 4, "r": 4},
        clickmode="event+select",
        hovermode="closest",
        hoverdistance=120,
        dragmode=False,
    )


def _nodes(
    lines: Sequence[GraphLine], xs: Sequence[float], colors: Sequence[str], chosen: str,
    total: float, look: Look,
) -> Trace:  # fmt: skip
    """The symbols of the lines with their labels.  total: seconds that correspond to 100 %."""
    marker = {
        "symbol": [
            "square" if not line.folds else "triangle-down" if line.open else "triangle-right"
            for line in lines
        ],
        "size": [12 if line.folds else 13 for line in lines],
        "color": colors,
        "opacity": 1.0,
        "line": {"color": look.ink, "width": [2.5 if line.id == chosen else 0 for line in lines]},
    }
    return parts.dots(
        xs,
        range(len(lines)),
        "",
        marker,
        "%{hovertext}<extra></extra>",
        mode="markers+text",
        selected={"marker": {"opacity": 1.0}},
        unselected={"marker": {"opacity": 1.0}},
        text=[f"  {_label(line, chosen)}" for line in lines],
        textposition="middle right",
        textfont={"size": 13, "color": look.ink},
        customdata=[[line.id] for line in lines],
        hovertext=[_hover(line, total) for line in lines],
        showlegend=False,
        cliponaxis=False,
    )


def _label(line: GraphLine, chosen: str) -> str:
    words = f"<b>{line.label}</b>" if line.folds or line.id == chosen else line.label
    return f"{words}  <i>{line.detail}</i>" if line.detail else words


def _hover(line: GraphLine, total: float) -> str:
    share = f"{quantities.seconds(line.seconds)}, "
    share += f"{quantities.percent(line.seconds / total)} of the operators"
    share += f"<br>80 %: {line.latency.trust}"
    if line.folds:
        return f"<b>{line.label}</b><br>{share}<br>Click to {'fold' if line.open else 'unfold'}"
    kind = CLASS_NAMES.get(line.operator_class, line.operator_class)
    return f"<b>{line.label}</b> · {kind}<br>{share}<br>Click for its formula"


def _edges(lines: Sequence[GraphLine], places: Sequence[float], look: Look) -> Trace:
    """An edge to each line from the previous line on the same level or one level up."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for at, line in enumerate(lines):
        above = next((i for i in reversed(range(at)) if lines[i].level <= line.level), None)
        if above is not None:
            xs += [places[above], places[above], places[at], None]
            ys += [above, at, at, None]
    return parts.line(xs, ys, "", look.grid, "", showlegend=False)


def _bars(
    lines: Sequence[GraphLine], colors: Sequence[str], total: float, look: Look
) -> tuple[Trace, Trace]:
    """Each line's time share as a bar on the right, and its time as text."""
    rows, silent = list(range(len(lines))), {"hoverinfo": "skip", "showlegend": False}
    shares = Trace(
        x=[_WIDEST * line.seconds / total for line in lines], base=[_BARS] * len(lines), y=rows,
        type="bar", orientation="h", width=0.5, marker={"color": colors, "line": {"width": 0}},
        **silent,
    )  # fmt: skip
    times = Trace(
        type="scatter", x=[1.0] * len(lines), y=rows, mode="text", textposition="middle left",
        text=[quantities.seconds(line.seconds) for line in lines],
        textfont={"size": 12, "color": look.faint}, **silent,
    )  # fmt: skip
    return shares, times
