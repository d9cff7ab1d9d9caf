"""Cache tiers: share of prompt tokens found in each tier, and TTFT with and without the tiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.columns import COLUMNS
from app.charts.figure import Figure, Trace, bar
from app.charts.style import Look, blank

#: Palette index of each hit column.
_HITS: Mapping[str, int] = {
    "device_hit_share": 0, "host_hit_share": 1, "disk_hit_share": 2, "remote_hit_share": 4,
}  # fmt: skip


def hits(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Shares of the prompt tokens that came from each tier, one stacked bar per row.

    rows: with the hit columns; a run without tiers has only `cached_share`.  name: the column that
    labels the rows.
    """
    figure = blank(look, "Prompt tokens found, by tier", 320)
    for column, place in _HITS.items():
        if any(column in row for row in rows):
            values = {str(row[name]): _share(row, column) for row in rows}
            figure.add_trace(_bars(column, values, look.classes[place]))
    figure.update_yaxes(title_text="Share of the prompts", tickformat=".0%")
    return _laid_out(figure, "stack")


def _share(row: Mapping[str, Any], column: str) -> float:
    """A share of a row.  In a run without tiers all hits are in device memory."""
    alone = column == "device_hit_share" and column not in row
    return float(row["cached_share"] if alone else row.get(column, 0.0))


def first_tokens(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Mean and 99th percentile of TTFT, two bars per row.  rows, name: as for `hits`."""
    figure = blank(look, "Time to first token", 320)
    for place, column in enumerate(("ttft_mean_s", "ttft_p99_s")):
        values = {str(row[name]): float(row[column]) for row in rows}
        figure.add_trace(_bars(column, values, look.classes[place]))
    figure.update_yaxes(title_text="TTFT [s]")
    return _laid_out(figure, "group")


def _bars(column: str, values: Mapping[str, float], color: str) -> Trace:
    """One bar per named value of a column; the hover formats the value as the column does."""
    head, words = COLUMNS[column].head, COLUMNS[column].words
    return bar(
        x=list(values),
        y=list(values.values()),
        name=head,
        marker={"color": color},
        customdata=[words(value) for value in values.values()],
        hovertemplate=f"{head}: %{{customdata}}<extra>%{{x}}</extra>",
    )


def _laid_out(figure: Figure, mode: str) -> Figure:
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_layout(barmode=mode, bargap=0.35, margin={"t": 44, "b": 92})
    return figure
