"""Sensitivity of figures: a tornado of resources, and the ridge between memory- and
compute-bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.charts.figure import Figure
from app.charts.parts import guide_upwards, line, lying_bars, time_axis
from app.charts.style import Look, blank
from app.decide.sensitivity import RESOURCES, Figures, Ridge, Sensitivity
from app.wording import quantities

_SIZES: Mapping[str, str] = {"decode": "Batch [sequences]", "prefill": "Prompt [tokens]"}


def tornado(
    base: Figures, found: Sequence[Sensitivity], name: str, words: str, look: Look
) -> Figure:
    """Change of a figure with more and less of each resource, the largest effect on top."""
    ranked = sorted(found, key=lambda one: abs(one.elasticity[name]))
    figure = blank(look, words, 110 + 46 * len(ranked))
    for at, (side, label) in enumerate((("less", "less of it"), ("more", "more of it"))):
        shares = [100.0 * (getattr(one, side)[name] / base[name] - 1.0) for one in ranked]
        shown = [
            f"{RESOURCES[one.resource]}, {label}: {share:+.1f} %, elasticity "
            f"{one.elasticity[name]:+.2f}"
            for one, share in zip(ranked, shares, strict=True)
        ]
        names = [RESOURCES[one.resource] for one in ranked]
        hover, color = "%{customdata}<extra></extra>", look.classes[1 - at]
        figure.add_trace(lying_bars(names, shares, label, color, hover, customdata=shown))
    figure.add_vline(0.0, {"color": look.faint, "width": 1})
    figure.update_xaxes(title_text="Change [%]", tickformat="~g")
    figure.update_yaxes(showgrid=False, tickfont_color=look.ink)
    figure.update_layout(barmode="overlay", bargap=0.4, margin={"t": 40, "b": 72})
    return figure


def ridge(found: Ridge, now: float, look: Look) -> Figure:
    """Least compute time and least memory time of a step over its size, and their crossing.

    now: the scenario's own size.
    """
    figure = blank(look, f"{found.phase.capitalize()}: arithmetic and memory traffic", 400)
    sides = (("arithmetic", found.compute_s, 0), ("memory traffic", found.memory_s, 1))
    for name, seconds, color in sides:
        values = [float(value) for value in seconds]
        figure.add_trace(
            line(
                found.at.tolist(), values, name, look.classes[color], "%{x:,.0f}: %{customdata}",
                customdata=[quantities.seconds(value) for value in values],
            )
        )  # fmt: skip
    crossing = found.crossings["all"]
    if crossing is not None and crossing > found.at[0]:
        guide_upwards(figure, crossing, f"ridge at {crossing:,.0f}", look.good, y=1.06)
    guide_upwards(figure, now, "now", look.faint)
    figure.update_xaxes(title_text=_SIZES[found.phase], type="log", tickformat="~s")
    times = time_axis([*found.compute_s, *found.memory_s])
    figure.update_yaxes(title_text="Least time of a step", **times)
    figure.update_layout(hovermode="x unified", margin={"t": 80, "b": 96})
    return figure
