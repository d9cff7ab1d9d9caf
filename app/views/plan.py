"""Page Plan: deployments that serve a load within targets, their cost, fleets of models."""

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import changing_load, economics, fleet, plan_answer
from app.dashboard.widgets import choose

setup = sidebar.chosen_setup()
st.title("Plan", anchor=False)
part = choose(
    "Part", ("Plan", "Fleet", "Economics", "Changing load"), "part", label_visibility="collapsed"
)
if part == "Plan":
    plan_answer.page(setup)
elif part == "Fleet":
    fleet.page()
elif part == "Economics":
    economics.page()
else:
    changing_load.page()
