"""Scenarios side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app import text
from app.charts.breakdown import error_bar, top_of
from app.charts.style import CLASS_NAMES, CLASSES, HOST, Look, blank
from app.intervals import Latency
from app.text import MILLISECOND


def stacked_by_class(
    totals: Mapping[str, Latency],
    tables: Sequence[Mapping[str, Latency]],
    title: str,
    look: Look,
) -> go.Figure:
    """Time of a step in each scenario by operator class; bars start at zero and share an axis.

    totals: the step of each scenario with its interval, drawn as an error bar.  tables: latency by
    class, "host" for host and pipeline, one mapping a scenario.
    """
    figure = blank(look, title, 120 + 70 * len(totals))
    for kind in (*CLASSES, "host"):
        values = [table.get(kind, Latency(0.0)) for table in tables]
        if any(value.seconds for value in values):
            figure.add_trace(_bar(list(totals), values, kind, look))
    figure.add_trace(_ends(totals, look))
    for name, total in totals.items():
        figure.add_annotation(
            y=name, x=top_of(total) / MILLISECOND, showarrow=False, xanchor="left", xshift=8,
            text=f"<b>{text.seconds(total.seconds)}</b>", font={"size": 13, "color": look.ink},
        )  # fmt: skip
    longest = max(map(top_of, totals.values()), default=0.0) / MILLISECOND
    figure.update_xaxes(title_text="Time [ms]", range=[0, longest * 1.15], tickformat="~g")
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont_color=look.ink)
    figure.update_layout(barmode="stack", bargap=0.4, margin={"t": 44, "b": 84})
    return figure


def _bar(names: Sequence[str], values: Sequence[Latency], kind: str, look: Look) -> go.Bar:
    words = CLASS_NAMES.get(kind, HOST)
    return go.Bar(
        y=list(names),
        x=[value.seconds / MILLISECOND for value in values],
        orientation="h",
        name=words,
        marker={"color": look.grid if kind == "host" else look.class_color(kind)},
        customdata=[[text.seconds(value.seconds), value.trust] for value in values],
        hovertemplate=f"{words}: %{{customdata[0]}}<br>80 %: %{{customdata[1]}}"
        "<extra>%{y}</extra>",
    )


def _ends(totals: Mapping[str, Latency], look: Look) -> go.Scatter:
    """The error bars at the ends of the bars."""
    return go.Scatter(
        y=list(totals),
        x=[total.seconds / MILLISECOND for total in totals.values()],
        mode="markers",
        marker={"size": 1, "color": look.ink},
        error_x=error_bar(list(totals.values()), MILLISECOND, look),
        customdata=[[text.seconds(total.seconds), total.trust] for total in totals.values()],
        hovertemplate="Whole step: %{customdata[0]}<br>80 %: %{customdata[1]}<extra>%{y}</extra>",
        showlegend=False,
    )
