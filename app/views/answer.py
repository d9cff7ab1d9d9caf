"""Page Answer: figures of the question as a static batch or under load, and what limits them."""

import streamlit as st

from app.dashboard import explanations, export, pinned, sidebar, strip
from app.dashboard.panels import first_page, load_curves
from app.dashboard.panels.load_answer import load_answer
from app.dashboard.panels.simulation import simulation_panel
from app.dashboard.panels.static_answer import static_answer
from app.dashboard.widgets import choose
from app.question.question import STANDARD
from app.wording.markdown import plain
from genz_core.model_kinds import generates

STATIC, LOAD = "Static batch", "Under load"
PARTS = {
    "Overview": lambda: None,
    "Load curves": load_curves.draw,
    "Simulate": lambda: simulation_panel(sidebar.chosen_setup()),
}
ASKED_HELP = (
    "Static batch: all prompts of the batch are read at once, then all decode. Under load: "
    "requests of users or at a rate join and leave, as a server runs them."
)

setup, resolved, estimate = sidebar.priced_setup()
s = setup.scenario
first_page.first_page(setup)
first_page.remember(setup)
st.title(f"{plain(resolved.model.name)} on {plain(resolved.system.name)}", anchor=False)
part = choose("Part", list(PARTS), "part", label_visibility="collapsed")
if part != "Overview":
    PARTS[part]()
    st.stop()
asked = STATIC
if generates(resolved.model):
    asked = choose(
        "Figures of", (STATIC, LOAD), "asked",
        default=STATIC if s.batch != STANDARD.batch else LOAD, help=ASKED_HELP,
        label_visibility="collapsed",
    )  # fmt: skip
st.caption(explanations.configuration(setup, resolved, estimate, static=asked == STATIC))
with sidebar.stopping():
    if asked == STATIC:
        strip.say(s, "estimate")
        setup, resolved, estimate = sidebar.gated(setup, resolved, estimate)
        load, (figures, table) = None, static_answer(setup, resolved, estimate)
    else:
        setup, load, (figures, table) = load_answer(setup, resolved)

with st.container(horizontal=True):
    with st.popover("How these numbers come about", icon=":material/function:"):
        if load is None:
            st.markdown(explanations.formulas(setup, resolved, estimate))
        else:
            st.markdown(explanations.UNDER_LOAD)
        command = "" if setup.if_fitted else explanations.command(setup, load)
        if command:
            st.caption("The same numbers on the command line:")
            st.code(command, language="bash", wrap_lines=True)
    export.downloads("overview", figures, table, setup)
    st.button("Pin to compare", icon=":material/keep:", on_click=pinned.pin, disabled=pinned.full())
    st.page_link("views/explain.py", label="By operator", icon=":material/stacked_bar_chart:")
    st.page_link("views/accuracy.py", label="How far off", icon=":material/straighten:")
explanations.show_assumptions(resolved)
