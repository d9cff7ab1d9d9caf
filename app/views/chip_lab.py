"""Page Chip lab: chips that are not there, what figures answer to, studies, uneven experts."""

from dataclasses import replace

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import chip, sensitivity, studies, uneven_experts
from app.dashboard.widgets import choose
from app.decide.loads import load_words
from app.wording import quantities
from app.wording.markdown import plain

setup, resolved, estimate = sidebar.priced_setup("page Chip lab")
s = setup.scenario
st.title("Chip lab", anchor=False)
parts = ("Another chip", "Sensitivity", "Ridge", "Needed hardware", "Study", "Uneven experts")
part = choose("Part", parts, "part", label_visibility="collapsed")
loaded = sidebar.chosen_setup()
if loaded.scenario.kind == "trace":
    loaded = setup  # a trace has no one load to vary
of = (setup if part == "Ridge" else loaded).scenario  # where a batch crosses a ridge
if part not in ("Study", "Uneven experts"):
    sidebar.say_trace()
    st.caption(
        f"{plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × {plain(resolved.system.name)}, "
        f"engine {plain(resolved.engine.name)}, {load_words(of)}, "
        f"{quantities.tokens(s.isl)} tokens in, {quantities.tokens(s.osl)} out."
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
elif part == "Needed hardware":
    sensitivity.needed(loaded)
elif part == "Study":
    studies.show(setup)
else:
    uneven_experts.show(setup)
