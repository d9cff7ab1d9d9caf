"""Page Compare: frontiers of systems, engines and formats, single changes, pinned scenarios."""

import streamlit as st

from app.dashboard import pinned_scenarios, sidebar
from app.dashboard.panels import compare_by, compare_pinned, frontier
from app.dashboard.widgets import choose

setup = sidebar.chosen_setup()
st.title("Compare", anchor=False)
parts = ("Frontier", *compare_by.TABS, "Pinned")
usual = "Pinned" if pinned_scenarios.pinned_scenarios() else "Frontier"
part = choose("Part", parts, "part", default=usual, label_visibility="collapsed")
if part == "Frontier":
    frontier.show(setup)
elif part == "Pinned":
    compare_pinned.show(setup)
else:
    compare_by.show(part, setup)
