"""A hypothetical chip: sliders of its resources, another memory, process or power."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.dashboard import caches
from app.dashboard.does_not_fit import NONE
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import control
from app.dashboard.widgets import slide
from app.decide import chips, sensitivity
from app.decide.chips import Chip
from app.decide.sensitivity import FIGURES, Figures
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain, unbroken
from genz_core.errors import RidgelineError
from genz_core.types import System
from hardware_db.memory_stacks import generations

_OWN = "its own"
_LEAST, _MOST = 0.25, 8.0
#: Sliders: the description of each resource.
_SLIDERS: Mapping[str, str] = {
    "bandwidth": "Memory bandwidth", "peak": "Arithmetic", "link": "Links",
    "capacity": "Memory capacity",
}  # fmt: skip
#: Sliders outside of the form's expander.
_IN_VIEW = ("bandwidth", "peak")
_NOW = "now"


@st.fragment
def chip_panel(setup: Setup) -> None:
    """Draw the sliders and the form of a chip, and its figures beside those of the system."""
    system = caches.resolved(setup).system
    try:
        chip, weights = _form(system)
        question = replace(setup.scenario, weights=weights or setup.scenario.weights)
        columns = {_NOW: _figures(setup, Chip())}
        for name, one in _what_ifs(chip).items():
            columns[name] = _figures(setup, one)
        if weights or len(columns) > 2 or chip not in _what_ifs(chip).values():
            columns["all of it"] = _figures(replace(setup, scenario=question), chip)
        factors = chips.factors(system, chip)
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
        return
    made = [f"{name} ×{value:.3g}" for name, value in factors.items() if abs(value - 1) > 1e-9]
    if not made and not weights:
        del columns["all of it"]
    made += [f"weights {weights}"] if weights else []
    if made:
        st.markdown(f"**{plain(system.name)}** with {', '.join(made)}:")
    st.table(_rows(columns))
    if not list(columns.values())[-1]["fits"]:
        st.warning("It does not fit in that memory.", icon=":material/memory:")


def _what_ifs(chip: Chip) -> dict[str, Chip]:
    """The chip with only one slider applied, by slider label; each at 2 if no slider is moved."""
    moved = {name: getattr(chip, name) for name in _SLIDERS if getattr(chip, name) != 1.0}
    none: dict[str, Any] = dict.fromkeys(_SLIDERS, 1.0)
    others = replace(chip, **none)
    if not moved and others == Chip():
        moved = dict.fromkeys(_SLIDERS, 2.0)
    return {f"{_times(by)} {_SLIDERS[name].lower()}": Chip(**{name: by})
            for name, by in moved.items()}  # fmt: skip


def _times(factor: float) -> str:
    return {2.0: "twice the", 0.5: "half the"}.get(factor, f"{factor:.3g} × the")


def _form(system: System) -> tuple[Chip, str]:
    def factor(name: str) -> float:
        return slide(f"{_SLIDERS[name]} ×", _LEAST, _MOST, 1.0, f"chip_{name}", step=0.05)

    with st.grid(2, min_column_width=170):
        factors = {name: factor(name) for name in _IN_VIEW}
    more = st.expander("More", key="chip_more")
    with more, st.grid(3, min_column_width=170):
        factors |= {name: factor(name) for name in _SLIDERS if name not in _IN_VIEW}
        memory = st.selectbox("Memory", (_OWN, *generations()), key="chip_memory",
                              bind="query-params")  # fmt: skip
        stacks = st.number_input("Stacks", 1, 64, 6, key="chip_stacks", bind="query-params",
                                 disabled=memory == _OWN)  # fmt: skip
        each = st.number_input(
            "GB per stack", 0.0, 512.0, 0.0, 4.0, key="chip_gb", bind="query-params",
            disabled=memory == _OWN, help="0: the capacity stays.",
        )  # fmt: skip
        weights = control("weights", key="chip_weights")
        process = st.number_input(
            "Process ×", 0.1, 16.0, 1.0, 0.25, key="chip_process", bind="query-params",
            help="Arithmetic of another process at the same power; you must state it.",
        )  # fmt: skip
        cap = st.number_input(
            "Power cap [W]", 0.0, 20_000.0, 0.0, 50.0, key="chip_cap", bind="query-params",
            help=f"0: none. The system states {system.tdp_w:,.0f} W." if system.tdp_w else
            "The system states no power.", disabled=not system.tdp_w,
        )  # fmt: skip
    with more:
        _basis()
    generation = "" if memory == _OWN else memory
    others = {"process": process, "power_cap_w": cap, **factors}
    return Chip(generation, int(stacks) if generation else 0, each, **others), weights


def _basis() -> None:
    """Draw what the figures of the form are based on."""
    st.caption(page_text("hypothetical chip"))
    for memory in generations().values():
        st.caption(f"{memory.name}: {quantities.bandwidth(memory.bytes_per_s)} per stack, "
                   f"{plain(memory.source)}")  # fmt: skip


@caches.by_setup(128)
def _figures(setup: Setup, chip: Chip) -> Figures:
    resolved = caches.deployed(setup)
    if chip == Chip():
        return sensitivity.figures(resolved)
    made = replace(resolved, system=chips.chip_system(resolved.system, chip))
    return sensitivity.figures(made)


def _rows(columns: Mapping[str, Figures]) -> list[dict[str, str]]:
    """One row per figure, one column per what-if with its change; empty for what does not fit."""
    base = columns[_NOW]
    return [
        {
            "figure": column.head,
            **{label: _cell(base, found, name) for label, found in columns.items()},
        }
        for name, column in FIGURES.items()
    ]


def _cell(base: Figures, found: Figures, name: str) -> str:
    if not found["fits"]:
        return NONE
    words = FIGURES[name].words(found[name])
    change = quantities.change(base[name], found[name]) if base["fits"] else NONE
    return words if found is base else unbroken(f"{words} ({change})")
