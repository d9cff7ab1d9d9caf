"""A page's question to the planner: plain values that serve as a key of caches and jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import hardware_db
from app.decide import frontiers
from app.decide.frontiers import Curve
from app.decide.plan_systems import Row, by_system
from app.planning import answer as answers
from app.planning import changes, search, space
from app.planning.answer import Answer
from app.planning.changes import Change
from app.planning.document import document
from app.planning.families import LeftOut
from app.planning.search import Priced
from app.question.query import Query
from app.scenario.known_systems import SystemSource, find_system
from app.scenario.setup import Setup, source_of
from app.simulation.trace_file import Trace
from genz_core.common.progress import Cancel, Cancelled, Progress, never, part, silent
from genz_core.errors import RidgelineError
from genz_core.systems import System

#: Number of degrees up to which a plan is priced while a page waits: about half a second.
PLAN_AT_ONCE = 150


@dataclass(frozen=True, slots=True)
class Searched:
    """A page's question to the planner.

    setup: the question, and texts that the visitor uploaded.  Parameters that differ from their
    defaults are kept.  several: values to choose among, by parameter.  systems: texts of the
    visitor's own systems, by name.  trace: the requests that the question's trace stands for.
    trace_key: identifies the file that they come from.
    """

    setup: Setup
    several: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    systems: tuple[tuple[str, str], ...] = ()
    trace: Trace | None = field(default=None, compare=False)
    trace_key: str = ""

    @property
    def untargeted(self) -> Searched:
        """A copy of this request without the options that only rank already-priced candidates."""
        return self.with_question(
            target=(), rank="", confidence=0.0, simulate=False, break_even=False
        )

    @property
    def in_closed_form(self) -> Searched:
        """A copy of this request whose plans are not simulated, nor compared by load."""
        return self.with_question(simulate=False, break_even=False)

    def shapes(self, experts: int) -> float:
        """Number of degrees to price, of all families and kinds of deployments together, of a model
        with so many experts; infinity if pricing a single family takes long.
        """
        query = self.query()
        engines = [
            len(space.choices(query, "engine") or hardware_db.engines_for(find_system(system)))
            for system in space.systems(query)
        ]
        formats = len(space.formats(query, "weights")) * len(space.formats(query, "kv"))
        more = space.choices(query, "speculation") or space.choices(query, "offload")
        if more:
            return math.inf
        kinds = len(space.kinds(query.question))
        return sum(engines) * formats * kinds * space.most_shapes(experts, query)

    def with_question(self, **changed: Any) -> Searched:
        """A copy with other values of the question."""
        scenario = replace(self.setup.scenario, **changed)
        return replace(self, setup=replace(self.setup, scenario=scenario))

    def query(self) -> Query:
        """The planner's question.

        Raises:
            RidgelineError: an invalid name or number.
        """
        question = self.setup.scenario
        model = source_of(question.model, self.setup.model_config)
        objects: dict[str, Any] = {} if isinstance(model, str) else {"model": model}
        if self.trace is not None:
            objects["trace"] = self.trace
        several = dict(self.several)
        texts = dict(self.systems)
        if self.setup.system_yaml:
            texts[question.system] = self.setup.system_yaml
        if "system" in several:
            several["system"] = tuple(_system(name, texts) for name in several["system"])
        elif question.system in texts:
            objects["system"] = _system(question.system, texts)
        given = frozenset(question.changed()) - set(several)
        return Query("plan", question, {}, several, given, objects)


#: Questions by their names.
Several = tuple[tuple[str, Searched], ...]


def _system(name: str, texts: dict[str, str]) -> SystemSource | System:
    return hardware_db.load_yaml(texts[name]) if texts.get(name) else name


def price(searched: Searched, progress: Progress = silent, cancelled: Cancel = never) -> Priced:
    """Price every candidate of a question's space under its load; also returns what was left out.

    Raises:
        RidgelineError: as `Searched.query` and `app.planning.search.price`.
    """
    return search.price(searched.query(), progress, cancelled)


@dataclass(frozen=True, slots=True)
class Planned:
    """An answer as a page shows it.

    document: of `app.planning.document`.  systems: of `app.decide.plan_systems.by_system`.
    """

    answer: Answer
    document: dict[str, Any]
    systems: list[Row]

    def with_changes(self, changed: tuple[Change, ...]) -> Planned:
        """A copy whose answer has changes that would allow a plan."""
        found = replace(self.answer, changes=changed)
        return replace(self, answer=found, document=document(found))


def planned(
    searched: Searched, priced: Priced, progress: Progress = silent, cancelled: Cancel = never
) -> Planned:
    """The answer to a question whose candidates are priced, without possible changes.

    Raises:
        RidgelineError: as `Searched.query`.
        Cancelled: between two simulations.
    """
    found = answers.answer(
        searched.query(), part(progress, 0.0, 0.8), cancelled, priced=priced, with_changes=False
    )
    rows = by_system(found, part(progress, 0.8, 1.0), cancelled)
    # a page reads the simulated candidates; without those before them the result is half as large
    kept = replace(found, found=replace(found.found, candidates=found.short.candidates))
    return Planned(kept, document(found), rows)


def planned_as_job(
    asked: tuple[Searched, Priced], progress: Progress, cancelled: Cancel = never
) -> Planned:
    """`planned` as a job."""
    return planned(*asked, progress, cancelled)


def changes_as_job(
    searched: Searched, progress: Progress, cancelled: Cancel = never
) -> tuple[Change, ...]:
    """Changes that would allow a plan where nothing meets the targets, as a job."""
    query = searched.query()
    priced = search.price(query, part(progress, 0.0, 0.3), cancelled)
    found = search.search(query, priced)
    progress(0.3, "easing targets, adding devices")
    if cancelled():
        raise Cancelled("easing targets")
    return tuple(changes.changes(found))


def curves_as_job(
    many: Several, progress: Progress = silent, cancelled: Cancel = never
) -> tuple[tuple[Curve, ...], tuple[LeftOut, ...]]:
    """`app.decide.frontiers.curves` of several questions by name, as a job.

    With several questions, each curve is labelled with its question's name, and impossible families
    are left out.

    Raises:
        RidgelineError: as `frontiers.curves`, if there is only one question.
    """
    found: list[Curve] = []
    left: list[LeftOut] = []
    for at, (name, searched) in enumerate(many):
        share = part(progress, at / len(many), (at + 1) / len(many))
        try:
            curves, missing = frontiers.curves(searched.query(), share, cancelled)
        except Cancelled:
            raise
        except RidgelineError as error:
            if len(many) == 1:
                raise
            left.append(LeftOut(name, str(error)))
            continue
        left += missing
        for curve in curves:
            label = name if len(curves) == 1 else f"{name}, {curve.family}"
            found.append(curve if len(many) == 1 else replace(curve, label=label))
    return tuple(found), tuple(left)
