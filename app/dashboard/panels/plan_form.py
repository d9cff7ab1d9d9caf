"""The question of page Plan: the sidebar's with its search space; axes of decision charts."""

from collections.abc import Collection
from dataclasses import replace

import streamlit as st

from app.dashboard import search_form, traces
from app.dashboard.widgets import pick
from app.decide.axes import ACROSS, UPWARDS
from app.decide.loads import under_load
from app.decide.plan_query import Searched
from app.question.question import STANDARD, Question
from app.question.verbs import parameters_of
from app.scenario.setup import Setup
from app.wording.markdown import plain

#: Parameters of the search that a plan chooses.
_SEARCHED = ("system", "engine", "weights", "speculation")
#: Requests of a trace for the simulation of plans while the page waits.
_MOST_REQUESTS = 5000


def searched(setup: Setup) -> Searched:
    """The sidebar's question with its search space.

    Raises:
        RidgelineError: an invalid typed value.
    """
    space = search_form.space()
    question = replace(kept(under_load(setup.scenario), _SEARCHED), **space.pools)
    question = search_form.freed(question) if space.free else question
    among = {name: values for name, values in space.among.items() if name in _SEARCHED}
    setup = replace(setup, scenario=question)
    asked = Searched(setup, tuple(among.items()), search_form.own_systems())
    if question.kind != "trace":
        return asked
    key, trace = traces.keyed(_MOST_REQUESTS)
    what = "; ".join([trace.name, *trace.notes])
    st.caption(f"The plan uses the mean rate and lengths of the trace ({plain(what)}); percentiles "
               "come from its requests.")  # fmt: skip
    return replace(asked, trace=trace, trace_key=key)


def kept(question: Question, among: Collection[str]) -> Question:
    """The sidebar's question without parameters that a plan ignores, with a note on them.

    among: search parameters that the page reads, see `search_form.unread`.
    """
    known = parameters_of("plan")
    idle = [name for name in question.changed() if name not in known and name != "batch"]
    if said := [*idle, *search_form.unread(among)]:
        st.caption(f"Not used here: {', '.join(said)}.")
    return replace(question, batch=1, **{name: getattr(STANDARD, name) for name in idle})


def chosen_axes(page: str) -> tuple[str, str]:
    """Draw the boxes of a chart's axes; returns a name of `ACROSS` and one of `UPWARDS`."""
    with st.popover("Axes", icon=":material/swap_horiz:"):
        across = pick("Across", list(ACROSS), f"{page}_x",
                      format_func=lambda name: ACROSS[name].words)  # fmt: skip
        upwards = pick("Upwards", list(UPWARDS), f"{page}_y",
                       format_func=lambda name: UPWARDS[name].words)  # fmt: skip
    return across, upwards
