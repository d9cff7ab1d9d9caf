"""Typed names: their meaning is selected, close ones are buttons, unknown ones give a message.

The libraries decide what a name means, as for the command line; here it is only put in its box.
"""

from collections.abc import Collection

import streamlit as st

import hardware_db
from app.dashboard.own_definitions import OWN
from genz_core.errors import RidgelineError, UnknownName
from hardware_db import engine_versions, mig
from model_registry.finding.hub import hub_id
from model_registry.finding.lookup import resolve_name

#: The boxes for names without a registry, the sidebar's first.
_BOXES = {
    "model": ("model", "models", "draft_model"),
    "system": ("system", "systems", "prefill_system"),
    "engine": ("engine",),
}


def take(key: str, kind: str, names: Collection[str]) -> None:
    """Put what is typed into the box `key`, of one name or several, as `meant`; a callback.

    kind: "model", "system" or "engine".
    """
    typed = st.session_state.get(key) or ""
    if isinstance(typed, str):
        st.session_state[key] = meant(kind, typed, names)
    else:
        st.session_state[key] = list(dict.fromkeys(meant(kind, str(one), names) for one in typed))


def meant(kind: str, typed: str, names: Collection[str]) -> str:
    """The option that a typed name means.

    A text that is not an option is kept: an alias, which the answer explains, an address, a
    slice of a device, and a name that is unknown or fits several, which the page then lists.

    kind: "model", "system" or "engine".  names: the options, including the visitor's own.
    """
    if typed.endswith(OWN) and typed in names:
        return typed
    found = _meaning(kind, typed)
    if found in names:
        return found
    start = typed.strip().casefold()
    own = [name for name in names if name.endswith(OWN) and name.casefold().startswith(start)]
    return own[0] if start and not found and len(own) == 1 else typed


def _meaning(kind: str, typed: str) -> str:
    """What the libraries call a typed name; "" for a name that they do not know.

    A text that says more is kept: another name of a model, which needs an explanation, an address
    of the hub, a slice of a device, an engine with its version.
    """
    try:
        if kind == "model":
            match = None if hub_id(typed) else resolve_name(typed)
            return match.id if match and match.matched == "name" else typed
        if kind == "engine":
            name = hardware_db.engine_facts(typed).id
            return typed if engine_versions.in_name(typed) else name
        if mig.parsed(typed):
            hardware_db.load(typed)  # raises for a slice that the device does not have
            return typed
        return hardware_db.facts(typed).id
    except RidgelineError:
        return ""


def near_buttons(error: RidgelineError) -> None:
    """Draw a button for each name that is close to an unknown one, or that it fits."""
    if not isinstance(error, UnknownName) or error.kind not in _BOXES:
        return
    with st.container(horizontal=True):
        for name in error.near:
            st.button(name, on_click=_take, args=(error.kind, error.name, name), key=f"near_{name}")


def _take(kind: str, typed: str, name: str) -> None:
    """Put a name into the boxes with the typed text, otherwise into the sidebar's."""
    sidebars, *others = _BOXES[kind]
    holding = [key for key in others if typed in _chosen(key)]
    for key in holding:
        one = isinstance(st.session_state[key], str)
        chosen = [name if other == typed else other for other in _chosen(key)]
        st.session_state[key] = name if one else list(dict.fromkeys(chosen))
    if not holding or typed in _chosen(sidebars):
        st.session_state[sidebars] = name


def _chosen(key: str) -> list[str]:
    """The content of a box of one name or several."""
    value = st.session_state.get(key) or []
    return [value] if isinstance(value, str) else list(value)
