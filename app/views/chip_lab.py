"""Page Chip lab: chips that are not there, what figures answer to, the hardware targets need."""

from dataclasses import replace

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import chip, sensitivity
from app.dashboard.widgets import choose
from app.decide.loads import load_words
from app.wording import quantities
from app.wording.markdown import plain

setup, resolved, estimate = sidebar.priced_setup("page Chip lab")
s = setup.scenario
st.title("Chip lab", anchor=False)
parts = ("Another chip", "Sensitivity", "Ridge", "Needed hardware")
part = choose("Part", parts, "part", label_visibility="collapsed")
loaded = sidebar.chosen_setup()
st.caption(
    f"{plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × {plain(resolved.system.name)}, engine "
    f"{plain(resolved.engine.name)}, {load_words(loaded.scenario)}, {quantities.tokens(s.isl)} "
    f"tokens in, {quantities.tokens(s.osl)} out."
)
if part in ("Sensitivity", "Ridge"):
    if loaded.scenario.kind == "batch":
        loaded = sidebar.gated(setup, resolved, estimate)[0]
    else:
        loaded = sidebar.gated_load(loaded)
if part == "Sensitivity":
    sensitivity.answers(loaded)
elif part == "Ridge":
    sensitivity.ridges(replace(setup, if_fitted=loaded.if_fitted))
elif part == "Another chip":
    chip.chip_panel(loaded)
else:
    sensitivity.needed(loaded)
