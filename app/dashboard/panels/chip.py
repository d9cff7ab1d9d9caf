"""A hypothetical chip: sliders of its resources, another memory, process or power."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import streamlit as st

from app.dashboard import caches, display_tables
from app.dashboard.does_not_fit import NONE
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import control
from app.dashboard.widgets import pick, saying_errors, slide
from app.decide import chips, sensitivity
from app.decide.chips import Chip
from app.decide.sensitivity import FIGURES, Figures
from app.scenario.intervals import Ranged
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.systems import System
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
    with saying_errors():
        system = caches.resolved(setup).system
        chip, weights = _form(system)
        question = replace(setup.scenario, weights=weights or setup.scenario.weights)
        columns = {_NOW: _figures(setup, Chip())}
        columns |= {name: _figures(setup, one) for name, one in _what_ifs(chip).items()}
        factors = chips.factors(system, chip)
        made = [f"{name} ×{value:.3g}" for name, value in factors.items() if abs(value - 1) > 1e-9]
        made += [f"weights {weights}"] if weights else []
        if made and (weights or len(columns) > 2 or chip not in _what_ifs(chip).values()):
            columns["all of it"] = _figures(replace(setup, scenario=question), chip)
        if made:
            st.markdown(f"**{plain(system.name)}** with {', '.join(made)}:")
        table = {label: {name: Ranged(*3 * [found[name]]) for name in FIGURES if found["fits"]}
                 for label, found in columns.items()}  # fmt: skip
        st.table(display_tables.comparison_words(table).fillna(NONE))
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
        memory = pick("Memory", (_OWN, *generations()), "chip_memory")
        stacks = st.number_input("Stacks", 1, 64, 6, key="chip_stacks", bind="query-params",
                                 disabled=memory == _OWN)  # fmt: skip
        each = st.number_input(
            "GB per stack", 0.0, 512.0, 0.0, 4.0, key="chip_gb", bind="query-params",
            disabled=memory == _OWN, help="0: the capacity stays.",
        )  # fmt: skip
        weights = control("weights", key="chip_weights")
        process = st.number_input(
            "Process ×", 0.1, 16.0, 1.0, 0.25, key="chip_process", bind="query-params",
            help=page_text("process factor"),
        )  # fmt: skip
        watts = f"{system.tdp_w:,.0f} W" if system.tdp_w else "no power"
        cap = st.number_input(
            "Power cap [W]", 0.0, 20_000.0, 0.0, 50.0, key="chip_cap", bind="query-params",
            help=f"0: none. The system states {watts}.", disabled=not system.tdp_w,
        )  # fmt: skip
    with more:
        st.caption(page_text("hypothetical chip"))
        for one in generations().values():
            rate = quantities.bandwidth(one.bytes_per_s)
            st.caption(f"{one.name}: {rate} per stack, {plain(one.source)}")
    generation = "" if memory == _OWN else memory
    others = {"process": process, "power_cap_w": cap, **factors}
    return Chip(generation, int(stacks) if generation else 0, each, **others), weights


@caches.by_setup(128)
def _figures(setup: Setup, chip: Chip) -> Figures:
    resolved = caches.deployed(setup)
    if chip == Chip():
        return sensitivity.figures(resolved)
    made = replace(resolved, system=chips.chip_system(resolved.system, chip))
    return sensitivity.figures(made)
