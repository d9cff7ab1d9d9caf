"""Names that are typed: the first match is taken, near ones are buttons, unknown ones are said."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

import hardware_db
from app.wording.markdown import plain
from genz_core.errors import RidgelineError, UnknownName
from model_registry.finding.hub import hub_id

#: The box of a kind of name that no registry has, as its errors call it.
_BOXES = {"model": "model", "system": "system"}


def take_first(key: str, names: Sequence[str]) -> None:
    """Put `first_match` of what was typed into the box `key`; a callback."""
    st.session_state[key] = first_match(key, str(st.session_state.get(key) or ""), names)


def take_firsts(key: str, kind: str, names: Sequence[str]) -> None:
    """As `take_first` for a box of several names, aliases of systems by their slugs; a callback.

    kind: "model" or "system".
    """
    typed = [str(name) for name in st.session_state.get(key) or ()]
    found = [first_match(kind, one, names) for one in typed]
    if kind == "system":
        found = [one if one in names else _slug(one) for one in found]
    st.session_state[key] = list(dict.fromkeys(found))


def _slug(alias: str) -> str:
    """The slug of a system, the alias itself where no system has it."""
    try:
        return hardware_db.load(alias).slug
    except RidgelineError:
        return alias


def first_match(key: str, typed: str, names: Sequence[str]) -> str:
    """The first name that holds what was typed, those that begin with it first.

    What is a name, an alias or an address already stays as it was typed, and so does what is in
    none.  key: "model" or "system".
    """
    folded = typed.strip().casefold()
    if not folded or typed in names or _known(key, typed):
        return typed
    held = [name for name in names if folded in name.casefold()]
    begins = [name for name in held if name.casefold().rpartition("/")[2].startswith(folded)]
    return next(iter(begins + held), typed)


def _known(key: str, typed: str) -> bool:
    """Whether a name that is in no list is understood: an alias, or an address of the hub."""
    if key == "model":
        return bool(hub_id(typed)) or "/" in typed
    try:
        return bool(hardware_db.load(typed))
    except RidgelineError:
        return False


def near_buttons(error: RidgelineError) -> None:
    """Draw the names near an unknown one, each a button that takes it."""
    if not isinstance(error, UnknownName) or error.kind not in _BOXES:
        return
    with st.container(horizontal=True):
        for name in error.near:
            st.button(name, on_click=_take, args=(_BOXES[error.kind], name), key=f"near_{name}")


def _take(key: str, name: str) -> None:
    st.session_state[key] = name


def unknown_engine() -> None:
    """Draw that the address names an engine without a profile, until another one is chosen."""
    asked = str(st.query_params.get("engine", ""))
    known = hardware_db.engine_names()
    if asked and asked not in known and "engine" not in st.session_state:
        st.session_state["unknown_engine"] = asked
    elif st.session_state.get("engine") not in (None, "generic"):
        st.session_state.pop("unknown_engine", None)
    name = st.session_state.get("unknown_engine")
    if name:
        near = UnknownName("engine", name, known).near
        said = f" Near: {', '.join(near)}." if near else ""
        st.warning(
            f"No engine {plain(name)!r} has a profile, so generic is priced.{said}",
            icon=":material/warning:",
        )
