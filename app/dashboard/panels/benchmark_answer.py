"""Results of serving benchmarks on the predicted curve, replayed, kept."""

from __future__ import annotations

import streamlit as st

from app.benchmarks import identity, job_work, report
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployments
from app.dashboard import result_uploads
from app.dashboard.panels import benchmark_work
from app.dashboard.panels import benchmarks as panels
from app.dashboard.panels.identity import show_identity
from app.dashboard.panels.sums import show_sums
from app.dashboard.panels.time_report import show_time_report
from app.dashboard.widgets import draw_tabs
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

LEVELS = {"80 %": 0.8, "90 %": 0.9, "95 %": 0.95, "99 %": 0.99}


def controls() -> tuple[float, bool]:
    """Draw level and whether to simulate; returns both."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        level = st.segmented_control(
            "Interval", list(LEVELS), default="80 %", required=True, key="benchmark_level",
            help="Held-out points give 80 %; other levels take the ratio for lognormal.",
        )  # fmt: skip
        simulate = st.toggle(
            "Simulate percentiles", key="benchmark_simulate",
            help="Every run, request by request; simulated latencies carry no interval.",
        )  # fmt: skip
    return LEVELS[level], simulate


def benchmark_panel() -> None:
    """Draw the box of results and what they say."""
    st.caption(
        "Results of serving benchmarks beside the prediction of the same load. Nothing leaves this "
        "server, and nothing is kept unless you keep it."
    )
    found = result_uploads.picker()
    if not found:
        st.info("Upload one result or many, or try a sample.", icon=":material/timer:")
        st.stop()
    measured = [one for _, measurements in found.values() for one in measurements]
    try:
        runs = deployments(measured, panels.given())
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
        panels.question_form(deployments(measured))
        st.stop()
    panels.show_filled(runs)
    panels.question_form(runs)
    show_identity(identity.of_run(runs[0]), "benchmark_identity", panels.say)
    if not any(run.resolved for run in runs):
        st.stop()
    level, simulate = controls()
    comparison = compare(runs, level)
    if simulate:
        simulated = benchmark_work.worked(
            "simulate", job_work.simulated, benchmark_work.asked_now(runs, level)
        )
        comparison = simulated or comparison
    panels.show_findings(comparison)
    show_sums(comparison.sums, in_words=False)
    if len(comparison.points) == 1 and (made := report.of_point(comparison.points[0])):
        with st.expander("Where the time goes, and what to change", icon=":material/timer:"):
            show_time_report(made)
    tabs = {
        "Curve": lambda: panels.show_curves(comparison),
        "Figures": lambda: panels.show_figures(comparison),
        "Requests": lambda: benchmark_work.show_requests(runs, level),
        "Learn": lambda: benchmark_work.show_learning(runs),
        "History": lambda: benchmark_work.show_history(found, comparison),
    }
    try:
        draw_tabs(tabs, "benchmark_tabs", on_change="rerun")
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
