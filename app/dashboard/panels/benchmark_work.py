"""Panels of benchmark results that run longer or store something: replay, learning, history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import streamlit as st

from app.benchmarks import calibration, history, job_work
from app.benchmarks.comparison import Comparison
from app.benchmarks.deployment import Deployment, deployments
from app.benchmarks.job_work import Asked
from app.benchmarks.replay import can_replay
from app.dashboard import visitor
from app.dashboard.job_progress import show_progress, submitted
from app.dashboard.panels import benchmarks as panels
from app.dashboard.uploads import Results
from app.jobs import SIMULATING
from app.wording.markdown import plain

#: Titles of running jobs.
TITLES = {
    "simulate": "Simulation of the results",
    "replay": "Replay of the requests",
    "learn": "Calibration from the results",
}


def asked_now(runs: list[Deployment], level: float) -> Asked:
    """The runs and the interval level as the input of a job."""
    folder = str(visitor.own_folder() or "")
    return Asked(tuple(run.measurement for run in runs), panels.given(), level, folder)


def worked(name: str, work: Callable[..., Any], asked: Asked) -> Any:
    """The result of a job on the runs, None while it is running or if it failed."""
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
    """Draw the calibration from the runs: its effect, and buttons to store or drop it."""
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


def show_history(found: Results, comparison: Comparison) -> None:
    """Draw the button that stores the files, and a deployment over the stored results."""
    if st.button("Keep these results", key="benchmark_keep", icon=":material/save:"):
        for sent, measurements in found.values():
            runs = deployments(measurements, panels.given())
            history.keep(sent, runs, panels.given())
        st.success(f"Kept {visitor.keeping()}.", icon=":material/check:")
    point = comparison.points[0]
    panels.show_history(history.rows(point.deployment), point)
