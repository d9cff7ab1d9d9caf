"""Page Economics: what tokens cost, rented or owned, over a day, against an API; energy, carbon."""

from dataclasses import replace

import streamlit as st

from app.dashboard import sidebar
from app.dashboard.panels import economics
from app.decide.loads import load_words, under_load
from app.wording import quantities
from app.wording.markdown import plain

setup, resolved, _ = sidebar.priced_setup("page Economics")
s = setup.scenario
st.title("Economics", anchor=False)
st.caption(
    f"One replica: {plain(resolved.model.name)} on {s.tp * s.pp * s.dp} × "
    f"{plain(resolved.system.name)}, engine {plain(resolved.engine.name)}, "
    f"{load_words(under_load(s))} (the sidebar's batch), {quantities.tokens(s.isl)} tokens in, "
    f"{quantities.tokens(s.osl)} out."
)
with sidebar.stopping():
    sidebar.gated_load(replace(setup, scenario=under_load(s)), switch=False)
    account = economics.with_kept_runs(economics.account_form(setup))
    named = economics.answered(account)
economics.show(account, named)
