"""Results of serving benchmarks on the predicted curve, replayed, and stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from app.benchmarks import identity, job_work, report
from app.benchmarks.comparison import Comparison, Point, compare
from app.benchmarks.deployment import Deployment, deployments
from app.dashboard.panels import benchmark_work
from app.dashboard.panels import benchmarks as panels
from app.dashboard.panels.identity import show_identity
from app.dashboard.panels.sums import show_sums
from app.dashboard.panels.time_report import show_time_report
from app.dashboard.uploads import Results
from app.measuring.time_report import TimeReport
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers.serving_results import ServingMeasurement

Parts = dict[str, Callable[[], None]]
LEVELS = {"80 %": 0.8, "90 %": 0.9, "95 %": 0.95, "99 %": 0.99}


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
            help="Held-out points give 80 %; other levels assume a lognormal ratio.",
        )  # fmt: skip
        simulate = st.toggle(
            "Simulate percentiles", key="benchmark_simulate",
            help="Every run, request by request; simulated latencies have no interval.",
        )  # fmt: skip
    return LEVELS[level], simulate


def parts_of(results: Results) -> Parts:
    """The parts of page Upload for results, by title, in their order; {} for none.

    Each draws the facts about what ran before its own content.
    """
    shown: Mapping[str, Callable[[Answer], None]] = {
        "Is it well tuned": well_tuned,
        "Figures": lambda found: panels.show_figures(found.comparison),
        "Requests": lambda found: benchmark_work.show_requests(found.runs, found.level),
        "Learn": lambda found: benchmark_work.show_learning(found.runs),
        "History": lambda found: benchmark_work.show_history(results, found.comparison),
    }
    return {name: partial(_drawn, results, draw) for name, draw in shown.items()}


def _drawn(
    results: Results,
    draw: Callable[[Answer], None],
) -> None:
    answer = identified([one for _, measurements in results.values() for one in measurements])
    if answer is None:
        return
    try:
        draw(answer)
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")


def identified(measured: Sequence[ServingMeasurement]) -> Answer | None:
    """Draw the facts about what ran, with notes; returns the runs with their prediction.

    None if nothing can be predicted yet.
    """
    try:
        runs = deployments(measured, panels.given())
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
        panels.question_form(deployments(measured))
        return None
    show_identity(identity.of_run(runs[0]), "benchmark_identity", panels.say)
    panels.show_filled(runs)
    panels.question_form(runs)
    if not any(run.resolved for run in runs):
        return None
    level, simulate = controls()
    comparison = compare(runs, level)
    if simulate:
        asked = benchmark_work.asked_now(runs, level)
        comparison = benchmark_work.worked("simulate", job_work.simulated, asked) or comparison
    show_sums(comparison.sums, in_words=False)
    return Answer(runs, level, comparison)


def well_tuned(found: Answer) -> None:
    """Draw the possible gain, the changes for it, and the findings, with the curves of the load."""
    left, right = st.columns([2, 3], gap="medium")
    reports = report.reports(found.comparison)
    with left:
        if reports:
            point, made = reports[0]
            if len(reports) > 1:
                at = st.selectbox(
                    "Run", range(len(reports)), key="tuned_run",
                    format_func=lambda n: found.comparison.label(reports[n][0]),
                )  # fmt: skip
                point, made = reports[at]
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
            f"You are at **{here}** for {made.of}. There is no measured run of this model, "
            f"device, format and load to compare with."
        )
    best = sum(one.best_s for one in known)
    runs = "; ".join(dict.fromkeys(plain(one.run) for one in known))
    if best >= made.total_s:
        return f"You are at **{here}** for {made.of}: no slower than the best run known ({runs})."
    return (
        f"You are at **{here}** for {made.of}; the best run known is at "
        f"**{quantities.seconds(best)}** ({runs})."
    )
