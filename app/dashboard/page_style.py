"""What the theme cannot say of the pages' looks: `app/pages.css`, before what it holds in place."""

from __future__ import annotations

import time
from pathlib import Path

import streamlit as st

STYLE = Path(__file__).parents[1] / "pages.css"
#: What a browser takes to show a style, whose script it loads as that of any other element.
#: Without the wait the places of controls are drawn before it, and jump when it comes: the layout
#: shift of Plan on a telephone is 0.27, with it mostly 0.01, on a busy machine up to 0.25.
AHEAD_S = 0.1
_SENT = "style_sent"


def show() -> None:
    """Send the style; in a session's first run ahead of the rest of the page."""
    st.html(STYLE)
    if _SENT not in st.session_state:
        st.session_state[_SENT] = True
        time.sleep(AHEAD_S)
