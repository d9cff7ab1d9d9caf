"""Charts of page Chip lab: a tornado of resources, ridges, a study's bars, uneven experts."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.answers.column import Column
from app.answers.columns import COLUMNS
from app.charts.figure import Figure
from app.charts.labels import wrapped
from app.charts.parts import guide_upwards, lay_bars, line, lying_bars, time_axis
from app.charts.style import Look, blank
from app.decide.sensitivity import RESOURCES, Figures, Ridge, Sensitivity
from app.decide.study import label
from app.wording import quantities

_NAMES_PX = 170.0  # width of names beside bars, on a telephone
_SIZES: Mapping[str, str] = {"decode": "Batch [sequences]", "prefill": "Prompt [tokens]"}
#: Figures that a study's chart can show, by column name of its rows.
FIGURES: Mapping[str, Column] = {
    "output_tokens_per_s_per_device": COLUMNS["output_tokens_per_s_per_device"],
    "tpot_s": COLUMNS["tpot_s"],
    "usd_per_million_tokens": COLUMNS["usd_per_mtok"],
    "joules_per_token": COLUMNS["joules_per_token"],
}


def tornado(
    base: Figures, found: Sequence[Sensitivity], name: str, words: str, look: Look
) -> Figure:
    """Change of a figure with more and less of each resource, the largest effect on top."""
    ranked = sorted(found, key=lambda one: -abs(one.elasticity[name]))
    figure = blank(look, words, 110 + 46 * len(ranked))
    for at, (side, side_words) in enumerate((("less", "less of it"), ("more", "more of it"))):
        shares = [100.0 * (getattr(one, side)[name] / base[name] - 1.0) for one in ranked]
        shown = [
            f"{RESOURCES[one.resource]}, {side_words}: {share:+.1f} %, elasticity "
            f"{one.elasticity[name]:+.2f}"
            for one, share in zip(ranked, shares, strict=True)
        ]
        names = [RESOURCES[one.resource] for one in ranked]
        hover, color = "%{customdata}<extra></extra>", look.classes[1 - at]
        figure.add_trace(lying_bars(names, shares, side_words, color, hover, customdata=shown))
    figure.add_vline(0.0, {"color": look.faint, "width": 1})
    return lay_bars(figure, look, "Change [%]", bottom=72, mode="overlay", gap=0.4)


def ridge(found: Ridge, now: float, look: Look) -> Figure:
    """Least compute time and least memory time of a step over its size, and their crossing.

    now: the scenario's own size.
    """
    figure = blank(look, f"{found.phase.capitalize()}: arithmetic and memory traffic", 400)
    sides = (("arithmetic", found.compute_s, 0), ("memory traffic", found.memory_s, 1))
    for name, seconds, color in sides:
        words, hover = [*map(quantities.seconds, seconds)], "%{x:,.0f}: %{customdata}"
        drawn = found.at.tolist(), seconds.tolist(), name, look.classes[color]
        figure.add_trace(line(*drawn, hover, customdata=words))
    crossing = found.crossings["all"]
    if crossing is not None and crossing > found.at[0]:
        guide_upwards(figure, crossing, f"ridge at {crossing:,.0f}", look.good, y=1.06)
    guide_upwards(figure, now, "now", look.faint)
    x = {"title_text": _SIZES[found.phase], "type": "log", "tickformat": "~s"}
    times = time_axis([*found.compute_s, *found.memory_s])
    y = {"title_text": "Lower bound of a step", **times}
    return figure.laid(x, y, hovermode="x unified", margin={"t": 80, "b": 96})


def bars(rows: Sequence[Mapping[str, Any]], figure: str, title: str, look: Look) -> Figure:
    """One figure of every combination that runs, the first on top; the hover has its bound.

    rows: of `app.decide.study.Study`.  figure: of `FIGURES`.
    """
    drawn = [row for row in rows if row.get(figure) is not None]
    column = FIGURES[figure]
    names = {label(row): "<br>".join(wrapped(label(row), 12.0, _NAMES_PX)) for row in drawn}
    most = max((name.count("<br>") + 1 for name in names.values()), default=1)
    chart = blank(look, title, 130 + max(30, 15 * most + 8) * len(drawn))
    for at, technique in enumerate(dict.fromkeys(row["technique"] for row in drawn)):
        mine = [row for row in drawn if row["technique"] == technique]
        said = [column.words(row[figure]) for row in mine]
        trace = lying_bars(
            [names[label(row)] for row in mine], [row[figure] for row in mine], technique,
            look.classes[at % len(look.classes)],
            "%{y}<br>%{text}, %{customdata}<extra></extra>", text=said, textposition="auto",
            customdata=[row["decode_bound_by"] for row in mine],
        )  # fmt: skip
        chart.add_trace(trace)
    return lay_bars(
        chart, look, column.title, bottom=72, mode="overlay", names=[*names.values()],
        rangemode="tozero",
    )  # fmt: skip


def busiest_ranks(rows: Sequence[Mapping[str, Any]], look: Look) -> Figure:
    """Load of the busiest rank over the mean, by copies of experts.

    rows: of `app.decide.routing.routing`.
    """
    chart = blank(look, "Tokens of the busiest rank over the mean, by redundant experts", 280)
    names = [f"{row['redundant_experts']} copies" for row in rows]
    loads = [float(row["busiest_rank"]) for row in rows]
    hover = "%{y}: %{x:.3g}<extra></extra>"
    chart.add_trace(lying_bars(names, loads, "busiest rank", look.classes[0], hover))
    return lay_bars(chart, look, "Busiest rank over the mean", bottom=72, rangemode="tozero")
