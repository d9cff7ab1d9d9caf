"""A simulation of serving: its course over time, latencies over time, their distributions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from app.charts.style import Look, blank, log_ticks
from app.wording import quantities
from genz_core.types import Array

Columns = Mapping[str, Array]
#: Points of a line that a browser draws with ease.
_MOST_POINTS = 1500


def course(series: Columns, look: Look) -> go.Figure:
    """Queue, running requests, use of the KV cache and preemptions over time.

    series: columns time_s, running, waiting, kv_use and preemptions (so far), [samples].
    """
    figure = make_subplots(
        3, 1, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.5, 0.3, 0.2]
    )
    figure.update_layout(blank(look, "Queue, cache and preemptions over time", 520).layout)
    kept = _thinned(len(series["time_s"]))
    time = np.asarray(series["time_s"])[kept]
    lines = (
        ("running", "running", 1, look.classes[0]),
        ("waiting", "waiting", 1, look.classes[1]),
        ("kv_use", "KV cache in use", 2, look.classes[2]),
        ("preemptions", "preemptions so far", 3, look.classes[4]),
    )
    for column, name, row, color in lines:
        values = np.asarray(series[column])[kept]
        hover = "%{y:.0%}" if column == "kv_use" else "%{y:,.0f}"
        figure.add_trace(
            go.Scatter(
                x=time, y=values, name=name, mode="lines",
                line={"color": color, "width": 1.5, "shape": "hv"},
                hovertemplate=f"{hover}<extra>{name}</extra>",
            ),
            row=row, col=1,
        )  # fmt: skip
    figure.update_yaxes(title_text="Requests", rangemode="tozero", row=1, col=1)
    figure.update_yaxes(title_text="KV cache", tickformat=".0%", range=[0, 1.02], row=2, col=1)
    most = max(float(np.max(series["preemptions"], initial=0.0)), 1.0)
    figure.update_yaxes(
        title_text="Preemptions", range=[0, most * 1.05], tickformat=",d", nticks=4,
        **({"dtick": 1} if most < 4 else {}), row=3, col=1,
    )  # fmt: skip
    figure.update_xaxes(title_text="Time [s]", row=3, col=1)
    figure.update_layout(hovermode="x unified", margin={"t": 44, "b": 92})
    return figure


def over_time(windows: Columns, name: str, target_s: float, look: Look) -> go.Figure:
    """Percentiles of a latency by time of arrival, and its target.

    windows: columns time_s, p50, p90 and p99.  target_s: 0 for none.
    """
    figure = blank(look, f"{name} of requests, by arrival", 360)
    for at, percentile in enumerate(("p50", "p90", "p99")):
        seconds = list(windows[percentile])
        figure.add_trace(
            go.Scatter(
                x=list(windows["time_s"]), y=seconds, name=percentile, mode="lines",
                line={"color": look.classes[at], "width": 2},
                customdata=[quantities.seconds(value) for value in seconds],
                hovertemplate="%{customdata}<extra>" + percentile + "</extra>",
            )
        )  # fmt: skip
    figure.update_yaxes(title_text=name, **_log_axis(windows["p50"], windows["p99"], [target_s]))
    figure.update_xaxes(title_text="Time of arrival [s]")
    figure.update_layout(hovermode="x unified", margin={"t": 44, "b": 92})
    if target_s:
        figure.add_hline(y=target_s, line={"color": look.alarm, "width": 1.5, "dash": "dash"})
    return figure


def cumulative(
    curves: Mapping[str, tuple[Array, Array]],
    targets: Sequence[float],
    title: str,
    look: Look,
) -> go.Figure:
    """Cumulative distributions of latencies, the targets as lines.

    curves: (seconds, share of requests that take no longer) by name.  targets: [s].
    """
    figure = blank(look, title, 360)
    for at, (name, (seconds, share)) in enumerate(curves.items()):
        color = look.classes[at]
        figure.add_trace(
            go.Scatter(
                x=list(seconds), y=list(share), name=name, mode="lines",
                line={"color": color, "width": 2, "shape": "hv"},
                customdata=[quantities.seconds(value) for value in seconds],
                hovertemplate="%{y:.1%} take at most %{customdata}<extra>" + name + "</extra>",
            )
        )  # fmt: skip
    figure.update_xaxes(
        title_text="Time", **_log_axis(targets, *(seconds for seconds, _ in curves.values()))
    )
    figure.update_yaxes(title_text="Share of all", tickformat=".0%", range=[0, 1.03])
    figure.update_layout(margin={"t": 44, "b": 92})
    for target_s in targets:
        figure.add_trace(
            go.Scatter(
                x=[target_s, target_s], y=[0, 1], mode="lines",
                name=f"target {quantities.seconds(target_s)}",
                line={"color": look.alarm, "width": 1.5, "dash": "dash"}, hoverinfo="skip",
            )
        )  # fmt: skip
    return figure


def _log_axis(*times: Iterable[float]) -> dict[str, Any]:
    """Range and ticks in words of a logarithmic axis over some times [s]."""
    every = np.array([value for several in times for value in several if value > 0])
    if not every.size:
        return {}
    low, high = float(every.min()) / 1.15, float(every.max()) * 1.15
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        **log_ticks((low, high), quantities.seconds),
    }


def _thinned(count: int) -> Any:
    """Places of at most `_MOST_POINTS` of so many samples, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
