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
    if not tiers_of(setup.scenario):
        st.info(page_text("no cache tiers"), icon=":material/database:")
        return {}, pd.DataFrame()
    if st.button(
        "Simulate with and without each tier", icon=":material/play_arrow:", type="primary",
        disabled=is_running(JOB), key="cache_tiers_start",
    ):  # fmt: skip
        with saying_errors():
            query = query_of(setup.scenario)
            work = (setup, query.question, query.objects)
            start(JOB, worth_of_setup, work, "Cache tiers", SIMULATING)
    if shown := kept_result(JOB, RESULT, setup):
        return _show(shown[1]), pd.DataFrame(shown[1].case_rows)
    return {}, pd.DataFrame()


def _show(worth: Worth) -> dict[str, Figure]:
    look, cases, routers = export.look(), worth.case_rows, worth.router_rows
    whole, none = cases[0], cases[-1]
    with st.grid(2, min_column_width=180, key="tier_cards"):
        found, alone = (quantities.percent(one["cached_share"]) for one in (whole, none))
        card("Found, all tiers", found, f"on the device alone: {alone}")
        first, without = (quantities.seconds(one["ttft_mean_s"]) for one in (whole, none))
        card("TTFT, mean", first, f"without tiers: {without}")
    figures = {
        "hits by tier": charts.hits(cases, "case", look),
        "TTFT by tier": charts.first_tokens(cases, "case", look),
    }
    if routers:
        figures["hits by router"] = charts.hits(routers, "router", look)
        figures["TTFT by router"] = charts.first_tokens(routers, "router", look)
    export.grid("tiers", figures, 2, 400)
    draw_table(rows_in_words(worth.worth_rows), "tier_worth", height="auto")
    with st.expander("All figures", icon=":material/table:"):
        draw_table(rows_in_words(cases), "tier_cases", height="auto")
        if routers:
            draw_table(rows_in_words(routers), "tier_routers", height="auto")
    return figures
