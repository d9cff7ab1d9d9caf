"""Results of serving benchmarks on the predicted curve, replayed, and stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import streamlit as st

from app.benchmarks import calibration, history, identity, job_work, report
from app.benchmarks.comparison import Comparison, Point, compare
from app.benchmarks.deployment import Deployment, deployments
from app.benchmarks.job_work import BenchmarkQuery
from app.benchmarks.replay import can_replay
from app.dashboard import visitor
from app.dashboard.job_progress import result_of, submitted
from app.dashboard.page_texts import page_text
from app.dashboard.panels import benchmarks as panels
from app.dashboard.panels.run_facts import show_identity, show_sums, show_time_report
from app.dashboard.uploads import Results
from app.dashboard.widgets import one_of, say_error, saying_errors
from app.jobs import SIMULATING
from app.measuring.time_report import TimeReport
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers.serving_results import ServingMeasurement

Parts = dict[str, Callable[[], None]]
LEVELS = {"80 %": 0.8, "90 %": 0.9, "95 %": 0.95, "99 %": 0.99}
#: Titles of running jobs.
TITLES = {
    "simulate": "Simulation of the results",
    "replay": "Replay of the requests",
    "learn": "Calibration from the results",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Priced runs, the level of their intervals, and the comparison with their predictions."""

    runs: list[Deployment]
    level: float
    comparison: Comparison


def controls() -> tuple[float, bool]:
    """Draw the controls for the interval level and for simulation; returns both values."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        level = st.segmented_control(
            "Interval", list(LEVELS), default="80 %", required=True, key="benchmark_level",
            help="80 % comes from held-out points; other levels assume lognormal errors.",
        )  # fmt: skip
        simulate = st.toggle(
            "Simulate percentiles", key="benchmark_simulate",
            help="Simulates the requests of every run; simulated latencies have no interval.",
        )  # fmt: skip
    return LEVELS[level], simulate


def parts_of(results: Results, ran: Mapping[str, Any]) -> Parts:
    """The parts of page Upload for results, by title, in their order; {} for none.

    Each draws the facts about what ran before its own content.  ran: as of `Uploaded`.
    """
    shown: Mapping[str, Callable[[Answer], None]] = {
        "Is it well tuned": well_tuned,
        "Figures": lambda found: panels.show_figures(found.comparison),
        "Requests": lambda found: show_requests(found.runs, found.level),
        "Learn": lambda found: show_learning(found.runs),
        "History": lambda found: show_history(results, found.comparison),
    }
    return {name: partial(_drawn, results, ran, draw) for name, draw in shown.items()}


def _drawn(
    results: Results,
    ran: Mapping[str, Any],
    draw: Callable[[Answer], None],
) -> None:
    measured = [one for _, measurements in results.values() for one in measurements]
    answer = identified(measured, ran)
    if answer is not None:
        with saying_errors():
            draw(answer)


def identified(
    measured: Sequence[ServingMeasurement], proposed: Mapping[str, Any]
) -> Answer | None:
    """Draw the facts about what ran, with notes; returns the runs with their prediction.

    None if nothing can be predicted yet.  proposed: as for `question_form`.
    """
    try:
        runs = deployments(measured, panels.given())
    except RidgelineError as error:
        say_error(error)
        panels.question_form(deployments(measured), proposed)
        return None
    show_identity(identity.of_run(runs[0]), "benchmark_identity", panels.say)
    panels.show_filled(runs)
    panels.question_form(runs, proposed)
    if not any(run.resolved for run in runs):
        return None
    level, simulate = controls()
    comparison = compare(runs, level)
    if simulate:
        query = asked_now(runs, level)
        comparison = worked("simulate", job_work.simulated, query) or comparison
    show_sums(comparison.sums, in_words=False)
    return Answer(runs, level, comparison)


def well_tuned(found: Answer) -> None:
    """Draw the possible gain, the changes for it, and the findings, with the curves of the load."""
    left, right = st.columns([2, 3], gap="medium")
    reports = report.reports(found.comparison)
    with left:
        if reports:
            point, made = one_of(
                "Run", reports, lambda one: found.comparison.label(one[0]), "tuned_run"
            )
            st.markdown(here_and_best(point, made))
            show_time_report(made)
        panels.show_findings(found.comparison)
    with right:
        panels.show_curves(found.comparison)


def here_and_best(point: Point, made: TimeReport) -> str:
    """The position of a run, and of the best known run of its model, device and load, as Markdown.

    The time of a request is compared, using the parts in `made`.
    """
    here = quantities.seconds(made.total_s)
    known = [one for one in made.spent if one.best_s > 0]
    if not known or len(known) < len(made.spent):
        return (
            f"You are at **{here}** for {made.of}. No measured run of this model, device, format "
            "and load is available for comparison."
        )
    best = sum(one.best_s for one in known)
    runs = "; ".join(dict.fromkeys(plain(one.run) for one in known))
    if best >= made.total_s:
        return f"You are at **{here}** for {made.of}: as fast as the best measured run ({runs})."
    return (
        f"You are at **{here}** for {made.of}; the best measured run is at "
        f"**{quantities.seconds(best)}** ({runs})."
    )


def asked_now(runs: list[Deployment], level: float) -> BenchmarkQuery:
    """The runs and the interval level as the input of a job."""
    folder = str(visitor.own_folder() or "")
    return BenchmarkQuery(tuple(run.measurement for run in runs), panels.given(), level, folder)


def worked(name: str, work: Callable[..., Any], query: BenchmarkQuery) -> Any:
    """The result of a job on the runs, None while it is running or if it failed."""
    told = (query.given, query.level, visitor.own_edition())
    runs = [(m.file, m.subject, m.load, m.ttft_s, m.tpot_s, m.e2e_s) for m in query.measurements]
    key = f"{name} {hash(str((told, runs))):x}"
    for other in [k for k in st.session_state if str(k).startswith(f"{name} ") and k != key]:
        st.session_state[other].cancel()
        del st.session_state[other]
    submitted(key, work, query, TITLES[name], SIMULATING)
    return result_of(key, name)


def show_requests(runs: list[Deployment], level: float) -> None:
    """Draw the replay of a run that lists its requests."""
    able = [run for run in runs if can_replay(run)]
    if not able:
        st.info(page_text("no requests"), icon=":material/info:")
        return
    chosen = one_of(
        "Run", able, lambda run: f"{run.measurement.file}, {run.load.words}", "replay_run"
    )
    query = replace(asked_now(runs, level), measurements=(chosen.measurement,))
    found = worked("replay", job_work.replayed, query)
    if found is not None:
        panels.show_replay(found)


def show_learning(runs: list[Deployment]) -> None:
    """Draw the calibration from the runs: its effect, and buttons to store or drop it."""
    st.caption(page_text("learning"))
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
