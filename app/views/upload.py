"""Page Upload: what a file holds, where its time goes, and its prediction beside it."""

import streamlit as st

from app.dashboard.panels.benchmark_answer import benchmark_panel
from app.dashboard.panels.beside_prediction import beside_prediction_panel
from app.dashboard.panels.compared_run import report_pricing
from app.dashboard.panels.profile import profile_panel
from app.dashboard.panels.watch import show_watch
from app.dashboard.widgets import choose

PARTS = {
    "Profile": profile_panel,
    "Beside its prediction": lambda: beside_prediction_panel(report_pricing),
    "Benchmark": benchmark_panel,
    "Metrics page": show_watch,
}

st.title("Upload", anchor=False)
PARTS[choose("Part", list(PARTS), "part", label_visibility="collapsed")]()
