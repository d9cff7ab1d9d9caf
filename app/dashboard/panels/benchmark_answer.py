"""Results of serving benchmarks on the predicted curve, replayed, and stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import streamlit as st
from pandas.util import hash_pandas_object

from app.benchmarks import calibration, history, identity, job_work, report
from app.benchmarks.comparison import Comparison, compare
from app.benchmarks.deployment import Deployment, deployments
from app.benchmarks.job_work import BenchmarkQuery
from app.benchmarks.replay import can_replay
from app.dashboard import caches, visitor
from app.dashboard.job_results import shared_result
from app.dashboard.page_texts import page_text
from app.dashboard.panels import benchmarks as panels
from app.dashboard.panels.run_facts import show_identity, show_sums, show_time_report
from app.dashboard.uploads import Results
from app.dashboard.widgets import choose, one_of, say_error, saying_errors
from app.measuring.time_report import TimeReport
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers.serving_results import ServingMeasurement

Parts = dict[str, Callable[[], None]]
LEVELS = {"80 %": 0.8, "90 %": 0.9, "95 %": 0.95, "99 %": 0.99}


def parts_of(results: Results, ran: Mapping[str, Any]) -> Parts:
    """The parts of page Upload for results, by title, in their order; {} for none.

    Each draws the facts about what ran before its own content.  ran: as of `Uploaded`.
    """
    shown: Mapping[str, Callable[[Comparison], None]] = {
        "Is it well tuned": well_tuned,
        "Figures": panels.show_figures,
        "Requests": show_requests,
        "Learn": show_learning,
        "History": lambda found: show_history(results, found),
    }
    return {name: partial(_drawn, results, ran, draw) for name, draw in shown.items()}


def _drawn(
    results: Results, proposed: Mapping[str, Any], draw: Callable[[Comparison], None]
) -> None:
    """Draw the facts about what ran, with notes, then the part.

    While a fact is missing without which nothing is predicted, the measured figures are drawn.

    proposed: as for `question_form`.
    """
    measured = [one for _, measurements in results.values() for one in measurements]
    try:
        runs = deployments(measured, panels.given())
    except RidgelineError as error:
        say_error(error)
        panels.question_form(deployments(measured), proposed)
        return
    show_identity(identity.of_run(runs[0]), "benchmark_identity", panels.say)
    panels.show_filled(runs)
    panels.question_form(runs, proposed)
    if not any(run.resolved for run in runs):
        unpriced = compare(runs)
        show_sums(unpriced.sums)
        panels.show_figures(unpriced)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        level = LEVELS[choose("Interval", list(LEVELS), "benchmark_level",
                              help=page_text("interval"))]  # fmt: skip
        simulate = st.toggle(
            "Simulate percentiles", key="benchmark_simulate", help=page_text("simulated results")
        )
    comparison = _compared(_Asked(_key(measured, level), runs, level))
    if simulate:
        title = "Simulation of the results"
        simulated = _worked("simulate", job_work.simulated, title, measured, level)
        comparison = simulated or comparison
    show_sums(comparison.sums, in_words=False)
    with saying_errors():
        draw(comparison)


@dataclass(frozen=True, slots=True)
class _Asked:
    """Runs to compare; equal if their key is, which holds the level."""

    key: str
    runs: Sequence[Deployment] = field(compare=False)
    level: float = field(compare=False)


@caches.by_setup(4)
def _compared(asked: _Asked) -> Comparison:
    return compare(asked.runs, asked.level)


def well_tuned(comparison: Comparison) -> None:
    """Draw the possible gain, the changes for it, and the findings, with the curves of the load."""
    left, right = st.columns([2, 3], gap="medium")
    with left:
        if points := report.reportable(comparison):
            point = one_of("Run", points, comparison.label, "tuned_run")
            if made := report.of_point(point):
                st.markdown(here_and_best(made))
                show_time_report(made)
        panels.show_findings(comparison)
    with right:
        panels.show_curves(comparison)


def here_and_best(made: TimeReport) -> str:
    """The position of a run, and of the best known run of its model, device and load, as Markdown.

    The time of a request is compared, using the parts in `made`.
    """
    known = [one for one in made.spent if one.best_s > 0]
    if not known or len(known) < len(made.spent):
        return page_text("here without a best", made=made)
    best = sum(one.best_s for one in known)
    runs = "; ".join(dict.fromkeys(plain(one.run) for one in known))
    if best >= made.total_s:
        return page_text("here is best", made=made, runs=runs)
    return page_text("here and best", made=made, runs=runs, best=best)


def _worked(
    name: str, work: Callable[..., Any], title: str, runs: Sequence[ServingMeasurement],
    level: float = 0.8,
) -> Any:  # fmt: skip
    """The result of a job on runs, None while it is running or if it failed."""
    query = BenchmarkQuery(tuple(runs), panels.given(), level, str(visitor.own_folder() or ""))
    with saying_errors():
        return shared_result(name, work, _key(runs, level), title, query)


def _key(runs: Sequence[ServingMeasurement], level: float) -> str:
    """What tells the comparison of these runs from others, for all visitors."""
    return str((panels.given(), level, visitor.own_edition(), [*map(contents, runs)]))


def contents(run: ServingMeasurement) -> tuple[Any, ...]:
    """What tells a run from others; visitors share the results of equal ones."""
    requests = None if run.requests is None else hash_pandas_object(run.requests).sum()
    figures = run.ttft_s, run.tpot_s, run.itl_s, run.e2e_s, run.throughput, requests
    return run.file, run.subject, run.load, run.lengths, run.phase, run.stated, *figures


def show_requests(comparison: Comparison) -> None:
    """Draw the replay of a run that lists its requests."""
    able = [one.deployment for one in comparison.points if can_replay(one.deployment)]
    if not able:
        st.info(page_text("no requests"), icon=":material/info:")
        return
    chosen = one_of(
        "Run", able, lambda run: f"{run.measurement.file}, {run.load.words}", "replay_run"
    )
    title, runs = "Replay of the requests", [chosen.measurement]
    found = _worked("replay", job_work.replayed, title, runs, comparison.level)
    if found is not None:
        panels.show_replay(found)


def show_learning(comparison: Comparison) -> None:
    """Draw the calibration from the runs: its effect, and buttons to store or drop it."""
    runs = [one.deployment for one in comparison.points]
    st.caption(page_text("learning"))
    with st.container(horizontal=True):
        learn = st.button("Calibrate from these", key="benchmark_learn", icon=":material/tune:")
        drop = st.button("Forget", key="benchmark_forget", icon=":material/delete:")
    if learn:
        st.session_state["benchmark_learning"] = True
        st.session_state.pop("benchmark_learnt", None)
    if st.session_state.get("benchmark_learning"):
        measured = [run.measurement for run in runs]
        learnt = _worked("learn", job_work.learnt, "Calibration from the results", measured)
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
