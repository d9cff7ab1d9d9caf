"""Page Plan: which deployment serves a load within targets, at what cost, how surely."""

import streamlit as st

from app.dashboard import planned, sidebar, strip
from app.dashboard.panels import plan_answer, plan_form
from app.wording import quantities
from app.wording.markdown import plain

setup = sidebar.chosen_setup()
s = setup.scenario
st.title("Plan", anchor=False)
st.caption(
    f"The best deployments of {plain(s.model)} for {quantities.tokens(s.isl)} tokens in and "
    f"{quantities.tokens(s.osl)} out. What the sidebar says is kept; what it leaves open, as "
    "degrees, replicas and batch, is searched."
)
with sidebar.stopping():
    searched = plan_form.searched(setup)
    strip.say(
        searched.setup.scenario, "plan", dict(searched.several), strip.left_open(searched.asked())
    )
    answer = planned.answered(searched)
if answer is not None:
    plan_answer.show(searched, answer, setup)
