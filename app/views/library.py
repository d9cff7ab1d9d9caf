"""Page Library: one search over hardware, models and modules, with their figures and sources."""

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import hardware, models, modules
from app.dashboard.widgets import choose

PARTS = {
    "Hardware": (hardware.found, hardware.hardware_panel),
    "Models": (models.found, models.models_panel),
    "Modules": (modules.found, modules.modules_panel),
}


def searched() -> str:
    """The words of the search box, casefolded, "" for all."""
    return str(st.session_state.get("find") or "").strip().casefold()


def counts() -> dict[str, int]:
    """Number of entries of each part that match the search."""
    return {part: len(found(searched())) for part, (found, _) in PARTS.items()}


def to_what_is_found() -> None:
    """Open the first part with matches, if the open one has none; a callback."""
    known = counts()
    if not known.get(str(st.session_state.get("part"))):
        st.session_state["part"] = next((part for part in PARTS if known[part]), "Hardware")


setup = sidebar.chosen_setup()
st.title("Library", anchor=False)
with st.container(horizontal=True, vertical_alignment="bottom"):
    st.text_input(
        "Search", key="find", bind="query-params", max_chars=200, icon=":material/search:",
        placeholder="h200, qwen3, attention …", width=320, on_change=to_what_is_found,
    )  # fmt: skip
    known = counts()
    first = next((name for name in PARTS if known[name]), "Hardware")
    usual = st.session_state.setdefault("library_opened", first)
    part = choose("In", list(PARTS), "part", default=usual, label_visibility="collapsed")
if searched():
    st.caption(", ".join(f"{many:,} in {name}" for name, many in known.items()))
PARTS[part][1](searched(), setup)
