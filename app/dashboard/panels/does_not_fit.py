"""What does not fit: the sentence, the fewest devices that would hold it, figures in grey."""

from __future__ import annotations

import streamlit as st

from app.dashboard import cached
from app.dashboard.widgets import card
from app.scenario.setup import Setup
from app.wording.markdown import plain

#: Stands where a figure would, of what cannot run.
NONE = "–"


def does_not_fit(setup: Setup, message: str, batch: int) -> None:
    """Draw that a setup does not fit, on how many devices it would, and a button that takes those.

    message: what is missing.  batch: as in `app.scenario.fewest_devices`.
    """
    st.warning(f"Does not fit: {plain(message)}.", icon=":material/memory:")
    fewest = cached.fewest(setup, batch)
    if fewest is None:
        st.caption("Nor does it on any number of these devices up to 1,024 that was tried.")
        return
    degrees = {"tp": int(fewest.tp), "pp": int(fewest.pp), "ep": int(fewest.ep)}
    devices = degrees["tp"] * degrees["pp"] * setup.scenario.dp
    how = " ".join(f"{name.upper()}{degree}" for name, degree in degrees.items() if degree > 1)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"The fewest of these devices that hold it: **{devices}** ({how}).")
        st.button(
            "Take them", on_click=_take, args=(degrees,), key="take_devices",
            icon=":material/check:",
        )  # fmt: skip


def _take(degrees: dict[str, int]) -> None:
    st.session_state.update(degrees)


def figure_card(label: str, value: str, beside: str, meaning: str, *, fits: bool) -> None:
    """Draw a figure's card; of what does not fit the figure is a condition in grey."""
    if fits:
        card(label, value, beside, meaning)
    else:
        card(label, NONE, f"{value} if it fitted", meaning)
