"""Page Sensitivity: what figures answer to, chips that are not there, the hardware it needs."""

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import chip, sensitivity
from app.wording import quantities
from app.wording.markdown import plain

setup, resolved, _ = sidebar.priced_setup("page Sensitivity")
s = setup.scenario
st.title("Sensitivity", anchor=False)
st.caption(
    f"{plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × {plain(resolved.system.name)}, engine "
    f"{plain(resolved.engine.name)}, batch {s.batch:,}, {quantities.tokens(s.isl)} tokens in, "
    f"{quantities.tokens(s.osl)} out."
)
load = sensitivity.load_control()
_answers, _ridge, _chip, _need = st.tabs(
    ["Sensitivity", "Ridge", "Another chip", "Needed hardware"], key="sensitivity_tab",
    bind="query-params",
)  # fmt: skip
if _answers.open:
    with _answers:
        sensitivity.answers(setup, load)
if _ridge.open:
    with _ridge:
        sensitivity.ridges(setup)
if _chip.open:
    with _chip:
        chip.chip_panel(setup, load)
if _need.open:
    with _need:
        sensitivity.needed(setup, load)
