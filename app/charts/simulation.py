"""A simulation of serving: its course over time, latencies over time, their distributions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from app.charts.figure import Figure, scatter
from app.charts.style import Look, blank, log_ticks
from app.wording import quantities
from genz_core.types import Array

Columns = Mapping[str, Array]
#: Points of a line that a browser draws with ease.
_MOST_POINTS = 1500
#: Lower and upper edge of the frames of a course, from the top down, as shares of its height.
_ROWS = ((0.58, 1.0), (0.29, 0.52), (0.0, 0.2))


def course(series: Columns, look: Look) -> Figure:
    """Queue, running requests, use of the KV cache and preemptions over time.

    series: columns time_s, running, waiting, kv_use and preemptions (so far), [samples].
    """
    figure = blank(look, "Queue, cache and preemptions over time", 520)
    kept = _thinned(len(series["time_s"]))
    time = np.asarray(series["time_s"])[kept]
    lines = (
        ("running", "running", "y", look.classes[0]),
        ("waiting", "waiting", "y", look.classes[1]),
        ("kv_use", "KV cache in use", "y2", look.classes[2]),
        ("preemptions", "preemptions so far", "y3", look.classes[4]),
    )
    for column, name, axis, color in lines:
        values = np.asarray(series[column])[kept]
        hover = "%{y:.0%}" if column == "kv_use" else "%{y:,.0f}"
        figure.add_trace(
            scatter(
                x=time.tolist(), y=values.tolist(), yaxis=axis, name=name, mode="lines",
                line={"color": color, "width": 1.5, "shape": "hv"},
                hovertemplate=f"{hover}<extra>{name}</extra>",
            )
        )  # fmt: skip
    most = max(float(np.max(series["preemptions"], initial=0.0)), 1.0)
    preempted: dict[str, Any] = {"range": [0, most * 1.05], "tickformat": ",d", "nticks": 4}
    axes: tuple[dict[str, Any], ...] = (
        {"title": {"text": "Requests"}, "rangemode": "tozero"},
        {"title": {"text": "KV cache"}, "tickformat": ".0%", "range": [0, 1.02]},
        {"title": {"text": "Preemptions"}, **preempted, **({"dtick": 1} if most < 4 else {})},
    )
    for name, domain, properties in zip(("yaxis", "yaxis2", "yaxis3"), _ROWS, axes, strict=True):
        figure.update_layout(**{name: {"domain": list(domain), "anchor": "x", **properties}})
    figure.update_xaxes(title_text="Time [s]", anchor="y3")
    figure.update_layout(hovermode="x unified", margin={"t": 44, "b": 92})
    return figure


def over_time(windows: Columns, name: str, target_s: float, look: Look) -> Figure:
    """Percentiles of a latency by time of arrival, and its target.

    windows: columns time_s, p50, p90 and p99.  target_s: 0 for none.
    """
    figure = blank(look, f"{name} of requests, by arrival", 360)
    for at, percentile in enumerate(("p50", "p90", "p99")):
        seconds = list(windows[percentile])
        figure.add_trace(
            scatter(
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
) -> Figure:
    """Cumulative distributions of latencies, the targets as lines.

    curves: (seconds, share of requests that take no longer) by name.  targets: [s].
    """
    figure = blank(look, title, 360)
    for at, (name, (seconds, share)) in enumerate(curves.items()):
        color = look.classes[at]
        figure.add_trace(
            scatter(
                x=list(seconds), y=list(share), name=name, mode="lines",
                line={"color": color, "width": 2, "shape": "hv"},
                customdata=[quantities.seconds(value) for value in seconds],
                hovertemplate="%{y:.1%} take at most %{customdata}<extra>" + name + "</extra>",
            )
        )  # fmt: skip
    figure.update_xaxes(
        title_text="Time",
        **_log_axis(targets, *(seconds for seconds, _ in curves.values()), across=True),
    )
    figure.update_yaxes(title_text="Share of all", tickformat=".0%", range=[0, 1.03])
    figure.update_layout(margin={"t": 44, "b": 92})
    for target_s in targets:
        figure.add_trace(
            scatter(
                x=[target_s, target_s], y=[0, 1], mode="lines",
                name=f"target {quantities.seconds(target_s)}",
                line={"color": look.alarm, "width": 1.5, "dash": "dash"}, hoverinfo="skip",
            )
        )  # fmt: skip
    return figure


def _log_axis(*times: Iterable[float], across: bool = False) -> dict[str, Any]:
    """Range and ticks in words of a logarithmic axis over some times [s].  across: a lower one."""
    every = np.array([value for several in times for value in several if value > 0])
    if not every.size:
        return {}
    low, high = float(every.min()) / 1.15, float(every.max()) * 1.15
    return {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        **log_ticks((low, high), quantities.seconds, across=across),
    }


def _thinned(count: int) -> Any:
    """Places of at most `_MOST_POINTS` of so many samples, first and last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int))
