"""The tab of chips that are not there: another memory, arithmetic, link, process or power."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.dashboard import cached
from app.dashboard.does_not_fit import NONE
from app.dashboard.question_form import control
from app.dashboard.widgets import draw_table
from app.decide import chips, sensitivity
from app.decide.chips import Chip
from app.decide.sensitivity import FIGURES, Figures
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from genz_core.types import System
from hardware_db.memory_stacks import generations

_OWN = "its own"


@st.fragment
def chip_panel(setup: Setup) -> None:
    """Draw the form of a chip, and its figures beside those of the system."""
    system = cached.resolved(setup).system
    try:
        chip, weights = _form(system)
        question = replace(setup.scenario, weights=weights or setup.scenario.weights)
        changed = replace(setup, scenario=question)
        base = _figures(setup, Chip())
        other = _figures(changed, chip)
        factors = chips.factors(system, chip)
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
        return
    made = [f"{name} ×{value:.3g}" for name, value in factors.items() if abs(value - 1) > 1e-9]
    st.markdown(f"**{plain(system.name)}** with {', '.join(made) or 'nothing changed'}"
                f"{f', weights {weights}' if weights else ''}:")  # fmt: skip
    draw_table(_rows(base, other), "chip_figures")
    if not other["fits"]:
        st.warning("It does not fit in that memory.", icon=":material/memory:")
    st.caption(
        "Constants of kernels and the host stay the system's own; nothing measured validates a "
        "chip that is not there. Bandwidth of stacks is interface width times pin rate. A power "
        "cap slows arithmetic by the cube root of the power, assumed, and memory not at all; a "
        "process is the factor on arithmetic that you state."
    )
    with st.popover("Sources of the memory rates", icon=":material/menu_book:"):
        for one in generations().values():
            st.markdown(f"- {one.name}: {quantities.bandwidth(one.bytes_per_s)} a stack, "
                        f"{plain(one.source)}")  # fmt: skip


def _form(system: System) -> tuple[Chip, str]:
    with st.grid(4, min_column_width=170):
        memory = st.selectbox("Memory", (_OWN, *generations()), key="chip_memory",
                              bind="query-params")  # fmt: skip
        stacks = st.number_input("Stacks", 1, 64, 6, key="chip_stacks", bind="query-params",
                                 disabled=memory == _OWN)  # fmt: skip
        each = st.number_input(
            "GB per stack", 0.0, 512.0, 0.0, 4.0, key="chip_gb", bind="query-params",
            disabled=memory == _OWN, help="0: the capacity stays.",
        )  # fmt: skip
        weights, peak, link = (control(name, key=f"chip_{name}")
                               for name in ("weights", "peak", "link"))  # fmt: skip
        process = st.number_input(
            "Process ×", 0.1, 16.0, 1.0, 0.25, key="chip_process", bind="query-params",
            help="Arithmetic at the same power that another process gives; yours to state.",
        )  # fmt: skip
        cap = st.number_input(
            "Power cap [W]", 0.0, 20_000.0, 0.0, 50.0, key="chip_cap", bind="query-params",
            help=f"0: none. The system states {system.tdp_w:,.0f} W." if system.tdp_w else
            "The system states no power.", disabled=not system.tdp_w,
        )  # fmt: skip
    generation = "" if memory == _OWN else memory
    chip = Chip(generation, int(stacks), each, peak, link, process=process, power_cap_w=cap)
    return chip, weights


@cached.by_setup(128)
def _figures(setup: Setup, chip: Chip) -> Figures:
    resolved = cached.deployed(setup)
    made = replace(resolved, system=chips.chip_system(resolved.system, chip))
    return sensitivity.figures(made)


def _rows(base: Figures, other: Figures) -> list[dict[str, str]]:
    """Figures side by side; of what does not fit there are none."""
    both = base["fits"] and other["fits"]
    return [
        {
            "figure": column.head,
            "now": column.words(base[name]) if base["fits"] else NONE,
            "this chip": column.words(other[name]) if other["fits"] else NONE,
            "change": quantities.change(base[name], other[name]) if both else NONE,
        }
        for name, column in FIGURES.items()
    ]
