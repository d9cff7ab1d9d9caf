"""Serving under load: latency and throughput over the load, throughput over interactivity."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from app.answers.column import Column, ends
from app.answers.columns import COLUMNS
from app.charts import labels
from app.charts.figure import Figure, Trace
from app.charts.parts import (
    band,
    corner_words,
    dots,
    error_reach,
    guide_across,
    guide_upwards,
    line,
    ring,
    time_axis,
    time_line,
)
from app.charts.style import Look, blank
from app.wording import quantities

Table = Mapping[str, Sequence[Any]]
#: Axis titles of the loads that a chart can be drawn over.
LOADS: Mapping[str, str] = {
    "concurrency": f"{COLUMNS['concurrency'].head} [open requests]",
    "rate": COLUMNS["rate"].title,
}
_NAMED = MappingProxyType({name: COLUMNS[f"{name}_s"].head for name in ("ttft", "tpot")})
#: Difference of a median from its mean that no line shows.
_ALIKE = 0.01
_RATE, _USER = COLUMNS["output_tokens_per_s_per_device"], COLUMNS["interactivity"]


def latencies(table: Table, load: str, look: Look, named: Mapping[str, str] = _NAMED) -> Figure:
    """Mean and median latencies over the load, on logarithmic axes, with their bound; one line
    where mean and median agree.

    table: columns `load`, status and, for each latency, `_s`, `_median_s`, `bound_*_s` and the ends
    of its interval, drawn as a band around the mean where known.  named: latencies by column
    prefix; one that no load has, as the time of a second token that nobody asked for, is left out.
    """
    figure = blank(look, "Latency over the load", 420)
    for at, (column, name) in enumerate(named.items()):
        if all(math.isnan(seconds) for seconds in table[f"{column}_s"]):
            continue
        low, high = (table[end] for end in ends(f"{column}_s"))
        figure.add_traces(band(table[load], low, high, f"{name} 80 %", look.classes[at]))
        mean, median = (table[f"{column}{suffix}"] for suffix in ("_s", "_median_s"))
        one_line = all(math.isclose(*both, rel_tol=_ALIKE) or both[0] != both[0]
                       for both in zip(mean, median, strict=True))  # fmt: skip
        lines = {"_s": ("mean and median" if one_line else "mean", "solid")}
        lines |= {} if one_line else {"_median_s": ("median", "dot")}
        for suffix, (words, dash) in lines.items():
            drawn = f"{name} {words}", dash, look.classes[at]
            figure.add_trace(_line(table, load, column + suffix, *drawn))
        figure.add_trace(_bound(table, load, column, f"{name} bound", look.classes[at]))
    times = [s for trace in figure.data for s in trace["y"] if s is not None]
    _shade_overload(figure, table, load, look)
    y, margin = {"title_text": "Time", **time_axis(times)}, {"b": 104, "l": 76}
    return figure.laid(load_axis(load, table[load]), y, hovermode="x unified", margin=margin)


def throughput(table: Table, load: str, look: Look, column: Column = _RATE) -> Figure:
    """Output tokens per second per device over the load.

    column: the rate, as sequences; the table stores it under the name of output tokens.
    """
    figure = blank(look, "Throughput over the load", 420)
    rates = list(table[_RATE.name])
    trace = line(
        table[load], rates, column.head, look.classes[2],
        "%{x:,.4g}: %{customdata} per device<extra></extra>", mode="lines+markers",
        customdata=[column.words(rate) for rate in rates], showlegend=False,
    )  # fmt: skip
    figure.add_trace(trace)
    _shade_overload(figure, table, load, look)
    y = {"title_text": column.title, "rangemode": "tozero"}
    return figure.laid(load_axis(load, table[load]), y, margin={"b": 96, "l": 66})


def throughput_over_interactivity(
    curves: Mapping[str, Table], load: str, marked_rows: Mapping[str, int], look: Look
) -> Figure:
    """Throughput per device over tokens/s per user, one curve per configuration.

    curves: tables by name.  load: column of the loads.  marked_rows: row to mark, by name of the
    table; that table's points are labelled with their loads.
    """
    figure = blank(look, "Throughput against interactivity", 460)
    for at, (name, table) in enumerate(curves.items()):
        loads = [f"{value:,.0f}" if value >= 10 else f"{value:.2g}" for value in table[load]]
        trace = line(
            table[_USER.name], table[_RATE.name], name, look.classes[at % 10],
            f"{LOADS[load]} %{{customdata}}<br>%{{x:.3g}} tok/s a user, %{{y:,.4g}} tok/s a "
            f"device<extra>{name}</extra>",
            mode="lines+markers", marker={"size": 7}, customdata=loads, cliponaxis=False,
        )  # fmt: skip
        figure.add_trace(trace)
        if name in marked_rows:
            trace |= {"mode": "lines+markers+text", "text": loads}
            trace["textfont"] = {"size": 11, "color": look.faint}
            lines = [(one[_USER.name], one[_RATE.name]) for one in curves.values()]
            labels.room_beside(lines).label(trace)
            xs, ys = ([table[c.name][marked_rows[name]]] for c in (_USER, _RATE))
            figure.add_trace(dots(xs, ys, "this load", ring(15, look.ink), ""))
    x, y = ({"title_text": one.title, "rangemode": "tozero"} for one in (_USER, _RATE))
    legend = labels.LEGEND_LINE * labels.legend_lines([trace["name"] for trace in figure.data])
    return figure.laid(x, y, margin={"b": 66 + legend, "l": 66, "r": 40})


def draw_targets(
    figure: Figure, limits: Mapping[str, float], most: float | None, words: str, look: Look
) -> None:
    """Draw a horizontal line at each latency target, labelled at the left, where latencies are
    lowest, and a vertical one at the largest load that meets them.

    limits: seconds by label of the target.  most: that load, None or 0 for none; words: "64 users".
    """
    for label, seconds in limits.items():
        guide_across(figure, seconds, label, look.faint, log=True, end="left", bgcolor=look.paper)
    if most:
        guide_upwards(
            figure, most, f"at most {words}", look.faint, y=0.0, yanchor="bottom",
            bgcolor=look.paper, **_beside(figure, most),
        )  # fmt: skip


def mark_load(figure: Figure, value: float, words: str, look: Look) -> None:
    """Draw a labelled vertical line at the scenario's own load."""
    guide_upwards(
        figure, value, words, look.ink, size=12, yanchor="top", bgcolor=look.paper,
        **_beside(figure, value),
    )  # fmt: skip


