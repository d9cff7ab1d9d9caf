"""Page Plan: deployments that serve a load within targets, their cost, and models on machines."""

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import changing_load, economics, fleet, plan_answer
from app.dashboard.widgets import choose

PARTS = {
    "Plan": plan_answer.page, "Fleet": fleet.page, "Economics": economics.page,
    "Changing load": changing_load.page,
}  # fmt: skip

sidebar.chosen_setup()  # stops the page if the question has an error
st.title("Plan", anchor=False)
PARTS[choose("Part", list(PARTS), "part", label_visibility="collapsed")]()
