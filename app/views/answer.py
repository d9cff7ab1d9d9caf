"""Page Answer: the figures of the question, their causes, and details in parts."""

import streamlit as st

from app.dashboard import caches, explanations, export, pinned_scenarios, sidebar, strip
from app.dashboard.load_curves import alone, as_batch
from app.dashboard.page_texts import page_text
from app.dashboard.panels import first_page
from app.dashboard.panels.all_loads import all_loads
from app.dashboard.panels.load_answer import load_answer, reading_load
from app.dashboard.panels.simulation import simulation_panel
from app.dashboard.panels.static_answer import static_answer
from app.dashboard.widgets import choose
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core.models.model_kinds import generates


def main() -> None:
    """Draw the page."""
    setup, resolved = sidebar.deployed_setup()
    with sidebar.stopping():
        caches.priced(alone(setup))  # refuses degrees that cannot split the model
    st.title(f"{plain(resolved.model.name)} on {plain(resolved.system.name)}", anchor=False)
    kind, reads = setup.scenario.kind, not generates(resolved.model)
    with sidebar.stopping():
        if kind == "trace":
            strip.say(setup.scenario, "simulate")
            simulation_panel(setup)
        elif kind == "batch":
            setup = _static(setup)
        elif reads:
            reading_load(setup, resolved)
        else:
            setup, load, (figures, table) = load_answer(setup, resolved)
            _foot("answer", setup, figures, table, page_text("under load"),
                  explanations.command(setup, load))  # fmt: skip
    first_page.first_page(setup)
    first_page.remember(setup)
    if kind == "trace" or reads:
        return
    parts = {
        "About": lambda: _about(resolved),
        "Load curves": lambda: all_loads(setup),
        "Simulate": lambda: simulation_panel(setup),
        "Static batch": lambda: _static(as_batch(setup), first=False),
    }
    if kind == "batch":
        del parts["Static batch"]
    part = choose("Part", list(parts), "part", label_visibility="collapsed")
    with sidebar.stopping():
        parts[part]()


def _static(setup: Setup, *, first: bool = True) -> Setup:
    """Draw a static batch; returns it as drawn, see `sidebar.gated`.

    first: whether it is the page's main answer.
    """
    if first:
        strip.say(setup.scenario, "estimate")
    setup, resolved, estimate = sidebar.gated(setup, caches.deployed(setup), caches.priced(setup))
    st.caption(explanations.configuration(setup, resolved, estimate))
    figures, table = static_answer(setup, resolved, estimate, first=first)
    _foot("static", setup, figures, table, explanations.formulas(setup, resolved, estimate),
          explanations.command(setup))  # fmt: skip
    return setup


def _about(resolved: Resolved) -> None:
    """Draw what the numbers are based on."""
    explanations.show_assumptions(resolved)
    with st.container(horizontal=True):
        st.page_link("views/explain.py", label="By operator", icon=":material/stacked_bar_chart:")
        st.page_link("views/accuracy.py", label="How far off", icon=":material/straighten:")


def _foot(name: str, setup: Setup, figures, table, how: str, command: str) -> None:
    """Draw explanations of the numbers, the command that prints them, exports and the pin."""
    with st.container(horizontal=True):
        with st.popover("How", icon=":material/function:"):
            st.markdown(how)
            if command and not setup.if_fitted:
                st.caption("The same numbers on the command line:")
                st.code(command, language="bash", wrap_lines=True)
        export.downloads(name, figures, table, setup)
        pinned_scenarios.pin_button("Pin", f"pin_{name}")


main()
