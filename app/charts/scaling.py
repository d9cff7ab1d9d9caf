"""Autoscaled replicas: demand and replicas over the day, and latency percentiles by hour."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from app.charts.figure import Figure
from app.charts.parts import line, over_arrivals
from app.charts.style import Look, blank
from app.wording import quantities

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
    names = {"there": "paid for", "ready": "serving"}
    for at, (column, name) in enumerate(names.items()):
        time = _hours([*course["time_s"], end])
        values = [*course[column], *course[column][-1:]]
        hover = f"%{{y:,.0f}} {name}<extra></extra>"
        figure.add_trace(
            line(time, values, name, look.classes[(0, 2)[at]], hover,
                 line={"width": 2, "shape": "hv"})
        )  # fmt: skip
    figure.add_trace(
        line(_hours([0.0, end]), [fixed, fixed], "fixed", look.alarm,
             "%{y:,.0f} fixed<extra></extra>", line={"width": 1.5, "dash": "dash"})
    )  # fmt: skip
    most = max([fixed, *course["there"]])
    return figure.laid(
        {"title_text": "Time [h]", "anchor": "y2"},
        {"title_text": "Replicas", "domain": [0.42, 1.0], "anchor": "x", "range": [0, 1.1 * most],
         "tickformat": "d", "dtick": max(math.ceil(most / 5), 1)},
        yaxis2={"title": {"text": "Demand [1/s]"}, "rangemode": "tozero", "domain": [0.0, 0.34],
                "anchor": "x"},
        hovermode="x unified", margin={"t": 44, "b": 92},
    )  # fmt: skip


def tails(windows: Rows, name: str, title: str, target_s: float, look: Look) -> Figure:
    """Median and p99 of a latency by hour, autoscaled and with a fixed number of replicas.

    name: "ttft" or "tpot".  target_s: 0 for none.
    """
    figure = blank(look, f"{title} by time of arrival", 360)
    shown: list[float] = []
    for prefix, of, dash in (("", "following", "solid"), ("fixed_", "fixed", "dash")):
        for at, percentile in enumerate(("p50", "p99")):
            seconds = [row[f"{prefix}{name}_{percentile}_s"] for row in windows]
            shown += [value for value in seconds if value]
            words = ["–" if value is None else quantities.seconds(value) for value in seconds]
            label = f"{percentile}, {of}"
            trace = line(
                _middles(windows), seconds, label, look.classes[(0, 2)[at]],
                f"%{{customdata}}<extra>{label}</extra>", customdata=words,
                line={"width": 2, "dash": dash},
            )  # fmt: skip
            figure.add_trace(trace)
    return over_arrivals(figure, "Time [h]", title, shown, target_s, look)
