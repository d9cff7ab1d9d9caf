"""A technology study as bars: one per combination, coloured by technique."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.columns import COLUMNS, Column
from app.charts.figure import Figure
from app.charts.parts import lying_bars
from app.charts.style import Look, blank
from app.decide.study import label

#: Figures that a study's chart can show, by column name of its rows.
FIGURES: Mapping[str, Column] = {
    "output_tokens_per_s_per_device": COLUMNS["output_tokens_per_s_per_device"],
    "tpot_s": COLUMNS["tpot_s"],
    "usd_per_million_tokens": COLUMNS["usd_per_mtok"],
    "joules_per_token": COLUMNS["joules_per_token"],
}


def bars(rows: Sequence[Mapping[str, Any]], figure: str, title: str, look: Look) -> Figure:
    """One figure of every combination that runs, the first on top, with the bound of its decode
    step.

    rows: of `app.decide.study.Study`.  figure: of `FIGURES`.
    """
    drawn = [row for row in rows if row.get(figure) is not None]
    column = FIGURES[figure]
    chart = blank(look, title, 130 + 30 * len(drawn))
    for at, technique in enumerate(dict.fromkeys(row["technique"] for row in drawn)):
        mine = [row for row in drawn if row["technique"] == technique]
        said = [f"{column.words(row[figure])}, {row['decode_bound_by']}" for row in mine]
        chart.add_trace(
            lying_bars(
                [label(row) for row in mine], [row[figure] for row in mine], technique,
                look.classes[at % len(look.classes)],
                "%{y}<br>%{text}<extra></extra>", text=said, textposition="auto",
            )
        )  # fmt: skip
    chart.update_xaxes(title_text=column.title, rangemode="tozero")
    chart.update_yaxes(
        showgrid=False, tickfont_color=look.ink, automargin=True,
        categoryorder="array", categoryarray=[label(row) for row in drawn][::-1],
    )  # fmt: skip
    chart.update_layout(barmode="overlay", bargap=0.35, margin={"t": 40, "b": 72})
    return chart
