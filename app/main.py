"""The dashboard: navigation and the scenario's sidebar."""

from pathlib import Path

import streamlit as st

from app import inputs, pricing

HERE = Path(__file__).parent

st.set_page_config(page_title="Ridgeline", page_icon=str(HERE / "icon.svg"), layout="wide")
st.logo(str(HERE / "logo.svg"), size="large", icon_image=str(HERE / "icon.svg"))

pages = {
    "": [
        st.Page("views/overview.py", title="Overview", icon=":material/speed:", default=True),
        st.Page("views/roofline.py", title="Roofline", icon=":material/show_chart:"),
        st.Page("views/breakdown.py", title="Breakdown", icon=":material/stacked_bar_chart:"),
        st.Page("views/memory.py", title="Memory", icon=":material/memory:"),
        st.Page("views/serving.py", title="Serving", icon=":material/groups:"),
        st.Page("views/compare.py", title="Compare", icon=":material/compare_arrows:"),
    ],
    "Measured": [
        st.Page("views/run.py", title="Run", icon=":material/play_circle:"),
        st.Page("views/reports.py", title="Reports", icon=":material/upload_file:"),
        st.Page("views/measured.py", title="Predicted vs measured", icon=":material/balance:"),
        st.Page("views/calibrate.py", title="Calibrate", icon=":material/tune:"),
    ],
    "Library": [
        st.Page("views/accuracy.py", title="Accuracy", icon=":material/straighten:"),
        st.Page("views/hardware.py", title="Hardware", icon=":material/dns:"),
        st.Page("views/models.py", title="Models", icon=":material/dataset:"),
        st.Page("views/inside.py", title="Model inside", icon=":material/account_tree:"),
    ],
}
pricing.keep_up()
page = st.navigation(pages, position="top")
inputs.sidebar()
page.run()
