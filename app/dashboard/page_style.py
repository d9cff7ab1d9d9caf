"""Styles that the theme cannot state: `app/pages.css`, sent before the content."""

import time
from pathlib import Path

import streamlit as st

STYLE = Path(__file__).parents[1] / "pages.css"
#: What makes a browser apply a style; its script loads like that of any other element. Without the
#: wait, the controls' places are drawn before it and jump when it arrives: the layout shift of Plan
#: on a phone is 0.27, with the wait mostly 0.01, up to 0.25 on a busy machine.
AHEAD_S = 0.1
_SENT = "style_sent"


def show() -> None:
    """Send the style; in a session's first run before the rest of the page."""
    st.html(STYLE)
    if _SENT not in st.session_state:
        st.session_state[_SENT] = True
        time.sleep(AHEAD_S)
