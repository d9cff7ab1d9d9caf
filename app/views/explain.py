"""Page Explain: the operators of a step beside the chart of where its time and memory go."""

import pandas as pd
import streamlit as st

from app.charts.figure import Figure
from app.dashboard import export, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.panels import cache_tiers, inside, memory, operators, step_charts
from app.dashboard.widgets import choose
from app.scenario.levers import phases_of

#: Charts of the model and its memory, which are drawn even if the scenario cannot run.
MEMORY, GRAPH, TIERS = "Memory", "Model inside", "Cache tiers"
PARTS = ("Roofline", "Breakdown", MEMORY, GRAPH, TIERS)
#: Charts of the operators of a step.
CHARTS = {
    "Roofline": step_charts.draw_roofline, "Breakdown": step_charts.draw_breakdown,
    GRAPH: inside.draw,
}  # fmt: skip
HELP = {
    "Roofline": page_text("roofline"), "Breakdown": page_text("breakdown"),
    TIERS: page_text("cache tiers"),
}  # fmt: skip


def main() -> None:
    """Draw the page."""
    setup, resolved, estimate = sidebar.priced_setup()
    st.title("Explain", anchor=False)
    part = choose("Chart", PARTS, "part", label_visibility="collapsed")
    phases = phases_of(estimate)
    phase = "" if part == TIERS else choose(
        "Phase", phases, "phase" if len(phases) > 1 else "pass", default=phases[-1],
        label_visibility="collapsed",
    )  # fmt: skip
    if part == TIERS:
        setup = sidebar.chosen_setup()
        figures, table = cache_tiers.draw(setup)
        name = "cache-tiers"
    else:
        sidebar.say_trace()
        if part in (MEMORY, GRAPH):
            sidebar.say_unread(resolved)
            runs = estimate.status[0] == "ok"
            drawn = (setup, resolved, estimate) if runs else sidebar.as_if_fitted(setup)
        else:
            drawn = sidebar.gated(setup, resolved, estimate)
            setup = drawn[0]
        step = operators.Step(*drawn, phase, export.look(), operators.chosen_row(phase))
        figures, table = _operators_and_chart(step, part)
        name = f"{part.casefold()}-{phase}"
    with st.container(horizontal=True):
        if part in HELP:
            with st.popover("How to read this", icon=":material/function:"):
                st.markdown(HELP[part])
        if not table.empty:
            export.downloads(name, figures, table, setup)


def _operators_and_chart(step: operators.Step, part: str) -> tuple[dict[str, Figure], pd.DataFrame]:
    """Draw the operators of a step, a chart beside them, and the chosen operator below.

    Returns the charts and the table behind them.
    """
    st.markdown(operators.total(step))
    st.caption(page_text("operators and chart", scenario=sidebar.describe(step.setup)))
    left, right = st.columns((6, 5), gap="medium")
    with left:
        table = operators.operators(step)
        operators.detail(step)
    with right:
        if part == MEMORY:
            return memory.draw(step)
        return CHARTS[part](step), table.drop(columns="id")


main()
