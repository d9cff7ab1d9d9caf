"""The machines of a fleet and the number of their devices that each model uses."""

from collections.abc import Mapping
from typing import Any

from app.charts.figure import Figure
from app.charts.parts import lay_bars, lying_bars
from app.charts.style import Look, blank


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
        name, color = model["name"], look.classes[at % len(look.classes)]
        held = [sum(slot["devices"] for slot in slots if slot["name"] == name)
                for _, slots in bars.values()]  # fmt: skip
        if any(held):
            hover = f"{name}: %{{x}} devices<extra>%{{y}}</extra>"
            chart.add_trace(lying_bars(bars, held, name, color, hover))
    idle = [kind["devices"] - sum(slot["devices"] for slot in slots)
            for kind, slots in bars.values()]  # fmt: skip
    if any(idle):
        chart.add_trace(lying_bars(bars, idle, "idle", look.grid, "%{x} idle<extra>%{y}</extra>"))
    return lay_bars(chart, look, "Devices", bottom=72, gap=0.25, rangemode="tozero")
