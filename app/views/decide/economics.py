"""Page Economics: what tokens cost, rented or owned, over a day, against an API; energy, carbon."""

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.load import Load
from app.dashboard.panels import economics
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

setup, resolved, _ = sidebar.priced_setup("page Economics")
s = setup.scenario
st.title("Economics", anchor=False)
users = Load("concurrency", s.batch, 1.0).words
st.caption(
    f"One replica: {plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × "
    f"{plain(resolved.system.name)}, engine {plain(resolved.engine.name)}, {users} in a closed "
    f"loop (the sidebar's batch), {quantities.tokens(s.isl)} tokens in, "
    f"{quantities.tokens(s.osl)} out."
)
try:
    terms = economics.with_kept_runs(setup, economics.terms_form(setup))
    named = economics.answered(setup, terms)
except RidgelineError as error:
    sidebar.stop(error)
economics.show(setup, terms, named)
