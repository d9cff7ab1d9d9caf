"""Ranks of a run: what each does of its span, and who waits for whom."""

from __future__ import annotations

import pandas as pd

from app.charts.figure import Figure, bar
from app.charts.style import Look, blank
from app.wording import quantities
from app.wording.quantities import MILLISECOND


def rank_bars(rows: pd.DataFrame, look: Look) -> Figure:
    """Stacked bars, one a rank: kernels that compute, communication behind them, exposed, idle.

    rows: of `profilers.ranks.RankComparison`.
    """
    figure = blank(look, "What each rank does", 150 + 34 * len(rows))
    hidden = (rows["communication_s"] - rows["exposed_s"]).clip(lower=0.0)
    parts = (
        ("Compute alone", (rows["compute_s"] - hidden).clip(lower=0.0), look.class_color("gemm")),
        ("Compute over communication", hidden, look.classes[2]),
        ("Exposed communication", rows["exposed_s"], look.class_color("collective")),
        ("Idle", rows["idle_s"], look.rest),
    )
    for words, values, color in parts:
        if not float(values.sum()):
            continue
        figure.add_trace(
            bar(
                y=[f"rank {rank}" for rank in rows["rank"]],
                x=(values / MILLISECOND).tolist(),
                orientation="h",
                name=words,
                marker={"color": color},
                customdata=[quantities.seconds(float(value)) for value in values],
                hovertemplate=f"{words}: %{{customdata}}<extra>%{{y}}</extra>",
            )
        )
    figure.update_xaxes(title_text="Time [ms]", tickformat="~g", rangemode="tozero")
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont_color=look.ink)
    figure.update_layout(barmode="stack", bargap=0.3, showlegend=True, margin={"t": 44, "b": 96})
    return figure
