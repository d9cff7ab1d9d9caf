"""The planner's answers on a page: cached by question; long pricing runs as a job."""

from dataclasses import replace
from typing import Any

import streamlit as st

from app.dashboard import caches
from app.dashboard.job_progress import show_progress, submitted
from app.decide import plan_query as searching
from app.decide.frontiers import Curve
from app.decide.plan_query import Searched, Several
from app.decide.plan_systems import Row, by_system
from app.jobs import SIMULATING
from app.planning.answer import Answer
from app.planning.document import document
from app.planning.families import LeftOut
from app.planning.search import Priced, targets_of
from app.planning.space import DEGREES, KINDS
from app.question.question import Question
from genz_core.errors import RidgelineError

Found = tuple[tuple[Curve, ...], tuple[LeftOut, ...]]
_ANSWERED, _SYSTEMS = "plan_answered", "plan_systems"
_PRICED, _CHANGES, _CURVES = "plan_priced", "plan_changes", "frontier_curves"


def answered(searched: Searched) -> Answer | None:
    """The answer to a question; None while a job prices its space, with its progress drawn.

    Raises:
        RidgelineError: as `app.decide.plan_query`.
    """
    targets_of(searched.query())  # refuses invalid questions before anything is queued
    if searched.is_quick:
        return _quick(searched)
    priced: Priced | None = _of_job(
        _PRICED, searching.price_as_job, searched.untargeted, "Planning"
    )
    if priced is None:
        return None
    kept = st.session_state.get(_ANSWERED)
    if kept is None or kept[0] != searched:
        kept = st.session_state[_ANSWERED] = (searched, searching.answer(searched, priced))
    answer: Answer = kept[1]
    return answer


@caches.by_setup(32)
def _quick(searched: Searched) -> Answer:
    return searching.answer(searched, _priced(searched.untargeted))


def systems_of(searched: Searched, answer: Answer) -> list[Row]:
    """`app.decide.plan_systems.by_system`, cached in the session for the question."""
    kept = st.session_state.get(_SYSTEMS)
    if kept is None or kept[0] != searched:
        kept = st.session_state[_SYSTEMS] = (searched, by_system(answer))
    rows: list[Row] = kept[1]
    return rows


def document_of(searched: Searched, answer: Answer) -> dict[str, Any]:
    """`app.planning.document.document`; shared between visitors, not to be changed."""
    return _document(searched) if searched.is_quick and not answer.changes else document(answer)


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
    return _document(replace(stated, several=()))


@caches.by_setup(32)
def _document(searched: Searched) -> dict[str, Any]:
    return document(_quick(searched))


@caches.by_setup(16)
def _priced(searched: Searched) -> Priced:
    return searching.price(searched)


def frontier_curves(many: Several) -> Found | None:
    """The curves of the families of questions; None while a job prices many of them, with its
    progress drawn.

    Raises:
        RidgelineError: as `app.decide.plan_query.curves_as_job`.
    """
    if sum(searched.families for _, searched in many) <= searching.AT_ONCE:
        return _curves(many)
    found: Found | None = _of_job(_CURVES, searching.curves_as_job, many, "Pricing every load")
    return found


@caches.by_setup(16)
def _curves(many: Several) -> Found:
    return searching.curves_as_job(many)


def with_changes(searched: Searched, answer: Answer) -> Answer:
    """An answer without a plan, with changes that would allow one, which a job finds."""
    found = _of_job(
        _CHANGES, searching.changes_as_job, searched, "Looking for changes that would allow a plan"
    )
    return answer if found is None else replace(answer, changes=found)


def _of_job(name: str, work: Any, searched: Searched | Several, title: str) -> Any:
    """The result of a job for a question, stored in the session; None while it runs."""
    result, job_key, of_key = f"{name}_result", f"{name}_job", f"{name}_of"
    kept = st.session_state.get(result)
    if kept is not None and kept[0] == searched:
        if isinstance(kept[1], RidgelineError):
            _offer_again(name)
            raise kept[1]
        return kept[1]
    running = st.session_state.get(job_key)
    if running is not None and st.session_state.get(of_key) != searched:
        running.end()
        del st.session_state[job_key]
    st.session_state[of_key] = searched
    job = submitted(job_key, work, searched, title, SIMULATING)
    if not job.over:
        show_progress(job_key, name)
        return None
    del st.session_state[job_key]
    failed = RidgelineError(job.error) if job.error else None
    st.session_state[result] = (searched, failed or job.result)
    if failed:
        _offer_again(name)
        raise failed
    return job.result


def _offer_again(name: str) -> None:
    """Draw a button that repeats a question whose job was stopped or failed."""
    st.button(
        "Once more", icon=":material/replay:", key=f"again_{name}",
        on_click=lambda: st.session_state.pop(f"{name}_result", None),
    )  # fmt: skip
