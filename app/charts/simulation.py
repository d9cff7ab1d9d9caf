"""A serving simulation: queue and cache over time, latencies over time, their distributions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.answers.columns import COLUMNS
from app.charts.figure import Figure, Trace
from app.charts.parts import line, over_arrivals, time_axis, time_line
from app.charts.style import Look, blank
from app.wording import quantities
from genz_core.types import Array

Columns = Mapping[str, Array]
#: Number of line points that a browser draws without delay.
_MOST_POINTS = 1500
#: Lower and upper edge of the stacked panels, from the top down, as shares of the height.
_ROWS = ((0.58, 1.0), (0.29, 0.52), (0.0, 0.2))
#: Palette index of each hit column.
_HITS: Mapping[str, int] = {
    "device_hit_share": 0, "host_hit_share": 1, "disk_hit_share": 2, "remote_hit_share": 4,
}  # fmt: skip


def course(series: Columns, look: Look) -> Figure:
    """Queue, running requests, KV-cache use and preemptions over time.

    series: columns time_s, running, waiting, kv_use and preemptions (cumulative), [samples].
    """
    figure = blank(look, "Queue, cache and preemptions over time", 520)
    count = len(series["time_s"])  # the first and last sample are kept
    kept = np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(int)
    time = np.asarray(series["time_s"])[kept]
    axes = {"running": ("y", 0), "waiting": ("y", 1), "kv_use": ("y2", 2), "preemptions": ("y3", 4)}
    for column, (axis, place) in axes.items():
        name, values = COLUMNS[column].head, np.asarray(series[column])[kept].tolist()
        hover = f"{'%{y:.0%}' if column == 'kv_use' else '%{y:,.0f}'}<extra>{name}</extra>"
        drawn = {"yaxis": axis, "line": {"width": 1.5, "shape": "hv"}}
        figure.add_trace(line(time.tolist(), values, name, look.classes[place], hover, **drawn))
    most = max(float(np.max(series["preemptions"], initial=0.0)), 1.0)
    preempted: dict[str, Any] = {"range": [0, most * 1.05], "tickformat": ",d", "nticks": 4}
    preempted |= {"dtick": 1} if most < 4 else {}
    titles = ("Requests", "KV cache", COLUMNS["preemptions"].head)
    requests, cache, preemptions = (
        {"title": {"text": title}, "domain": list(domain), "anchor": "x"}
        for title, domain in zip(titles, _ROWS, strict=True)
    )
    return figure.laid(
        {"title_text": COLUMNS["time_s"].title, "anchor": "y3"},
        requests | {"rangemode": "tozero"},
        yaxis2=cache | {"tickformat": ".0%", "range": [0, 1.02]}, yaxis3=preemptions | preempted,
        hovermode="x unified", margin={"b": 92},
    )  # fmt: skip


def over_time(windows: Columns, name: str, target_s: float, look: Look) -> Figure:
    """Percentiles of a latency by arrival time, with its target.

    windows: columns time_s, p50, p90 and p99.  target_s: 0 for none.
    """
    lines = (
        time_line(windows["time_s"], list(windows[percentile]), percentile, look.classes[at])
        for at, percentile in enumerate(("p50", "p90", "p99"))
    )
    title, x = f"{name} of requests, by arrival", COLUMNS["arrival_s"].title
    return over_arrivals(title, x, name, lines, target_s, look)


def cumulative(
    curves: Mapping[str, tuple[Array, Array]], targets: Sequence[float], title: str, look: Look,
    of: str = "requests",
) -> Figure:  # fmt: skip
    """Cumulative distributions of latencies, with the targets as lines.

    curves: (seconds, share that takes at most that long) by name.  targets: [s].  of: what has the
    latencies, of which the share is.
    """
    figure = blank(look, title, 360)
    for at, (name, (seconds, share)) in enumerate(curves.items()):
        hover = f"%{{y:.1%}} take at most %{{customdata}}<extra>{name}</extra>"
        shown = [quantities.seconds(value) for value in seconds]
        told = {"line": {"shape": "hv"}, "customdata": shown}
        figure.add_trace(line(seconds, share, name, look.classes[at], hover, **told))
    times = [*targets, *(value for seconds, _ in curves.values() for value in seconds)]
    for target_s in targets:
        name, style = f"target {quantities.seconds(target_s)}", {"width": 1.5, "dash": "dash"}
        figure.add_trace(line([target_s] * 2, [0, 1], name, look.alarm, "", line=style))
    x = {"title_text": "Time", **time_axis(times, across=True)}
    y = {"title_text": f"Share of {of}", "tickformat": ".0%", "range": [0, 1.03]}
    return figure.laid(x, y, margin={"b": 92})


def hits(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Shares of the prompt tokens that came from each tier, one stacked bar per row.

    rows: with the hit columns; a run without tiers has only `cached_share`, all on the device.
    name: the column that labels the rows.
    """
    alone = [{"device_hit_share": row["cached_share"], **row} for row in rows]
    columns = {c: at for c, at in _HITS.items() if any(c in row for row in alone)}
    y = {"title_text": "Share of prompt tokens", "tickformat": ".0%"}
    return _by_row("Prompt tokens found in cache, by tier", alone, name, columns, y, "stack", look)


def first_tokens(rows: Sequence[Mapping[str, Any]], name: str, look: Look) -> Figure:
    """Mean and 99th percentile of TTFT, two bars per row.  rows, name: as for `hits`."""
    columns = {"ttft_mean_s": 0, "ttft_p99_s": 1}
    y = {"title_text": "TTFT [s]"}
    return _by_row("Time to first token", rows, name, columns, y, "group", look)


def _by_row(
    title: str, rows: Sequence[Mapping[str, Any]], name: str, columns: Mapping[str, int],
    y: Mapping[str, Any], mode: str, look: Look,
) -> Figure:  # fmt: skip
    """Bars of columns, a group for each row; columns: with their palette indices."""
    figure = blank(look, title, 320)
    for column, place in columns.items():
        one, values = COLUMNS[column], [float(row.get(column, 0.0)) for row in rows]
        trace = Trace(
            type="bar", x=[str(row[name]) for row in rows], y=values, name=one.head,
            marker={"color": look.classes[place]}, customdata=[one.words(v) for v in values],
            hovertemplate=f"{one.head}: %{{customdata}}<extra>%{{x}}</extra>",
        )  # fmt: skip
        figure.add_trace(trace)
    x = {"type": "category", "showgrid": False}
    low = {"rangemode": "tozero", **y}
    return figure.laid(x, low, barmode=mode, bargap=0.35, margin={"b": 92})
