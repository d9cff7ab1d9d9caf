"""Cost over a day, cost against an API's price, and energy under a power cap."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.answers.columns import COLUMNS
from app.charts.figure import Figure, Trace
from app.charts.labels import axis_end
from app.charts.parts import BESIDE, guide_across, lay_bars, limit_mark, line, lying_bars
from app.charts.style import Look, blank
from app.wording import quantities

Ways = Mapping[str, Mapping[str, Any]]


def token_prices(ways: Ways, api: Mapping[str, float], look: Look) -> Figure:
    """Cost per million tokens (input, cached, output, blended), one group of bars per option.

    api: prices of an API by kind, drawn as a further group; empty if there is none.
    """
    kinds = {"input": "usd_per_mtok_in", "cached input": "usd_per_mtok_cached",
             "output": "usd_per_mtok_out", "in and out": "usd_per_mtok_blended"}  # fmt: skip
    named = {way: {kind: found[column] for kind, column in kinds.items()}
             for way, found in ways.items()}  # fmt: skip
    if api:
        named["API"] = dict(api)
    figure = blank(look, "Cost per million tokens, split by time", 150 + 4 * 24 * (len(named) + 1))
    for at, (way, costs) in enumerate(named.items()):
        color = look.rest if way == "API" else look.classes[at]
        shown = [quantities.dollars(value) for value in costs.values()]
        hover = f"%{{y}}: $%{{x:.4g}}<extra>{way}</extra>"
        figure.add_trace(lying_bars(costs, costs.values(), way, color, hover, text=shown, **BESIDE))
    prices = [price for costs in named.values() for price in costs.values()]
    end = axis_end([(price, quantities.dollars(price)) for price in prices])
    reach = [0, end or 1.0]
    return lay_bars(figure, look, "US dollars", bottom=84, mode="group", gap=0.3, range=reach)


def against_api(
    ways: Ways, most: float, api_per_request: float, tokens: float, look: Look
) -> Figure:
    """Cost per million tokens over the arrival rate, beside the API's price.

    Replicas are added when the present ones are full.
    most: largest arrival rate of one replica [1/s].  tokens: input and output tokens of a request.
    """
    title = "Self-hosted against an API" if api_per_request else "Self-hosted, by arrivals"
    figure = blank(look, title, 380)
    rates = np.geomspace(most / 50.0, 4.0 * most, 160)
    replicas = np.ceil(rates / most)
    for at, (way, found) in enumerate(ways.items()):
        hourly = replicas * found["usd_per_replica_hour"]
        costs = hourly / 3600.0 / (rates * tokens) * 1e6
        hover = f"%{{x:.3g}} requests/s: $%{{y:.3g}}<extra>{way}</extra>"
        figure.add_trace(line(rates.tolist(), costs.tolist(), way, look.classes[at], hover))
    if api_per_request > 0.0:
        price = api_per_request / tokens * 1e6
        words = f"API {quantities.dollars(price)}"
        guide_across(figure, price, words, look.alarm, log=True, size=12, width=1.5)
    log = {"type": "log", "tickformat": "~g"}
    y = {"title_text": "Cost per million tokens,<br>input and output [$]", "dtick": "D2", **log}
    return figure.laid({"title_text": COLUMNS["rate"].title, **log}, y, margin={"b": 90})


def day(rates: Sequence[float], replicas: Mapping[str, Sequence[float]], look: Look) -> Figure:
    """Arrival rate by hour, and the replicas that serve it under each way of running them."""
    figure = blank(look, "A day", 360)
    most = max(max(counts) for counts in replicas.values())
    hours = list(range(len(rates)))
    arrivals = Trace(
        x=hours, y=list(rates), name="arrivals [requests/s]", marker={"color": look.rest},
        type="bar", hovertemplate="%{x}:00: %{y:.3g} requests/s<extra></extra>",
    )  # fmt: skip
    figure.add_trace(arrivals)
    for at, (name, counts) in enumerate(replicas.items()):
        trace = line(
            hours, counts, f"replicas, {name}", look.classes[at],
            f"%{{x}}:00: %{{y:.0f}} replicas<extra>{name}</extra>",
            line={"shape": "hvh", "dash": "dash" if at else "solid"}, yaxis="y2",
        )  # fmt: skip
        figure.add_trace(trace)
    right = {
        "overlaying": "y", "side": "right", "rangemode": "tozero", "showgrid": False,
        "title": {"text": "Replicas"}, "tickformat": "d", "dtick": max(math.ceil(most / 5), 1),
    }  # fmt: skip
    x = {"title_text": "Hour", "dtick": 3, "showgrid": False}
    y = {"title_text": COLUMNS["rate"].title, "rangemode": "tozero"}
    return figure.laid(x, y, yaxis2=right, margin={"b": 90, "r": 60})


def power_parts(parts: Mapping[str, float], tdp_w: float, look: Look) -> Figure:
    """Power of a device by consumer [W], with its thermal design power."""
    figure = blank(look, "Power per device [W]", 220)
    for at, (name, watts) in enumerate(parts.items()):
        color = look.rest if name == "idle" else look.classes[at - 1]
        hover = f"{name}: %{{x:,.0f}} W<extra></extra>"
        figure.add_trace(lying_bars(["power"], [watts], name, color, hover))
    hover = "design power: %{x:,.0f} W<extra></extra>"
    figure.add_trace(limit_mark([tdp_w], ["power"], "design power", look, 34, hover))
    x, y = {"rangemode": "tozero", "tickformat": "~g"}, {"showticklabels": False, "showgrid": False}
    return figure.laid(x, y, barmode="stack", margin={"b": 80})


def power_caps(columns: Mapping[str, Sequence[float]], look: Look) -> Figure:
    """Output tokens and energy per token under power caps, relative to the device without a cap."""
    figure = blank(look, "Under a power cap", 360)
    for at, (name, words) in enumerate(
        (("output_tokens_per_s", "output"), ("joules_per_token", "energy per token"))
    ):
        values = np.array(columns[name])
        shares = (100.0 * values / values[-1]).tolist()
        hover = f"%{{x:,.0f}} W: %{{y:.0f}} % (%{{customdata}})<extra>{words}</extra>"
        told = {"mode": "lines+markers", "customdata": [f"{value:,.4g}" for value in values]}
        figure.add_trace(line(columns["cap_w"], shares, words, look.classes[at], hover, **told))
    y = {"title_text": "Relative to no cap [%]", "rangemode": "tozero"}
    return figure.laid("Power cap per device [W]", y, margin={"b": 90})
