"""Ranks of a run: how each spends its time, and which waits for which."""

from __future__ import annotations

import pandas as pd

from app.charts.figure import Figure
from app.charts.parts import lay_bars, time_bars
from app.charts.style import Look, blank


def rank_bars(rows: pd.DataFrame, look: Look) -> Figure:
    """One stacked bar per rank: compute kernels, overlapped communication, exposed communication,
    idle.

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
        names = [f"rank {rank}" for rank in rows["rank"]]
        figure.add_trace(time_bars(names, values, words, color))
    lay_bars(figure, look, "Time [ms]", bottom=96, gap=0.3, rangemode="tozero")
    figure.update_layout(showlegend=True)
    return figure
