"""The search: every candidate of a space priced in closed form, and the best in their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.planning import aggregated, disaggregated
from app.planning.candidates import Candidates, joined
from app.planning.demand import Demand
from app.planning.families import Family, LeftOut, adapted, families
from app.planning.probability import meets
from app.planning.ranking import Order, Ranking, ranking
from app.planning.space import Space
from app.planning.targets import FIGURES, Target
from genz_core.errors import RidgelineError
from genz_core.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.types import Array, Mask, Model
from model_registry.finding.sources import ModelSource

Priced = tuple[Candidates, tuple[LeftOut, ...]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: which deployment of a model, of a space, serves a demand within targets.

    by: figure that orders the plans, "" for cost.  confidence: least probability that targets are
    met.  top: plans to show.  simulate: whether the best are simulated for their percentiles.
    pays: whether drafts and prompts read apart are compared by load with doing without.
    """

    model: ModelSource | Model
    space: Space
    demand: Demand
    targets: tuple[Target, ...] = ()
    by: str = ""
    confidence: float = 0.0
    top: int = 5
    simulate: bool = True
    pays: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Every candidate, priced.

    probability: that it meets every target, NaN where not validated, [candidates].
    feasible: whether it does by its figures.  order: those, best first.  left_out: what could not
    be tried.
    """

    question: Question
    candidates: Candidates
    probability: Array
    ranking: Ranking
    feasible: Mask
    order: Order
    left_out: tuple[LeftOut, ...]


def search(question: Question, priced: Priced | None = None) -> Found:
    """Price every deployment of the space and order those that meet the targets.

    priced: what `price` returned for the same space and demand, where that is known already.

    Raises:
        RidgelineError: unknown names, or a space with nothing that could be priced.
    """
    candidates, left = priced or price(question)
    targets = question.targets
    probability = meets(candidates, targets, question.demand)
    ranked = ranking(candidates, targets, question.by, question.confidence)
    feasible = ranked.feasible(candidates, probability)
    order = ranked.best_each(candidates, ranked.order(candidates, probability, feasible))
    return Found(question, candidates, probability, ranked, feasible, order, left)


def price(question: Question, progress: Progress = silent, cancelled: Cancel = never) -> Priced:
    """Every candidate of a space under its demand, and what could not be tried.

    Raises:
        RidgelineError: as `search`.
        Cancelled: between two families.
    """
    space, demand = question.space, question.demand
    plain, left = families(question.model, space)
    missing = list(left)
    found = [
        replace(family, beyond=(*family.beyond, *demand.shape.words))
        for one in plain
        for family in adapted(one, space.adapters, missing)
    ]
    parts: list[Candidates] = []
    every = list(_of_kinds(found, space))
    for number, family in enumerate(every):
        if cancelled():
            raise Cancelled(str(family))
        progress(number / len(every), str(family))
        of_kind = disaggregated if family.prefill is not None else aggregated
        try:
            parts.append(of_kind.price(family, space, demand))
        except RidgelineError as error:
            missing.append(LeftOut(str(family), str(error)))
    return joined(parts), tuple(missing)


def _of_kinds(found: Sequence[Family], space: Space) -> Iterator[Family]:
    """The families of the kinds that are asked for."""
    if "aggregated" in space.kinds:
        yield from found
    if "disaggregated" in space.kinds:
        yield from disaggregated.pairs(found, space)


def fewest_devices(found: Found) -> int | None:
    """The candidate with the fewest devices among those that meet every target, None without."""
    order = np.flatnonzero(found.feasible)
    if not order.size:
        return None
    fewest = Ranking(FIGURES["devices"], found.ranking.targets)
    return int(fewest.order(found.candidates, found.probability, found.feasible)[0])
