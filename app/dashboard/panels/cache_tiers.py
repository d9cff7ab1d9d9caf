"""The part Cache tiers of page Explain: hits by tier, TTFT with and without each, dollars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import cache_tiers as charts
from app.charts.figure import Figure
from app.dashboard import export, sidebar
from app.dashboard.job_progress import is_running, show_progress, submitted
from app.dashboard.panels.operators import Step
from app.dashboard.panels.simulation import asked
from app.dashboard.widgets import card, draw_table
from app.jobs import SIMULATING
from app.question.validity import tiers_of
from app.simulation.tier_worth import Worth, worth_of_setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

JOB, RESULT = "cache_tiers", "cache_tiers_worth"
EXPLANATION = """
Requests are simulated with all tiers, without each of them, and without any. A prompt's leading
blocks are looked for on the device, then in the tiers, the fastest first; the request waits while
they are read. Each tier keeps the blocks that were used last.

**Freed** is the device time that the tier's hits save, at the rent of the devices; **Net** is that
less the tier's own rent. A tier that is read more slowly than the devices read a prompt anew saves
nothing: its hits make TTFT longer.
"""


def draw(step: Step) -> dict[str, Figure]:
    """Draw what the tiers of the question find and are worth; returns the charts by name."""
    setup = sidebar.chosen_setup()
    names = tiers_of(setup.scenario)
    if not names:
        st.info(
            "The question has no cache tiers: give *Host cache*, *Disk cache* or *Remote cache* "
            "under Cache tiers in the form, and turns, sessions or a trace that finds prefixes "
            "again.",
            icon=":material/database:",
        )
        return {}
    if st.button(
        "Simulate with and without each tier", icon=":material/play_arrow:", type="primary",
        disabled=is_running(JOB), key="cache_tiers_start",
    ):  # fmt: skip
        try:
            question = asked(setup.scenario)
            work = (setup, question.question, question.objects)
            submitted(JOB, worth_of_setup, work, "Cache tiers", SIMULATING)
        except RidgelineError as error:
            st.error(plain(error), icon=":material/error:")
    if is_running(JOB):
        show_progress(JOB, "cache_tiers")
    _take_job()
    shown = st.session_state.get(RESULT)
    if shown is None:
        return {}
    before, found = shown
    if before != setup:
        st.info("Of an earlier question: simulate again for this one.", icon=":material/history:")
    return _show(found, step)


def _take_job() -> None:
    """Keep what became of the job, once."""
    job = st.session_state.get(JOB)
    if job is None or not job.over:
        return
    del st.session_state[JOB]
    if job.error:
        st.error(plain(job.error), icon=":material/error:")
    else:
        st.session_state[RESULT] = job.result


def _show(found: Worth, step: Step) -> dict[str, Figure]:
    cases, routers = found.case_rows, found.router_rows
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
        "hits by tier": charts.hits(cases, "case", step.look),
        "TTFT by tier": charts.first_tokens(cases, "case", step.look),
    }
    if routers:
        figures["hits by router"] = charts.hits(routers, "router", step.look)
        figures["TTFT by router"] = charts.first_tokens(routers, "router", step.look)
    for name, figure in figures.items():
        export.chart(figure, f"tiers-{name.replace(' ', '-')}", f"{name} of the simulated requests")
    draw_table(_in_words(found.worth_rows), "tier_worth", height="auto")
    with st.expander("All figures", icon=":material/table:"):
        draw_table(_in_words(cases), "tier_cases", height="auto")
        if routers:
            draw_table(_in_words(routers), "tier_routers", height="auto")
    return figures


def _in_words(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows with their figures in words, columns by their heads."""
    return pd.DataFrame([dict(_cells(row)) for row in rows])


def _cells(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [
        (COLUMNS[name].head, value if isinstance(value, str) else COLUMNS[name].words(value))
        for name, value in row.items()
        if value is not None
    ]
