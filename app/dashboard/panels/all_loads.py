"""Throughput over the load and over interactivity, for several degrees, with the measured runs
used.
"""

from __future__ import annotations

import streamlit as st

from app.charts import serving
from app.dashboard import display_tables, export, load_curves
from app.dashboard.load import load_of, under
from app.dashboard.panels.runs_behind import runs_behind_list
from app.scenario.setup import Setup
from app.wording.markdown import plain


def all_loads(setup: Setup) -> None:
    """Draw throughput over the load and the trade against interactivity, with their table.

    setup: one that can run.

    Raises:
        RidgelineError: the scenario cannot be priced.
    """
    asked = load_of(setup)
    setup = under(setup, asked)
    row = load_curves.one_load(setup, asked.name, asked.value)
    load, tp, look = asked.name, setup.scenario.tp, export.look()
    table, at = load_curves.with_load(load_curves.curve(setup, load), row, load)
    for sentence in () if setup.if_fitted else load_curves.load_warnings(table, load):
        st.warning(plain(sentence), icon=":material/warning:")
    shown = load_curves.without_waiting(table, load)
    mine = f"TP{tp} (asked)"
    curves = {mine: shown}
    others = tuple(sorted({1, 2, 4, 8} - {tp}))
    for degree, other in load_curves.curves_at(setup, load, others).items():
        if other["status"].eq("ok").any():
            curves[f"TP{degree}"] = load_curves.without_waiting(other, load)
    marked = {mine: at} if at < len(shown) else {}
    figures = {
        "throughput": serving.throughput(table, load, "Throughput over the load", look),
        "trade": serving.throughput_over_interactivity(curves, load, marked, look),
    }
    serving.mark_load(figures["throughput"], asked.value, asked.words, look)
    for place, (name, figure) in zip(st.columns(2, gap="medium"), figures.items(), strict=True):
        with place:
            export.chart(figure, f"serving-{name}", f"{name.capitalize()} of the load")
    st.caption(
        f"Numbers beside points are {'users' if load == 'concurrency' else 'requests/s'}. Up is "
        "cheaper, right is faster for each user; loads at which requests wait are left out."
    )
    if not setup.if_fitted:
        runs_behind_list(setup, load, asked.value)
    display_tables.draw_figures(table, "serving_table")
    export.downloads("serving", figures, table, setup)
