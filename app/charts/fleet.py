"""The machines of a fleet and the number of their devices that each model uses."""

from collections.abc import Mapping
from typing import Any

from app.charts.figure import Figure
from app.charts.parts import lay_bars, lying_bars
from app.charts.style import Look, blank

_IDLE = "idle"


def machines(named: Mapping[str, Any], look: Look) -> Figure:
    """One bar per machine in use, its devices coloured by model; the rest is idle.

    named: the document of `ridgeline fleet --json`.
    """
    bars = {
        f"{kind['name']} {at + 1}": (kind, slots)
        for kind in named["machines"]
        for at, slots in enumerate(kind["filled"])
    }
    chart = blank(look, f"{named['title']}: devices in use, by machine", 130 + 26 * len(bars))
    for at, model in enumerate(named["models"]):
        held = [sum(slot["devices"] for slot in slots if slot["name"] == model["name"])
                for _, slots in bars.values()]  # fmt: skip
        if any(held):
            trace = lying_bars(
                bars, held, model["name"], look.classes[at % len(look.classes)],
                f"{model['name']}: %{{x}} devices<extra>%{{y}}</extra>",
            )  # fmt: skip
            chart.add_trace(trace)
    idle = [kind["devices"] - sum(slot["devices"] for slot in slots)
            for kind, slots in bars.values()]  # fmt: skip
    if any(idle):
        chart.add_trace(lying_bars(bars, idle, _IDLE, look.grid, "%{x} idle<extra>%{y}</extra>"))
    return lay_bars(chart, look, "Devices", bottom=72, gap=0.25, top=40, rangemode="tozero")