def _beside(figure: Figure, value: float) -> dict[str, Any]:
    """Place of a label beside a vertical line, on the side with more room."""
    low, high = figure.layout["xaxis"]["range"]
    left = math.log10(value) < (low + high) / 2.0
    return {"xanchor": "left" if left else "right", "xshift": 4 if left else -4}


def _line(table: Table, load: str, column: str, name: str, dash: str, color: str) -> Trace:
    rows = list(zip(*(table[one] for one in (column, *ends(column))), strict=True))
    return line(
        table[load], [float(value) if value < math.inf else None for value, *_ in rows], name,
        color, "%{customdata}", line={"dash": dash},
        mode="lines+markers" if dash == "solid" else "lines",
        customdata=[f"{quantities.seconds(value)}, 80 %: {quantities.span(low, high)}"
                    for value, low, high in rows],
    )  # fmt: skip


def _bound(table: Table, load: str, column: str, name: str, color: str) -> Trace:
    """The least time that the hardware allows at each load, as a thin dashed line."""
    seconds = [value if math.isfinite(value) else None for value in table[f"bound_{column}_s"]]
    return time_line(table[load], seconds, name, color, line={"dash": "dash", "width": 1})


class MeasuredLatency(NamedTuple):
    """A measured latency at a load [s], what ran, and the 80 % interval predicted for that run."""

    load: float
    seconds: float
    low: float
    high: float
    words: str


def draw_measured(
    figure: Figure, measured: Mapping[str, Sequence[MeasuredLatency]], look: Look
) -> None:
    """Draw measured latencies as diamonds in the colours of their lines, each with a bar from end
    to end of the interval predicted for its run.

    measured: by the latency's column prefix, "ttft" or "tpot".
    """
    for place, (column, name) in enumerate(_NAMED.items()):
        points = measured.get(column, ())
        if not points:
            continue
        known = [one for one in points if math.isfinite(one.low + one.high)]
        reach = error_reach(  # from the lower end upwards
            [one.high - one.low for one in known], [0.0] * len(known),
            color=look.classes[place], thickness=1.5, width=6,
        )  # fmt: skip
        figure.add_trace(dots(
            [one.load for one in known], [one.low for one in known],
            f"{name} predicted for the run",
            {"size": 0.1, "color": look.classes[place]}, "", error_y=reach, showlegend=False,
        ))  # fmt: skip
        figure.add_trace(dots(
            [one.load for one in points], [one.seconds for one in points], f"{name} measured",
            {"symbol": "diamond", **ring(7, look.classes[place], look.paper)},
            f"{name} measured %{{customdata}}<extra></extra>",
            customdata=[f"{quantities.seconds(one.seconds)}; predicted for this run "
                        f"{quantities.span(one.low, one.high)}: {one.words}" for one in points],
        ))  # fmt: skip


def _shade_overload(figure: Figure, table: Table, load: str, look: Look) -> None:
    """Grey out the loads that cannot be sustained."""
    status = zip(table[load], table["status"], strict=True)
    full = [float(value) for value, words in status if words == "overloaded"]
    stable = [float(value) for value in table[load] if float(value) not in full]
    if full and stable:
        figure.add_vrect(x0=max(stable), x1=max(full) * 2, fillcolor=look.alarm, opacity=0.14)
        corner_words(figure, "overloaded", look.alarm)


def load_axis(load: str, loads: Sequence[float]) -> dict[str, Any]:
    """Layout of a logarithmic load axis with a margin at both ends.  load: of `LOADS`."""
    low, high = math.log10(min(loads)), math.log10(max(loads))
    air = 0.03 * (high - low)
    return {
        "title_text": LOADS[load],
        "type": "log",
        "range": [low - air, high + air],
        "tickformat": "~g" if high < 3 else "~s",
        "dtick": "D2" if high - low < 2.5 else 1,
    }
