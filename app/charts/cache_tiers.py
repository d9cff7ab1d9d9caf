"""Cache tiers: where prompts were found, and the first token, with and without each tier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.columns import COLUMNS
from app.charts.figure import Figure, bar
from app.charts.style import Look, blank
from app.wording import quantities

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
    names = [row[name] for row in rows]
    for column, place in _HITS.items():
        values = [_share(row, column) for row in rows]
        if not any(column in row for row in rows):
            continue
        head = COLUMNS[column].head
        figure.add_trace(
            bar(
                x=names,
                y=values,
                name=head,
                marker={"color": look.classes[place]},
                customdata=[quantities.percent(value) for value in values],
                hovertemplate=f"{head}: %{{customdata}}<extra>%{{x}}</extra>",
            )
        )
    figure.update_yaxes(title_text="Share of the prompts", tickformat=".0%", rangemode="tozero")
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_layout(barmode="stack", bargap=0.35, margin={"t": 44, "b": 92})
    return figure


def _share(row: Mapping[str, Any], column: str) -> float:
    """A share of a row; without tiers all that was found was on the device."""
    alone = column == "device_hit_share" and column not in row
    return float(row["cached_share"] if alone else row.get(column, 0.0))


def first_tokens(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Mean and 99th percentile of TTFT, two bars a row.  rows, name: as of `hits`."""
    figure = blank(look, "Time to first token", 320)
    names = [row[name] for row in rows]
    for place, column in enumerate(("ttft_mean_s", "ttft_p99_s")):
        head, values = COLUMNS[column].head, [row[column] for row in rows]
        figure.add_trace(
            bar(
                x=names,
                y=values,
                name=head,
                marker={"color": look.classes[place]},
                customdata=[quantities.seconds(value) for value in values],
                hovertemplate=f"{head}: %{{customdata}}<extra>%{{x}}</extra>",
            )
        )
    figure.update_yaxes(title_text="TTFT [s]", rangemode="tozero")
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_layout(barmode="group", bargap=0.35, margin={"t": 44, "b": 92})
    return figure
