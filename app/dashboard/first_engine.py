"""The engine of a visit that names no scenario: one that was measured on the device."""

from __future__ import annotations

import streamlit as st

import hardware_db
from genz_core.errors import RidgelineError

_PROPOSED = "proposed_engine"


def came_by_link() -> bool:
    """Whether this visit began with a scenario in its address; asked first by the sidebar.

    An engine alone is none: the address of a first visit names it.
    """
    asked = st.session_state.setdefault("first_address", tuple(st.query_params))
    return set(asked) - {"engine"} != set()


def propose(system: str) -> None:
    """Put a measured engine into the sidebar's box, and follow the device until another is chosen.

    It stands in the address like one that was chosen; an address without an engine is priced with
    the generic one, as the command line and Python do.
    system: the name in the sidebar's box.
    """
    state = st.session_state
    if state.get("first_address") or state.get("engine") != state.get(_PROPOSED):
        return
    engine = _measured(system)
    if _PROPOSED not in state:  # later on Streamlit itself writes what is set here to the address
        st.query_params["engine"] = engine
    if engine != state.get(_PROPOSED):
        state["engine"] = state[_PROPOSED] = engine


def _measured(system: str) -> str:
    try:
        return hardware_db.measured_engine(hardware_db.load(system).slug)
    except RidgelineError:
        return hardware_db.GENERIC


def is_first(changed: dict[str, object]) -> bool:
    """Whether what differs from the default is the engine alone."""
    return changed.keys() <= {"engine"}
