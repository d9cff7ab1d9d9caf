"""Cache tiers: where prompts were found, and the first token, with and without each tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.columns import COLUMNS
from app.charts.figure import Figure, Trace, bar
from app.charts.style import Look, blank

#: Places of the palette by column of hits.
_HITS: Mapping[str, int] = {
    "device_hit_share": 0, "host_hit_share": 1, "disk_hit_share": 2, "remote_hit_share": 4,
}  # fmt: skip


def hits(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Shares of the prompts that came from each tier, a stacked bar a row.

    rows: with the columns of hits; a run without tiers has `cached_share` alone.  name: of the
    column that names a row.
    """
    figure = blank(look, "Prompt tokens found, by tier", 320)
    for column, place in _HITS.items():
        if any(column in row for row in rows):
            values = {str(row[name]): _share(row, column) for row in rows}
            figure.add_trace(_bars(column, values, look.classes[place]))
    figure.update_yaxes(title_text="Share of the prompts", tickformat=".0%")
    return _laid_out(figure, "stack")


def _share(row: Mapping[str, Any], column: str) -> float:
    """A share of a row; without tiers all that was found was on the device."""
    alone = column == "device_hit_share" and column not in row
    return float(row["cached_share"] if alone else row.get(column, 0.0))


def first_tokens(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Mean and 99th percentile of TTFT, two bars a row.  rows, name: as of `hits`."""
    figure = blank(look, "Time to first token", 320)
    for place, column in enumerate(("ttft_mean_s", "ttft_p99_s")):
        values = {str(row[name]): float(row[column]) for row in rows}
        figure.add_trace(_bars(column, values, look.classes[place]))
    figure.update_yaxes(title_text="TTFT [s]")
    return _laid_out(figure, "group")


def _bars(column: str, values: Mapping[str, float], color: str) -> Trace:
    """A bar for each named value of a column, in the column's words when pointed at."""
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
