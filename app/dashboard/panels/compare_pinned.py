"""The pinned scenarios side by side, or the sidebar's if none is pinned."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app.dashboard import cached, display_tables, export, own_definitions, pinned, sidebar
from app.dashboard.load import as_batch, batches_words
from app.dashboard.panels.compare_by import by_class
from app.dashboard.panels.what_changed import what_changed
from app.dashboard.widgets import draw_table
from app.scenario.encoder_figures import phases_of
from app.scenario.setup import Setup, setup_from
from app.wording.markdown import plain
from genz_core import Estimate
from genz_core.errors import RidgelineError


def show(setup: Setup) -> None:
    """Draw figures, steps by operator class and downloads of the pinned scenarios."""
    pins = [own_definitions.attach(setup_from(pin)) for pin in pinned.pinned_scenarios()]
    shown = {chr(ord("A") + at): one for at, one in enumerate(pins or [setup])}
    batches, estimates = _priced(shown)
    _pin_buttons(bool(pins))
    if not estimates:
        return
    for name in estimates:
        _scenario(name, shown[name], removable=bool(pins))
    numbers = _figures(batches, estimates)
    changed = what_changed(estimates) if len(estimates) > 1 else {}
    charts = {**changed, **by_class(estimates, "compare")}
    numbers = pd.concat([numbers, _classes(estimates)], ignore_index=True)
    export.downloads("compare", charts, numbers, setup)


def _priced(setups: Mapping[str, Setup]) -> tuple[dict[str, Setup], dict[str, Estimate]]:
    """The static batches that represent scenarios, and their estimates, by name; draws the error of
    each that cannot be priced.
    """
    batches: dict[str, Setup] = {}
    estimates: dict[str, Estimate] = {}
    for name, setup in setups.items():
        try:
            batch = as_batch(setup)
            estimates[name], batches[name] = cached.priced(batch), batch
        except RidgelineError as error:
            st.error(f"{name}: {plain(error)}", icon=":material/error:")
    return batches, estimates


def _pin_buttons(any_pinned: bool) -> None:
    if not any_pinned:
        st.info(
            "Nothing is pinned yet; below is the sidebar's scenario. "
            "Pin it, change it, and pin again.",
            icon=":material/keep:",
        )
    with st.container(horizontal=True):
        st.button(
            "Pin this scenario",
            icon=":material/keep:",
            on_click=pinned.pin,
            disabled=pinned.full(),
            key="pin_here",
        )
        st.button("Unpin all", on_click=pinned.clear, disabled=not any_pinned, key="unpin_all")


def _scenario(name: str, setup: Setup, *, removable: bool) -> None:
    """Draw a scenario in a line, with the button that unpins it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{name}** {sidebar.describe(setup)}")
        if removable:
            st.button(
                "Unpin", icon=":material/close:", type="tertiary", key=f"unpin_{name}",
                on_click=pinned.remove, args=(ord(name) - ord("A"),),
            )  # fmt: skip


def _figures(batches: Mapping[str, Setup], estimates: Mapping[str, Estimate]) -> pd.DataFrame:
    """Draw the figures of each scenario; returns them in SI units."""
    names = list(estimates)
    table = display_tables.figures_by_scenario(names, list(estimates.values()))
    words = display_tables.comparison_words(table)
    with st.container(
        height=display_tables.height(words), border=False
    ):  # has it before it is drawn
        draw_table(words, "comparison")
    st.caption(
        f"{batches_words(batches)} In square brackets the 80 % interval from held-out "
        f"measurements, in round ones the change against {names[0]}."
    )
    return display_tables.comparison_numbers(table)


def _classes(estimates: Mapping[str, Estimate]) -> pd.DataFrame:
    """Draw the times of each scenario by operator class; returns them in SI units."""
    times = {
        name: {
            figure: value
            for phase in phases_of(estimate.model)
            for figure, value in display_tables.class_times_by_scenario([name], [estimate], phase)[
                name
            ].items()
        }
        for name, estimate in estimates.items()
    }
    st.subheader("Per operator class", anchor=False)
    draw_table(display_tables.comparison_words(times), "class_changes")
    return display_tables.comparison_numbers(times)
