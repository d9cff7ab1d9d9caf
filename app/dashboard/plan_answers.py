"""The planner's answers on a page: at once in closed form, simulated by a job; cached by
question.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

from app.dashboard import caches
from app.dashboard.job_progress import show_progress, submitted
from app.decide import plan_query as searching
from app.decide.frontiers import Curve
from app.decide.plan_query import Planned, Searched, Several
from app.jobs import SIMULATING
from app.jobs.job_files import Work
from app.planning.families import LeftOut
from app.planning.search import Priced, targets_of
from app.planning.space import DEGREES, KINDS
from app.question.question import Question
from genz_core.errors import RidgelineError

Curves = tuple[tuple[Curve, ...], tuple[LeftOut, ...]]
_ANSWERED = "plan_answered"
_PRICED, _SIMULATED, _CHANGES = "plan_priced", "plan_simulated", "plan_changes"
_CURVES = "frontier_curves"
#: Results of jobs by their names and questions, for all visitors.
_RESULTS = caches.by_bytes(64 << 20)


def in_closed_form(searched: Searched) -> Planned | None:
    """The answer to a question without any simulation; None while a job prices its space, with its
    progress drawn.

    Raises:
        RidgelineError: as `app.decide.plan_query`.
    """
    targets_of(searched.query())  # refuses invalid questions before anything is queued
    asked = searched.in_closed_form
    if searched.is_quick:
        return _quick(asked)
    priced = _priced(searched)
    if priced is None:
        return None
    kept = st.session_state.get(_ANSWERED)
    if kept is None or kept[0] != asked:
        kept = st.session_state[_ANSWERED] = (asked, searching.planned(asked, priced))
    planned: Planned = kept[1]
    return planned


def simulated(searched: Searched) -> Planned | None:
    """The answer to a question whose candidates are priced, its plans simulated; None while a job
    simulates them, with its progress drawn.

    Raises:
        RidgelineError: the job failed or was cancelled.
    """
    planned: Planned | None = _of_job(
        _SIMULATED, searching.planned_as_job, searched, "Simulating the plans",
        (searched, _priced(searched)),
    )  # fmt: skip
    return planned


def as_stated(searched: Searched, question: Question) -> dict[str, Any]:
    """The document of the deployment stated in a question, under the searched load; targets are
    ignored.

    Raises:
        RidgelineError: it cannot be priced.
    """
    degrees = {name: getattr(question, name) for name in DEGREES}
    devices = question.tp * question.pp * question.dp * question.replicas
    stated = searched.with_question(
        **degrees, engine=question.engine, weights=question.weights, target=(), confidence=0.0,
        devices=f"{devices}:{devices}", pools=KINDS[:1], break_even=False,
    )  # fmt: skip
    return _quick(replace(stated, several=())).document


@caches.by_setup(32)
def _quick(searched: Searched) -> Planned:
    return searching.planned(searched, _quickly_priced(searched.untargeted))


def _priced(searched: Searched) -> Priced | None:
    """The candidates of a question; None while a job prices many of them."""
    if searched.is_quick:
        return _quickly_priced(searched.untargeted)
    found: Priced | None = _of_job(_PRICED, searching.price_as_job, searched.untargeted, "Planning")
    return found


@caches.by_setup(16)
def _quickly_priced(searched: Searched) -> Priced:
    return searching.price(searched)


def frontier_curves(many: Several) -> Curves | None:
    """The curves of the families of questions; None while a job prices many of them, with its
    progress drawn.

    Raises:
        RidgelineError: as `app.decide.plan_query.curves_as_job`.
    """
    if sum(searched.families for _, searched in many) <= searching.AT_ONCE:
        return _curves(many)
    found: Curves | None = _of_job(_CURVES, searching.curves_as_job, many, "Pricing every load")
    return found


@caches.by_setup(16)
def _curves(many: Several) -> Curves:
    return searching.curves_as_job(many)


def with_changes(searched: Searched, planned: Planned) -> Planned:
    """An answer without a plan, completed with changes that would allow one; a job finds them, with
    its progress drawn meanwhile.
    """
    found = _of_job(
        _CHANGES, searching.changes_as_job, searched, "Looking for changes that would allow a plan"
    )
    return planned if found is None else planned.with_changes(found)


def _of_job(
    name: str, work: Work, searched: Searched | Several, title: str, argument: Any = None
) -> Any:
    """The result of a job for a question, stored for all visitors; None while it runs.

    argument: of the work; the question itself unless given.

    Raises:
        RidgelineError: the job failed, or cannot be queued.
    """
    result = f"{name}_result"
    kept = st.session_state.get(result)
    if kept is None or kept[0] != searched:
        found = _RESULTS.get((name, searched))
        if found is None:
            found = _outcome(name, work, searched, title, argument or searched)
        if found is None:
            return None
        kept = st.session_state[result] = (searched, found)
    if isinstance(kept[1], RidgelineError):
        st.button(
            "Once more", icon=":material/replay:", key=f"again_{name}",
            on_click=lambda: st.session_state.pop(result, None),
        )  # fmt: skip
        raise kept[1]
    return kept[1]


def _outcome(name: str, work: Work, searched: Searched | Several, title: str, argument: Any) -> Any:
    """The result of this session's job for a question, or its error; None while it runs, with its
    progress drawn.
    """
    job_key, of_key = f"{name}_job", f"{name}_of"
    running = st.session_state.get(job_key)
    if running is not None and st.session_state.get(of_key) != searched:
        running.abandon()
        del st.session_state[job_key]
    st.session_state[of_key] = searched
    job = submitted(job_key, work, argument, title, SIMULATING)
    if not job.over:
        show_progress(job_key, name)
        return None
    del st.session_state[job_key]
    if job.error:
        return RidgelineError(job.error)
    _RESULTS.put((name, searched), job.result, job.size_bytes)
    return job.result
