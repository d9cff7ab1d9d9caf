"""Page Explain: the operators of a step, where its time goes and what its memory holds."""

import streamlit as st

from app.dashboard.panels import breakdown, inside, memory, roofline
from app.dashboard.widgets import choose

PARTS = {
    "Roofline": roofline.draw,
    "Breakdown": breakdown.draw,
    "Memory": memory.draw,
    "Model inside": inside.draw,
}

st.title("Explain", anchor=False)
PARTS[choose("Part", list(PARTS), "part", label_visibility="collapsed")]()
