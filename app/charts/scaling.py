"""Autoscaled replicas: demand and replicas over the day, and latency percentiles by hour."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.charts.figure import Figure
from app.charts.parts import line, over_arrivals, time_line
from app.charts.style import Look, blank

_HOUR_S = 3600.0
Rows = Sequence[Mapping[str, Any]]


def _hours(seconds: Sequence[float]) -> list[float]:
    return [value / _HOUR_S for value in seconds]


def _middles(windows: Rows) -> list[float]:
    return _hours([(row["start_s"] + row["end_s"]) / 2.0 for row in windows])


def replicas(
    windows: Rows, course: Mapping[str, Sequence[float]], fixed: int, look: Look
) -> Figure:
    """Requests per second, and the replicas that are billed and that serve.

    windows: start_s, end_s and requests_per_s.  course: time_s, there and ready.  fixed: number of
    replicas in the fixed deployment.
    """
    figure = blank(look, "Demand and replicas over time", 420)
    end = windows[-1]["end_s"]
    served = [row["requests_per_s"] for row in windows]
    trace = line(
        _middles(windows), served, "demand", look.classes[1],
        "%{y:.3g} requests/s<extra>demand</extra>", yaxis="y2",
        line={"width": 1.5, "dash": "dot"},
    )  # fmt: skip
    figure.add_trace(trace)
    time, edge = _hours([*course["time_s"], end]), {"shape": "hv"}
    for column, name, place in (("there", "paid for", 0), ("ready", "serving", 2)):
        values = [*course[column], *course[column][-1:]]
        hover = f"%{{y:,.0f}} {name}<extra></extra>"
        figure.add_trace(line(time, values, name, look.classes[place], hover, line=edge))
    hover, dashed = "%{y:,.0f} fixed<extra></extra>", {"width": 1.5, "dash": "dash"}
    figure.add_trace(
        line(_hours([0.0, end]), [fixed, fixed], "fixed", look.alarm, hover, line=dashed)
    )
    most = max([fixed, *course["there"]])
    return figure.laid(
        {"title_text": "Time [h]", "anchor": "y2"},
        {"title_text": "Replicas", "domain": [0.42, 1.0], "anchor": "x", "range": [0, 1.1 * most],
         "tickformat": "d", "dtick": max(math.ceil(most / 5), 1)},
        yaxis2={"title": {"text": "Demand [1/s]"}, "rangemode": "tozero", "domain": [0.0, 0.34],
                "anchor": "x"},
        hovermode="x unified", margin={"b": 92},
    )  # fmt: skip


def tails(windows: Rows, name: str, title: str, target_s: float, look: Look) -> Figure:
    """Median and p99 of a latency by hour, autoscaled and with a fixed number of replicas.

    name: "ttft" or "tpot".  target_s: 0 for none.
    """
    lines = (
        time_line(
            _middles(windows), [row[f"{prefix}{name}_{percentile}_s"] for row in windows],
            f"{percentile}, {of}", look.classes[place], line={"dash": dash},
        )
        for prefix, of, dash in (("", "following", "solid"), ("fixed_", "fixed", "dash"))
        for percentile, place in (("p50", 0), ("p99", 2))
    )  # fmt: skip
    return over_arrivals(f"{title} by time of arrival", "Time [h]", title, lines, target_s, look)
