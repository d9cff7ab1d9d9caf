"""Page Benchmarks: results of serving benchmarks on the predicted curve, replayed, kept."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from app.benchmarks import calibration, history, job_work
from app.benchmarks.comparison import Comparison, compare
from app.benchmarks.deployment import Deployment, deployments
from app.benchmarks.job_work import Asked
from app.benchmarks.replay import can_replay
from app.dashboard import result_uploads, visitor
from app.dashboard.job_progress import show_progress, submitted
from app.dashboard.panels import benchmarks as panels
from app.jobs import SIMULATING
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

LEVELS = {"80 %": 0.8, "90 %": 0.9, "95 %": 0.95, "99 %": 0.99}
#: What jobs are called while they are at work.
TITLES = {
    "simulate": "Simulation of the results",
    "replay": "Replay of the requests",
    "learn": "Calibration from the results",
}


def asked_now(runs: list[Deployment], level: float) -> Asked:
    """The runs as a job takes them."""
    folder = str(visitor.own_folder() or "")
    return Asked(tuple(run.measurement for run in runs), panels.given(), level, folder)


def worked(name: str, work: Callable[..., Any], asked: Asked) -> Any:
    """The result of a job on the runs, None while it is at work or where it failed."""
    told = (asked.given, asked.level, visitor.own_edition())
    runs = [(m.file, m.subject, m.load, m.ttft_s, m.tpot_s, m.e2e_s) for m in asked.measurements]
    key = f"{name} {hash(str((told, runs))):x}"
    for other in [k for k in st.session_state if str(k).startswith(f"{name} ") and k != key]:
        st.session_state[other].cancel()
        del st.session_state[other]
    job = submitted(key, work, asked, TITLES[name], SIMULATING)
    if not job.over:
        show_progress(key, name)
        return None
    if job.error:
        st.error(plain(job.error), icon=":material/error:")
        return None
    return job.result


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


def show_requests(runs: list[Deployment], level: float) -> None:
    """Draw the replay of a run that lists its requests."""
    able = [run for run in runs if can_replay(run)]
    if not able:
        st.info(
            "No file here lists requests with lengths and latencies. vLLM's `--save-detailed`, "
            "SGLang's `--output-details` and AIPerf's `profile_export.jsonl` do.",
            icon=":material/info:",
        )
        return
    at = 0
    if len(able) > 1:
        at = st.selectbox(
            "Run", range(len(able)), key="replay_run",
            format_func=lambda n: f"{able[n].measurement.file}, {able[n].load.words}",
        )  # fmt: skip
    asked = replace(asked_now(runs, level), measurements=(able[at].measurement,))
    found = worked("replay", job_work.replayed, asked)
    if found is not None:
        panels.show_replay(found)


def show_learning(runs: list[Deployment]) -> None:
    """Draw the calibration from the runs: what it would do, and buttons to keep or drop it."""
    st.caption(
        "One run sets the scale of the steps of this deployment; several fit the engine for this "
        "model, format and device. Later predictions use it until it is forgotten."
    )
    with st.container(horizontal=True):
        learn = st.button("Calibrate from these", key="benchmark_learn", icon=":material/tune:")
        drop = st.button("Forget", key="benchmark_forget", icon=":material/delete:")
    if learn:
        st.session_state["benchmark_learning"] = True
        st.session_state.pop("benchmark_learnt", None)
    if st.session_state.get("benchmark_learning"):
        learnt = worked("learn", job_work.learnt, asked_now(runs, 0.8))
        if learnt is not None:
            del st.session_state["benchmark_learning"]
            calibration.keep(learnt)
            st.session_state["benchmark_learnt"] = f"{learnt.sentence} Kept {visitor.keeping()}."
            st.rerun()
    if drop:
        outcome = calibration.forget(runs)
        told = (
            f"{w}: {'forgotten' if gone else 'nothing was kept'}" for w, gone in outcome.items()
        )
        st.session_state["benchmark_learnt"] = f"{'; '.join(told)}."
        st.rerun()
    if said := st.session_state.get("benchmark_learnt"):
        st.success(plain(said), icon=":material/check:")


def show_history(found: result_uploads.Files, comparison: Comparison) -> None:
    """Draw the button that keeps the files, and a deployment over what was kept."""
    if st.button("Keep these results", key="benchmark_keep", icon=":material/save:"):
        for sent, measurements in found.values():
            runs = deployments(measurements, panels.given())
            history.keep(sent, runs, panels.given())
        st.success(f"Kept {visitor.keeping()}.", icon=":material/check:")
    point = comparison.points[0]
    panels.show_history(history.rows(point.deployment), point)


st.title("Benchmarks", anchor=False)
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
if not any(run.resolved for run in runs):
    st.stop()
level, simulate = controls()
comparison = compare(runs, level)
if simulate:
    comparison = worked("simulate", job_work.simulated, asked_now(runs, level)) or comparison
panels.show_findings(comparison)
tabs = st.tabs(
    ["Curve", "Figures", "Requests", "Learn", "History"], on_change="rerun", key="benchmark_tabs"
)
DRAW = (
    lambda: panels.show_curves(comparison),
    lambda: panels.show_figures(comparison),
    lambda: show_requests(runs, level),
    lambda: show_learning(runs),
    lambda: show_history(found, comparison),
)
for tab, draw in zip(tabs, DRAW, strict=True):
    if tab.open:
        with tab:
            try:
                draw()
            except RidgelineError as error:
                st.error(plain(error), icon=":material/error:")
