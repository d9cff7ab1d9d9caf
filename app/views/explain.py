"""Page Explain: the operators of a step beside the chart of where its time and memory go."""

import streamlit as st

from app.dashboard import export, sidebar
from app.dashboard.panels import breakdown, cache_tiers, inside, memory, operators, roofline
from app.dashboard.widgets import choose
from app.scenario.encoder_figures import phases_of

#: Charts of the model and its memory, which are drawn of what cannot run, too.
MEMORY, GRAPH, TIERS = "Memory", "Model inside", "Cache tiers"
PARTS = {
    "Roofline": roofline.draw, "Breakdown": breakdown.draw, MEMORY: memory.draw,
    GRAPH: inside.draw, TIERS: cache_tiers.draw,
}  # fmt: skip
HELP = {
    "Roofline": roofline.EXPLANATION, "Breakdown": breakdown.EXPLANATION,
    TIERS: cache_tiers.EXPLANATION,
}  # fmt: skip

setup, resolved, estimate = sidebar.priced_setup()
st.title("Explain", anchor=False)
sidebar.say_trace()
phases = phases_of(estimate.model)
with st.container(horizontal=True, vertical_alignment="center"):
    part = choose("Chart", list(PARTS), "part", label_visibility="collapsed")
    phase = choose("Phase", phases, "phase" if len(phases) > 1 else "pass", default=phases[-1],
                   label_visibility="collapsed")  # fmt: skip
if part in (MEMORY, GRAPH, TIERS):
    sidebar.say_unread(resolved)
else:
    setup, resolved, estimate = sidebar.gated(setup, resolved, estimate)
step = operators.Step(
    setup, resolved, estimate, phase, export.look(), operators.chosen_row(phase)
)  # fmt: skip
st.caption(
    f"{sidebar.describe(setup)} · one device. Choose a row, or click in the chart: it is marked in "
    "both and explained below."
)
left, right = st.columns([9, 11], gap="medium")
with left:
    table = operators.operators(step)
with right:
    figures = PARTS[part](step)
operators.detail(step)
with st.container(horizontal=True):
    if part in HELP:
        with st.popover("How to read this", icon=":material/function:"):
            st.markdown(HELP[part])
    export.downloads(f"{part.casefold()}-{phase}", figures, table.drop(columns="id"), setup)
