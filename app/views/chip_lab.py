"""Page Chip lab: hypothetical chips, sensitivities, studies, uneven experts."""

from dataclasses import replace

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import chip, sensitivity, studies, uneven_experts
from app.dashboard.widgets import choose
from app.wording.markdown import plain

PARTS = ("Another chip", "Sensitivity", "Ridge", "Needed hardware", "Study", "Uneven experts")
NAME = "page Chip lab"


def of_the_question(part: str) -> None:
    """Draw the part of the page for the sidebar's question."""
    setup, resolved, estimate = sidebar.priced_setup(NAME)
    loaded = sidebar.chosen_setup()
    if loaded.scenario.kind == "trace":
        loaded = setup  # a trace has no single load to vary
    sidebar.say_trace()
    if not setup.scenario.engine:
        st.caption(f"Its default engine is {plain(resolved.engine.name)}.")
    if part in ("Sensitivity", "Ridge"):
        if loaded.scenario.kind == "batch":
            loaded = sidebar.gated(setup, resolved, estimate)[0]
        else:
            loaded = sidebar.gated_load(loaded)[0]
    if part == "Sensitivity":
        sensitivity.answers(loaded)
    elif part == "Ridge":
        sensitivity.ridges(replace(setup, if_fitted=loaded.if_fitted))
    elif part == "Another chip":
        chip.chip_panel(loaded)
    else:
        sensitivity.needed(loaded)


st.title("Chip lab", anchor=False)
part = choose("Part", PARTS, "part", label_visibility="collapsed")
if part == "Study":
    studies.show(sidebar.chosen_setup())
elif part == "Uneven experts":
    uneven_experts.show(sidebar.deployed_setup(NAME)[0])
else:
    of_the_question(part)
