"""Headline figures and memory of setups side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from app.charts.figure import Figure, bar
from app.charts.style import Look, blank
from app.decide.comparing import HEADLINES, Figures, best
from app.wording import quantities
from app.wording.quantities import GIGABYTE

_PARTS: Mapping[str, str] = {
    "weights_bytes": "weights", "kv_bytes": "KV cache", "activations_bytes": "activations",
    "reserve_bytes": "reserve",
}  # fmt: skip


def headline(table: Mapping[str, Figures], name: str, look: Look) -> Figure:
    """One figure of every setup as bars, the best in another colour; 80 % intervals on them."""
    about, first = HEADLINES[name], best(table, name)
    known = {
        label: found[name] for label, found in table.items() if math.isfinite(found[name].seconds)
    }
    scale = {"s": 1e-3, "bytes": GIGABYTE}.get(about.unit, 1.0)
    unit = {"s": "ms", "bytes": "GB"}.get(about.unit, about.unit)
    figure = blank(look, f"{about.head} [{unit}]", 90 + 34 * max(len(known), 1))
    colors = [look.good if label == first else look.classes[0] for label in known]
    trace = bar(
        y=list(known), x=[one.seconds / scale for one in known.values()], orientation="h",
        marker={"color": colors}, insidetextfont={"color": [look.on(color) for color in colors]},
        text=[about.words(one.seconds) for one in known.values()], textposition="auto",
        insidetextanchor="start", constraintext="none", textangle=0, showlegend=False,
        hovertemplate="%{y}: %{text}<extra></extra>",
    )  # fmt: skip
    if known and all(math.isfinite(one.high_s) for one in known.values()):
        trace["error_x"] = {
            "type": "data", "symmetric": False, "color": look.ink, "thickness": 1.2, "width": 4,
            "array": [(one.high_s - one.seconds) / scale for one in known.values()],
            "arrayminus": [(one.seconds - one.low_s) / scale for one in known.values()],
        }  # fmt: skip
    figure.add_trace(trace)
    figure.update_xaxes(rangemode="tozero", tickformat="~s" if about.unit == "tok/s" else "~g")
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont_color=look.ink)
    figure.update_layout(margin={"t": 40, "b": 36}, bargap=0.35)
    return figure


def memory(parts: Mapping[str, Mapping[str, float]], usable: Sequence[float], look: Look) -> Figure:
    """Memory of a device in each setup by what holds it, and what may be used.

    parts: bytes by part of `genz_core.memory.Memory`, by setup.  usable: bytes, in their order.
    """
    figure = blank(look, "Memory of the fullest device [GB]", 130 + 44 * len(parts))
    names = list(parts)
    for at, (part, words) in enumerate(_PARTS.items()):
        values = [parts[name][part] for name in names]
        figure.add_trace(
            bar(
                y=names, x=[value / GIGABYTE for value in values], orientation="h", name=words,
                marker={"color": look.classes[at]},
                customdata=[quantities.size(value) for value in values],
                hovertemplate=f"{words}: %{{customdata}}<extra></extra>",
            )
        )  # fmt: skip
    figure.add_trace(
        {
            "type": "scatter", "mode": "markers", "y": names, "name": "usable",
            "x": [value / GIGABYTE for value in usable],
            "marker": {"symbol": "line-ns-open", "size": 22, "color": look.alarm,
                       "line": {"width": 2}},
            "customdata": [quantities.size(value) for value in usable],
            "hovertemplate": "usable: %{customdata}<extra></extra>",
        }
    )  # fmt: skip
    figure.update_xaxes(rangemode="tozero", tickformat="~g")
    figure.update_yaxes(autorange="reversed", showgrid=False, tickfont_color=look.ink)
    figure.update_layout(barmode="stack", bargap=0.4, margin={"t": 44, "b": 72})
    return figure
