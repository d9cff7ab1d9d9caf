"""The part Cache tiers of page Explain: hits by tier, TTFT with and without each, dollars."""

import pandas as pd
import streamlit as st

from app.charts import simulation as charts
from app.charts.figure import Figure
from app.dashboard import export, strip
from app.dashboard.display_tables import rows_in_words
from app.dashboard.job_progress import is_running, kept_result, start
from app.dashboard.page_texts import page_text
from app.dashboard.panels.simulation import query_of
from app.dashboard.widgets import card, draw_table, saying_errors
from app.jobs import SIMULATING
from app.question.validity import tiers_of
from app.scenario.setup import Setup
from app.simulation.tier_worth import Worth, worth_of_setup
from app.wording import quantities

JOB, RESULT = "cache_tiers", "cache_tiers_worth"


def draw(setup: Setup) -> tuple[dict[str, Figure], pd.DataFrame]:
    """Draw the hits and the value of the question's tiers.

    Returns the charts by name, and the figures of each case, an empty table before any simulation.
    """
    strip.say(setup.scenario, "simulate")
    nothing: tuple[dict[str, Figure], pd.DataFrame] = ({}, pd.DataFrame())
    if not tiers_of(setup.scenario):
        st.info(page_text("no cache tiers"), icon=":material/database:")
        return nothing
    if st.button(
        "Simulate with and without each tier", icon=":material/play_arrow:", type="primary",
        disabled=is_running(JOB), key="cache_tiers_start",
    ):  # fmt: skip
        with saying_errors():
            question = query_of(setup.scenario)
            work = (setup, question.question, question.objects)
            start(JOB, worth_of_setup, work, "Cache tiers", SIMULATING)
    if not (shown := kept_result(JOB, RESULT, "cache_tiers", setup)):
        return nothing
    return _show(shown[1]), pd.DataFrame(shown[1].case_rows)


def _show(found: Worth) -> dict[str, Figure]:
    look, cases, routers = export.look(), found.case_rows, found.router_rows
    whole, none = cases[0], cases[-1]
    with st.grid(2, min_column_width=180, key="tier_cards"):
        card(
            "Found, all tiers",
            quantities.percent(whole["cached_share"]),
            f"on the device alone: {quantities.percent(none['cached_share'])}",
        )
        card(
            "TTFT, mean",
            quantities.seconds(whole["ttft_mean_s"]),
            f"without tiers: {quantities.seconds(none['ttft_mean_s'])}",
        )
    figures = {
        "hits by tier": charts.hits(cases, "case", look),
        "TTFT by tier": charts.first_tokens(cases, "case", look),
    }
    if routers:
        figures["hits by router"] = charts.hits(routers, "router", look)
        figures["TTFT by router"] = charts.first_tokens(routers, "router", look)
    export.grid("tiers", figures, 2, 400)
    draw_table(rows_in_words(found.worth_rows), "tier_worth", height="auto")
    with st.expander("All figures", icon=":material/table:"):
        draw_table(rows_in_words(cases), "tier_cases", height="auto")
        if routers:
            draw_table(rows_in_words(routers), "tier_routers", height="auto")
    return figures
