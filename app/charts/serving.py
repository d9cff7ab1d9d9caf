"""Serving under load: latencies and throughput over the load, throughput over interactivity."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from app.answers.columns import ends
from app.charts.figure import Figure, Trace, scatter
from app.charts.style import Look, blank, log_ticks, translucent
from app.wording import quantities

Table = Mapping[str, Sequence[Any]]
LOADS: Mapping[str, str] = {
    "concurrency": "Concurrency [open requests]",
    "rate": "Arrivals [requests/s]",
}
#: Share of a chart's side that words beside a point need.
_LEAST_APART = 0.08


def latencies(
    table: Table,
    load: str,
    title: str,
    look: Look,
    named: Mapping[str, str] = MappingProxyType({"ttft": "TTFT", "tpot": "TPOT"}),
) -> Figure:
    """Latencies over the load, mean and median, on logarithmic axes.

    table: columns `load`, status and, of each latency, `_s` and `_median_s`, and the ends of its
    interval, drawn as a band around the mean where they are known.  named: the latencies' names by
    the start of their columns.
    """
    figure = blank(look, title, 420)
    for at, (column, name) in enumerate(named.items()):
        figure.add_traces(_band(table, load, column, name, look.classes[at]))
        for suffix, words, dash in (("_s", "mean", "solid"), ("_median_s", "median", "dot")):
            figure.add_trace(
                _line(table, load, column + suffix, f"{name} {words}", dash, look.classes[at])
            )
    finite = [s for trace in figure.data for s in trace["y"] if s is not None and s == s]
    figure.update_xaxes(title_text=LOADS[load], **_across(table[load]))
    figure.update_yaxes(
        title_text="Time",
        type="log",
        **log_ticks((min(finite) / 1.5, max(finite) * 1.5), quantities.seconds),
    )
    figure.update_layout(hovermode="x unified", margin={"t": 44, "b": 104, "l": 76})
    _shade_overload(figure, table, load, look)
    return figure


def throughput(table: Table, load: str, title: str, look: Look) -> Figure:
    """Output tokens per second and device over the load."""
    return _rates(table, load, title, look, ("Output throughput", "tok/s"))


def sequences(table: Table, load: str, title: str, look: Look) -> Figure:
    """Sequences per second and device over the load, of a model that reads each in one pass."""
    return _rates(table, load, title, look, ("Throughput", "seq/s"))


def _rates(table: Table, load: str, title: str, look: Look, words: tuple[str, str]) -> Figure:
    """words: what the rate is of, and its unit."""
    figure, (what, unit) = blank(look, title, 420), words
    rates = list(table["output_tokens_per_s_per_device"])
    figure.add_trace(
        scatter(
            x=list(table[load]),
            y=rates,
            mode="lines+markers",
            line={"color": look.classes[2], "width": 2},
            name=what.lower(),
            customdata=[quantities.rate(rate, unit) for rate in rates],
            hovertemplate="%{x:,.4g}: %{customdata} per device<extra></extra>",
            showlegend=False,
        )
    )
    figure.update_xaxes(title_text=LOADS[load], **_across(table[load]))
    figure.update_yaxes(title_text=f"{what} per device [{unit}]", rangemode="tozero")
    figure.update_layout(margin={"t": 44, "b": 96, "l": 66})
    _shade_overload(figure, table, load, look)
    return figure


def throughput_over_interactivity(
    curves: Mapping[str, Table], load: str, marked_rows: Mapping[str, int], look: Look
) -> Figure:
    """Throughput per device over tokens/s of a user, a curve a configuration.

    curves: tables by name.  load: column of the loads.  marked_rows: row to mark by name of a
    table; its loads are written beside its points.
    """
    figure = blank(look, "Throughput against interactivity", 460)
    for at, (name, table) in enumerate(curves.items()):
        loads = [f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in table[load]]
        marked = name in marked_rows
        figure.add_trace(
            scatter(
                x=list(table["interactivity"]),
                y=list(table["output_tokens_per_s_per_device"]),
                mode="lines+markers+text" if marked else "lines+markers",
                text=_spaced(table, loads),
                textposition="top right",
                textfont={"size": 11, "color": look.faint},
                line={"color": look.classes[at % 10], "width": 2},
                marker={"size": 7},
                name=name,
                customdata=loads,
                hovertemplate=f"{LOADS[load]} %{{customdata}}<br>%{{x:.3g}} tok/s a user, "
                "%{y:,.4g} tok/s a device<extra>" + name + "</extra>",
                cliponaxis=False,
            )
        )
        if marked:
            figure.add_trace(_mark(table, marked_rows[name], look))
    figure.update_xaxes(title_text="Interactivity [tok/s a user]", rangemode="tozero")
    figure.update_yaxes(title_text="Output throughput per device [tok/s]", rangemode="tozero")
    figure.update_layout(margin={"t": 44, "b": 96, "l": 66, "r": 40})
    return figure


def mark_load(figure: Figure, value: float, words: str, look: Look) -> None:
    """Draw a line at the load that is asked, named at its foot, over a chart of loads."""
    figure.add_vline(x=value, line={"color": look.ink, "width": 1, "dash": "dash"})
    figure.add_annotation(
        x=math.log10(value), y=0, yref="paper", yanchor="bottom", xanchor="left", xshift=4,
        text=words, showarrow=False, font={"size": 12, "color": look.ink},
    )  # fmt: skip


def _spaced(table: Table, words: Sequence[str]) -> list[str]:
    """The words, "" for points too near the last one with words."""
    xs, ys = table["interactivity"], table["output_tokens_per_s_per_device"]
    wide, high = max(xs) or 1.0, max(ys) or 1.0
    kept: list[str] = []
    last = (math.inf, math.inf)
    for x, y, word in zip(xs, ys, words, strict=True):
        place = (float(x) / wide, float(y) / high)
        far = math.dist(place, last) > _LEAST_APART
        kept.append(word if far else "")
        last = place if far else last
    return kept


def _line(table: Table, load: str, column: str, name: str, dash: str, color: str) -> Trace:
    seconds = [float(value) for value in table[column]]
    return scatter(
        x=list(table[load]),
        y=[value if value < float("inf") else None for value in seconds],
        mode="lines+markers" if dash == "solid" else "lines",
        name=name,
        line={"color": color, "width": 2, "dash": dash},
        customdata=_hover(table, column, seconds),
        hovertemplate="%{customdata}",
    )


def _hover(table: Table, column: str, seconds: Sequence[float]) -> list[str]:
    """The hover of each point: its time and interval."""
    low, high = ends(column)
    return [
        f"{quantities.seconds(value)}, 80 %: {quantities.span(*pair)}"
        for value, *pair in zip(seconds, table[low], table[high], strict=True)
    ]


def _band(table: Table, load: str, column: str, name: str, color: str) -> list[Trace]:
    """The 80 % interval around a mean as a band; no trace where not validated."""
    rows = [
        (x, low, high)
        for x, low, high in zip(
            table[load], table[f"{column}_low_s"], table[f"{column}_high_s"], strict=True
        )
        if math.isfinite(low) and math.isfinite(high)
    ]
    if not rows:
        return []
    loads, lows, highs = (list(side) for side in zip(*rows, strict=True))
    return [
        scatter(
            x=[*loads, *reversed(loads)],
            y=[*highs, *reversed(lows)],
            fill="toself",
            fillcolor=translucent(color, 0.15),
            line={"width": 0},
            mode="lines",
            name=f"{name} 80 %",
            hoverinfo="skip",
        )
    ]


def _mark(table: Table, row: int, look: Look) -> Trace:
    return scatter(
        x=[table["interactivity"][row]],
        y=[table["output_tokens_per_s_per_device"][row]],
        mode="markers",
        marker={"size": 15, "color": "rgba(0,0,0,0)", "line": {"width": 2, "color": look.ink}},
        hoverinfo="skip",
        name="the load above",
    )


def _shade_overload(figure: Figure, table: Table, load: str, look: Look) -> None:
    """Grey out the loads that are not sustained."""
    status = zip(table[load], table["status"], strict=True)
    full = [float(value) for value, words in status if words == "overloaded"]
    stable = [float(value) for value in table[load] if float(value) not in full]
    if not (full and stable):
        return
    figure.add_vrect(x0=max(stable), x1=max(full) * 2, fillcolor=look.alarm, opacity=0.14)
    figure.add_annotation(
        x=1, y=1, xref="paper", yref="paper", xanchor="right", yanchor="bottom",
        text="overloaded", showarrow=False, font={"size": 12, "color": look.alarm},
    )  # fmt: skip


def _across(loads: Sequence[float]) -> dict[str, Any]:
    """Layout of a logarithmic axis over the loads with air at both ends."""
    low, high = math.log10(min(loads)), math.log10(max(loads))
    air = 0.03 * (high - low)
    return {
        "type": "log",
        "range": [low - air, high + air],
        "tickformat": "~g" if high < 3 else "~s",
        "dtick": "D2" if high - low < 2.5 else 1,
    }
