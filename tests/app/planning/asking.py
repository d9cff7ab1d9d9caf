"""Questions for the planner, as an interface makes them."""

from __future__ import annotations

from typing import Any

from app.planning import demand, result
from app.planning.result import Planned
from app.question.query import Query, ask
from app.scenario.local_files import sources


def asked(model: str, **given: Any) -> Query:
    """A question, a trace at its means."""
    return demand.at_means(ask("plan", {"model": model, **given}, sources))


def plan(model: str, **given: Any) -> Planned:
    """The answer to a question."""
    return result.plan(ask("plan", {"model": model, **given}, sources))
