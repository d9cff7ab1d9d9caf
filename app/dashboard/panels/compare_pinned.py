"""The pinned scenarios side by side, the sidebar's where none is pinned."""

from __future__ import annotations

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
    candidates = [own_definitions.attach(setup_from(pin)) for pin in pinned.pinned_scenarios()]
    setups = candidates or [setup]
    priced: list[tuple[Setup, Estimate]] = []
    batches: dict[str, Setup] = {}
    for at, one in enumerate(setups):
        try:
            batch = as_batch(one)
            priced.append((one, cached.priced(batch)))
            batches[chr(ord("A") + at)] = batch
        except RidgelineError as error:
            st.error(f"{chr(ord('A') + at)}: {plain(error)}", icon=":material/error:")
    if not candidates:
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
        st.button("Unpin all", on_click=pinned.clear, disabled=not candidates, key="unpin_all")
    if not priced:
        return

    names = list(batches)
    for name, (one, _) in zip(names, priced, strict=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{name}** {sidebar.describe(one)}")
            if candidates:
                st.button(
                    "Unpin", icon=":material/close:", type="tertiary", key=f"unpin_{name}",
                    on_click=pinned.remove, args=(ord(name) - ord("A"),),
                )  # fmt: skip

    estimates = [estimate for _, estimate in priced]
    table = display_tables.figures_by_scenario(names, estimates)
    words = display_tables.comparison_words(table)
    with st.container(
        height=display_tables.height(words), border=False
    ):  # has it before it is drawn
        draw_table(words, "comparison")
    st.caption(
        f"{batches_words(batches)} In square brackets the 80 % interval from held-out "
        f"measurements, in round ones the change against {names[0]}."
    )

    named = dict(zip(names, estimates, strict=True))
    figures = {**(what_changed(named) if len(names) > 1 else {}), **by_class(named, "compare")}
    changes = {
        name: {
            figure: value
            for phase in phases_of(estimate.model)
            for figure, value in display_tables.class_times_by_scenario([name], [estimate], phase)[
                name
            ].items()
        }
        for name, estimate in zip(names, estimates, strict=True)
    }
    st.subheader("Per operator class", anchor=False)
    draw_table(display_tables.comparison_words(changes), "class_changes")
    everything = pd.concat(
        [display_tables.comparison_numbers(table), display_tables.comparison_numbers(changes)],
        ignore_index=True,
    )
    export.downloads("compare", figures, everything, setup)
