"""Page Measure: what this machine can measure, calibrations, a search of a server's settings."""

import streamlit as st

from app.dashboard.panels.beside_prediction import TITLE, beside_prediction_panel
from app.dashboard.panels.calibrate import calibrate_panel
from app.dashboard.panels.compared_run import own_pricing
from app.dashboard.panels.run import run_panel
from app.dashboard.panels.tune import show_tuning
from app.dashboard.widgets import choose

PARTS = {
    "Run": run_panel,
    TITLE: lambda: beside_prediction_panel(own_pricing),
    "Calibrate": calibrate_panel,
    "Tune a server": show_tuning,
}

st.title("Measure", anchor=False)
PARTS[choose("Part", list(PARTS), "part", label_visibility="collapsed")]()
