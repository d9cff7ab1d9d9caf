"""Parts of page Chip lab: the tornado, the ridges, the hardware that targets need."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from app.charts import chip_lab as charts
from app.dashboard import caches, export, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import control
from app.dashboard.widgets import draw_table, saying_errors
from app.decide import sensitivity as model
from app.decide.needed_hardware import Requirement, requirement
from app.decide.sensitivity import FIGURES, RESOURCES, Ridge
from app.planning.targets import parse_targets
from app.scenario.setup import Setup
from app.wording import quantities

Answered = TypeVar("Answered")
_LEAST: Mapping[str, str] = {
    "capacity_bytes": "Memory",
    "bytes_per_s": "Memory bandwidth",
    "flops_per_s": "Arithmetic",
    "link_bytes_per_s": "Link bandwidth",
}


@caches.by_setup(96)
def _of(setup: Setup, answer: Callable[..., Answered], *more: Any) -> Answered:
    """An answer of `app.decide.sensitivity` for a setup."""
    return answer(caches.deployed(setup), *more)


def answers(setup: Setup) -> None:
    """Draw the effect of more and less of each resource on each figure."""
    with sidebar.stopping():
        percent = control("change", width=320)
        changed = replace(setup, scenario=replace(setup.scenario, change=percent))
        base, rows = _of(changed, model.sensitivities)
    look = export.look()
    figures = {name: one for name, one in FIGURES.items() if math.isfinite(base[name])}
    shown = {
        column.head: charts.tornado(
            base, rows, name, f"{column.head}, now {column.words(base[name])}", look
        )
        for name, column in figures.items()
    }
    export.grid("tornado", shown, 3, 270)
    table = pd.DataFrame(
        {
            "resource": RESOURCES[row.resource],
            **{column.head: row.elasticity[name] for name, column in figures.items()},
        }
        for row in rows
    )
    signed = st.column_config.NumberColumn(format="%+.3f")
    heads = {column.head: signed for column in figures.values()}
    draw_table(table, "elasticities", column_config=heads)
    st.caption(page_text("elasticities"))
    export.downloads("sensitivity", shown, table, setup)


def ridges(setup: Setup) -> None:
    """Draw where decode and prefill change from memory-bound to compute-bound."""
    with sidebar.stopping():
        both = _of(setup, model.ridges)
    s, look = setup.scenario, export.look()
    for column, ridge, now in zip(st.columns(2, gap="medium"), both, (s.batch, s.isl), strict=True):
        with column:
            export.chart(charts.ridge(ridge, now, look), f"ridge-{ridge.phase}")
            for name, place in ridge.crossings.items():
                st.markdown(f"- {_crossing_words(name, place, ridge)}")
    st.caption(page_text("ridges"))


def _crossing_words(name: str, place: float | None, ridge: Ridge) -> str:
    what = {"all": "the whole step", "gemm": "matrix products", "moe": "experts",
            "attention": "attention"}[name]  # fmt: skip
    size = "batch" if ridge.phase == "decode" else "prompt"
    if place is None:
        return f"{what}: memory traffic limits up to {size} {ridge.at[-1]:,.0f}"
    if place <= ridge.at[0]:
        return f"{what}: arithmetic limits from {size} {ridge.at[0]:,.0f} on"
    break_even = " (break-even batch)" if (name, ridge.phase) == ("all", "decode") else ""
    return f"{what}: ridge at {size} **{place:,.0f}**{break_even}"


def needed(setup: Setup) -> None:
    """Draw the targets, and what hardware would meet them."""
    if not setup.scenario.target:
        st.info(page_text("no targets"), icon=":material/flag:")
        return
    with saying_errors():
        targets = parse_targets(", ".join(setup.scenario.target))
        _show_needed(_of(setup, requirement, targets))


def _show_needed(need: Requirement) -> None:
    """Draw the factors on single resources, and the least of each that a device needs."""
    factors = [
        {
            "resource": RESOURCES.get(name, "All together"),
            "needed": f"64× is not enough{' alone' if name in RESOURCES else ''}"
            if factor is None
            else f"{quantities.digits(factor)}× the present value"
            if factor != 1.0
            else "the present value is enough",
        }
        for name, factor in need.factors.items()
    ]
    draw_table(factors, "requirement_factors")
    st.markdown("Each device needs at least:")
    least = [
        {"resource": words, "at least": _amount(name, need.least[name]),
         "this system has": _amount(name, need.has[name])}
        for name, words in _LEAST.items()
    ]  # fmt: skip
    draw_table(least, "requirement_least")
    st.caption(page_text("needed hardware"))


def _amount(name: str, value: float) -> str | None:
    if not math.isfinite(value) or not value:
        return None
    writers = {"capacity_bytes": quantities.size, "flops_per_s": quantities.flops_rate}
    return writers.get(name, quantities.bandwidth)(value)
