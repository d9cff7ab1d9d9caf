"""Latencies and throughput over the load, and throughput over what a user sees."""

import streamlit as st

from app.charts import serving
from app.dashboard import display_tables, explanations, export, load_curves, sidebar
from app.dashboard.does_not_fit import figure_card
from app.dashboard.panels.load_answer import gated_load, latency_cards, load_charts
from app.dashboard.panels.reading_load import reading_load
from app.dashboard.panels.runs_behind import runs_behind_list
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.model_kinds import generates


def draw() -> None:
    """Draw the part."""
    setup, resolved, _ = sidebar.priced_setup()
    s = setup.scenario
    look = export.look()
    devices = s.tp * s.pp * s.dp
    st.caption(
        f"{plain(resolved.model.name)} on {devices} × {plain(resolved.system.name)} · "
        f"engine {plain(resolved.engine.name)} · {quantities.tokens(s.isl)} tokens in, "
        f"{quantities.tokens(s.osl) if generates(resolved.model) else 'none'} out · "
        f"{plain(load_curves.basis(setup))}"
    )
    if not generates(resolved.model):
        with sidebar.stopping():
            reading_load(setup, resolved, look)
        st.stop()
    with sidebar.stopping():
        setup, asked, row = gated_load(setup, resolved)
        load = asked.name
        table, at = load_curves.with_load(load_curves.curve(setup, load), row, load)
    fits = not setup.if_fitted
    for sentence in load_curves.load_warnings(table, load) if fits else ():
        st.warning(plain(sentence), icon=":material/warning:")
    st.markdown(f"At **{asked.words}**:")
    with st.grid(4, min_column_width=160, key="cards"):
        latency_cards(row, fits=fits)
        figure_card(
            "Tokens a user sees",
            quantities.tokens_rate(row["interactivity"]),
            f"{quantities.seconds(row['tpot_s'])} between two",
            "One over TPOT.",
            fits=fits,
        )
        figure_card(
            "Throughput per device",
            quantities.tokens_rate(row["output_tokens_per_s_per_device"]),
            f"{row['running']:,.0f} running, {row['capacity']:,.0f} fit",
            "Output tokens per second.",
            fits=fits,
        )

    figures = load_charts("serving", table, asked, look)

    shown = load_curves.without_waiting(table, load)
    curves = {f"TP{s.tp} (the scenario)": shown}
    others = tuple(sorted({1, 2, 4, 8} - {s.tp}))
    for tp, other in load_curves.curves_at(setup, load, others).items():
        if other["status"].eq("ok").any():
            curves[f"TP{tp}"] = load_curves.without_waiting(other, load)
    marked = {f"TP{s.tp} (the scenario)": at} if at < len(shown) else {}
    figures["trade"] = serving.throughput_over_interactivity(curves, load, marked, look)
    export.chart(figures["trade"], "serving-trade", "Throughput per device against interactivity")
    what = "users" if load == "concurrency" else "requests/s"
    st.caption(
        f"Numbers beside the scenario's points are its {what}. Up is cheaper, right is faster for each "
        "user; the circle is the load above. Loads at which requests wait are left out."
    )
    if fits:
        runs_behind_list(setup, load, asked.value)
    display_tables.draw_figures(table, "serving_table")
    with st.container(horizontal=True):
        with st.popover("How these numbers come about", icon=":material/function:"):
            st.markdown(explanations.UNDER_LOAD)
        export.downloads("serving", figures, table, setup)
