"""Page Sensitivity: what figures answer to, chips that are not there, the hardware it needs."""

from dataclasses import replace

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import chip, sensitivity
from app.decide.loads import load_words
from app.wording import quantities
from app.wording.markdown import plain

setup, resolved, estimate = sidebar.priced_setup("page Sensitivity")
s = setup.scenario
st.title("Sensitivity", anchor=False)
place = st.container()
loaded = sensitivity.under_chosen_load(setup)
place.caption(
    f"{plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × {plain(resolved.system.name)}, engine "
    f"{plain(resolved.engine.name)}, {load_words(loaded.scenario)}, {quantities.tokens(s.isl)} "
    f"tokens in, {quantities.tokens(s.osl)} out."
)
_answers, _ridge, _chip, _need = st.tabs(
    ["Sensitivity", "Ridge", "Another chip", "Needed hardware"], key="sensitivity_tab",
    bind="query-params",
)  # fmt: skip
if _answers.open or _ridge.open:
    with _answers if _answers.open else _ridge:
        if loaded is setup:
            loaded = sidebar.gated(setup, resolved, estimate)[0]
        else:
            loaded = sidebar.gated_load(loaded)
        if _answers.open:
            sensitivity.answers(loaded)
        else:
            sensitivity.ridges(replace(setup, if_fitted=loaded.if_fitted))
if _chip.open:
    with _chip:
        chip.chip_panel(loaded)
if _need.open:
    with _need:
        sensitivity.needed(loaded)
