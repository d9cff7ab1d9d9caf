"""The planner's answers on a page: in closed form at once, simulated by a job; cached."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from app.dashboard import caches
from app.dashboard.job_results import shared_result
from app.decide import plan_query as searching
from app.decide.frontiers import Curve
from app.decide.plan_query import Planned, Searched, Several
from app.jobs import PRICING
from app.planning.families import LeftOut
from app.planning.search import Priced, targets_of
from app.planning.space import DEGREES, KINDS
from app.question.question import Question
from app.scenario.gate import experts_of
from genz_core.common.memo import ByIdentity
from genz_core.errors import RidgelineError

_quickly_priced = caches.by_setup(8)(searching.price)
Curves = tuple[tuple[Curve, ...], tuple[LeftOut, ...]]
_PLANNED = ByIdentity[Planned](8)


def in_closed_form(searched: Searched) -> Planned | None:
    """The answer without any simulation; None while a job prices its space, with its progress."""
    targets_of(searched.query())  # refuses invalid questions before anything is queued
    priced = _priced(searched)
    return None if priced is None else _planned(searched.in_closed_form, priced)


def simulated(searched: Searched) -> Planned | None:
    """The answer with its plans simulated; None while a job does that, with its progress."""
    given, title = (searched, _priced(searched)), "Simulating the plans"
    return shared_result("plan_simulated", searching.planned_as_job, searched, title, given)


def as_stated(searched: Searched, question: Question) -> dict[str, Any]:
    """The document of a question's own deployment under the searched load, without targets."""
    degrees = {name: getattr(question, name) for name in DEGREES}
    devices = question.tp * question.pp * question.dp * question.replicas
    stated = searched.with_question(
        **degrees, engine=question.engine, weights=question.weights, target=(), confidence=0.0,
        devices=f"{devices}:{devices}", pools=KINDS[:1], break_even=False,
    )  # fmt: skip
    alone = replace(stated, several=())
    return _planned(alone, _quickly_priced(alone.untargeted)).document


def _planned(searched: Searched, priced: Priced) -> Planned:
    return _PLANNED.get(lambda: searching.planned(searched, priced), priced, values=searched)


def _priced(searched: Searched) -> Priced | None:
    """The candidates of a question; None while a job prices many of them."""
    if _shapes(searched) <= searching.PLAN_AT_ONCE:
        return _quickly_priced(searched.untargeted)
    asked = searched.untargeted
    return shared_result("plan_priced", searching.price, asked, "Planning", lane=PRICING)


def _shapes(searched: Searched) -> float:
    """Number of degrees to price; 0 for a question that cannot be priced, which says why."""
    setup = searched.setup
    precisions = tuple(setup.scenario.precisions.items())
    with suppress(RidgelineError):
        model = caches.model_of(setup.scenario.model, setup.model_config, precisions)
        return searched.shapes(experts_of(model))
    return 0


def frontier_curves(many: Several) -> Curves | None:
    """The curves of the families of questions; None while a job prices them, with its progress."""
    title = "Pricing every load"
    return shared_result("frontier_curves", searching.curves_as_job, many, title, lane=PRICING)


def with_changes(searched: Searched, planned: Planned) -> Planned | None:
    """An answer without a plan, with changes that would allow one; None while a job looks for
    them, with its progress.
    """
    title = "Looking for changes that would allow a plan"
    found = shared_result("plan_changes", searching.changes_as_job, searched, title)
    return None if found is None else planned.with_changes(found)
