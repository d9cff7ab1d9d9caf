"""Configurations that cannot run: why, the nearest that can, a switch to draw them anyway."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from app.dashboard import caches, export
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import set_controls
from app.dashboard.widgets import card
from app.scenario.gate import nearest_lengths
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core.workload import CONTEXT_TOO_LONG, OUT_OF_MEMORY

#: Shown instead of a figure if the configuration cannot run.
NONE = "–"


def runnable(setup: Setup, status: str, message: str, batch: int, *, switch: bool = True) -> Setup:
    """The setup of a page's figures: unchanged if it can run, or is drawn as if it fitted already;
    otherwise as if it fitted.

    If it cannot run, the reason and the nearest that can are drawn; then the page stops unless
    the switch "If it fitted" is on.

    Args:
        status, message: of the configuration that the page is about.
        batch: as in `app.scenario.fewest_devices`.
        switch: whether the page has figures that make sense without a memory or a price.
    """
    if setup.if_fitted or status not in (OUT_OF_MEMORY, CONTEXT_TOO_LONG):
        return setup
    if status == OUT_OF_MEMORY:
        _does_not_fit(setup, message, batch)
    else:
        _too_long(setup, message)
    bound = {"key": "if_fitted", "bind": "query-params", "help": page_text("if it fitted")}
    if not (switch and st.toggle("If it fitted", **bound)):
        st.stop()
    export.mark_charts("if it fitted")
    return replace(setup, if_fitted=True)


def _does_not_fit(setup: Setup, message: str, batch: int) -> None:
    st.warning(f"Does not fit: {plain(message)}.", icon=":material/memory:")
    fewest = caches.fewest(setup, batch)
    if fewest is None:
        st.caption("It does not fit on 1,024 of these devices either.")
        return
    degrees = {name: int(getattr(fewest, name)) for name in ("tp", "pp", "ep")}
    devices = degrees["tp"] * degrees["pp"] * setup.scenario.dp
    how = " ".join(f"{name.upper()}{degree}" for name, degree in degrees.items() if degree > 1)
    _nearest(f"Fewest devices of this kind on which it fits: **{devices}** ({how}).", degrees,
             "take_devices")  # fmt: skip


def _too_long(setup: Setup, message: str) -> None:
    st.warning(f"Does not run: {plain(message)}.", icon=":material/straighten:")
    lengths = nearest_lengths(caches.resolved(setup))
    if lengths:
        words = " and ".join(
            f"{tokens:,} {'in' if name == 'isl' else 'out'}" for name, tokens in lengths.items()
        )
        _nearest(f"Longest request that fits: **{words}**.", lengths, "take_lengths")


def _nearest(words: str, values: Mapping[str, int], key: str) -> None:
    """Draw the nearest configuration that can run, and a button that selects it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(words)
        st.button(
            "Use them", on_click=set_controls, args=(values,), key=key, icon=":material/check:"
        )


def figure_card(label: str, value: str, beside: str, meaning: str, *, fits: bool) -> None:
    """Draw a figure's card; conditional and grey if the configuration does not fit."""
    shown = (value, beside) if fits else (NONE, f"{value} if it fitted")
    card(label, *shown, meaning)
