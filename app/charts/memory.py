"""Memory of a device by use, over batch or context, against its capacity."""

from collections.abc import Mapping, Sequence

from app.charts.figure import Figure, Trace
from app.charts.parts import corner_words, inside
from app.charts.style import BUTTONS, Look, blank
from app.wording import quantities
from app.wording.looks import LOOKS
from app.wording.quantities import GIGABYTE

#: Name of the limit if a second memory takes what does not fit in the first.
BOTH = "both memories"
_AXIS = "Memory per device [GB]"
#: Parts in stacking order, with their palette index.
PARTS: Mapping[str, tuple[str, int]] = LOOKS["memory"]


def stacked(
    table: Mapping[str, Sequence[float]], axis_title: str, limits: Mapping[str, float], look: Look,
    *, scenario_at: float | None = None,
) -> Figure:  # fmt: skip
    """One stacked bar per configuration, one line per limit; an arrow marks bars cut at the top.

    table: `at` (batch or tokens) and bytes by part of `PARTS`.  limits: bytes by name.
    scenario_at: the scenario's value of `at`, whose bar is marked.
    """
    figure = blank(look, "", 502)
    labels = [quantities.count(value) for value in table["at"]]
    figure.add_traces(part_bars(part, labels, table[part], look, lying=False) for part in PARTS)
    totals = [sum(table[name][at] for name in PARTS) for at in range(len(labels))]
    _limits(figure, limits, look)
    _overflow(figure, labels, totals, limits.get(BOTH, min(limits.values())), look)
    top = max(limits.values())
    seen = max([total for total in totals if total <= 3 * top], default=min(totals))
    end = max(seen, top) * 1.12
    for label, total in zip(labels, totals, strict=True):
        if total > end:
            figure.add_text(
                "↑", 12, look.on(look.classes[PARTS["kv_bytes"][1]]),
                x=label, y=1, yref="paper", yanchor="top",
            )  # fmt: skip
    marked = [
        f"<b>▲ {label}</b>" if scenario_at is not None and value == scenario_at else label
        for label, value in zip(labels, table["at"], strict=True)
    ]
    x = {"title_text": axis_title, "type": "category", "showgrid": False}
    y = {"title_text": _AXIS, "range": [0, end / GIGABYTE], "tickformat": "~g"}
    margin = {"t": BUTTONS + 40, "b": 110, "l": 60, "r": 24}
    ticks = {"tickvals": labels, "ticktext": marked}
    return figure.laid(x | ticks, y, barmode="stack", bargap=0.25, margin=margin)


def part_bars(
    part: str, names: Sequence[str], held: Sequence[float], look: Look, *, lying: bool = True
) -> Trace:
    """The bars of one part of `PARTS`, one per configuration.  held: its bytes in each."""
    words, place = PARTS[part]
    values = [value / GIGABYTE for value in held]
    sides = {"y": names, "x": values, "orientation": "h"} if lying else {"x": names, "y": values}
    return Trace(
        type="bar", **sides, name=words, marker={"color": look.classes[place]},
        customdata=[quantities.size(value) for value in held],
        hovertemplate=f"{words}: %{{customdata}}<extra>%{{{'y' if lying else 'x'}}}</extra>",
    )  # fmt: skip


def _rule(name: str, look: Look) -> dict[str, object]:
    """Line style of a limit: solid for the capacity, dashed for what the engine may use."""
    return {"color": look.ink, "width": 1.5, "dash": "solid" if name == "capacity" else "dash"}


def _limits(figure: Figure, limits: Mapping[str, float], look: Look) -> None:
    """Draw a line at each limit, and name them above the bars, which they would hide."""
    for name, value in limits.items():
        figure.add_hline(y=value / GIGABYTE, line=_rule(name, look))
    corner_words(figure, _named(limits), look.faint, line=1)


def _named(limits: Mapping[str, float]) -> str:
    return " · ".join(f"{name} {quantities.size(value)}" for name, value in limits.items())


def _overflow(
    figure: Figure, labels: Sequence[str], totals: Sequence[float], usable: float, look: Look
) -> None:
    """Shade the configurations that do not fit."""
    over = [at for at, total in enumerate(totals) if total > usable]
    if over:
        ends = over[0] - 0.5, len(labels) - 0.5
        figure.add_vrect(*ends, fillcolor=look.alarm, opacity=0.10, layer="below")
        corner_words(figure, "shaded: does not fit", look.alarm)


def single(parts: Mapping[str, float], limits: Mapping[str, float], look: Look) -> Figure:
    """A horizontal bar of the scenario's memory against its limits.

    parts: bytes by part of `PARTS`.  limits: bytes by name.
    """
    figure = blank(look, "", 214)
    for part in PARTS:
        trace = part_bars(part, [""], [parts[part]], look)
        words = trace.pop("customdata")
        trace |= inside(words, trace["marker"]["color"], look) | {"constraintext": "inside"}
        trace["hovertemplate"] = f"{trace['name']}: %{{text}}<extra></extra>"
        figure.add_trace(trace)
    for name, value in limits.items():
        figure.add_vline(x=value / GIGABYTE, line=_rule(name, look))
    corner_words(figure, _named(limits), look.faint)
    top = max([*limits.values(), sum(parts.values())]) / GIGABYTE
    x = {"range": [0, top * 1.04], "title_text": _AXIS, "tickformat": "~g"}
    margin = {"t": BUTTONS + 22, "b": 84, "l": 18, "r": 16}
    small = {"minsize": 11, "mode": "hide"}
    y = {"showgrid": False}
    return figure.laid(x, y, barmode="stack", bargap=0.1, margin=margin, uniformtext=small)
