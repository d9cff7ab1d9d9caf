"""Errors of the latency models, by operator and by split of the measured points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.charts.figure import Figure
from app.charts.style import Look, blank

_MARKS = (
    "x", "circle-open", "circle", "star", "diamond", "square", "triangle-up", "triangle-down",
)  # fmt: skip


def errors_by_split(
    rows: Sequence[Mapping[str, Any]], splits: Mapping[str, str], look: Look
) -> Figure:
    """Mean absolute error [%] of each operator on a logarithmic axis, one marker per split.

    rows: see `app.accuracy.shipped_errors.operator_matrix`.  splits: description of each split by
    name, in display order.
    """
    figure = blank(look, "Mean absolute error by operator", 170 + 42 * len(rows))
    names = [str(row["operator"]).replace("_", " ") for row in rows]
    for at, (split, meaning) in enumerate(splits.items()):
        figure.add_scatter(
            x=[row[split] for row in rows],
            y=names,
            mode="markers",
            name=split,
            marker={
                "color": look.faint if split == "roofline" else look.classes[at],
                "symbol": _MARKS[at],
                "size": 11,
                "line": {"width": 1.5},
            },
            hovertemplate=f"%{{y}}, {split}: %{{x}} %<br>{meaning}<extra></extra>",
        )
    ticks = [5, 10, 20, 40, 80]
    figure.update_xaxes(
        title_text="Mean absolute error [%]", type="log", tickvals=ticks,
        ticktext=[str(tick) for tick in ticks],
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", tickfont_color=look.ink)
    figure.update_layout(margin={"t": 44, "b": 110}, hovermode="closest")
    return figure
