"""The search: price every candidate of a space in closed form, and order those that meet the
targets.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.accuracy.decisions.choices import LEEWAY
from app.planning import demand, family_pricing
from app.planning.candidates import Candidates, joined
from app.planning.families import LeftOut
from app.planning.probability import likely
from app.planning.ranking import Order, Ranking, ranking
from app.planning.space import devices
from app.planning.targets import FIGURES, Target, judged, parse_targets
from app.question.query import Query
from app.simulation.executor import HERE, Where
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.types import Array, Mask

Priced = tuple[Candidates, tuple[LeftOut, ...]]


@dataclass(frozen=True, slots=True)
class Found:
    """Every candidate, priced.

    probability: that it meets every target, corrected for choosing the best of many; NaN where not
    validated, [candidates].  useful: the same within `LEEWAY`, by which figures are expected.
    feasible: whether its figures meet the targets.  order: feasible ones, best first.  left_out:
    what could not be tried.
    """

    query: Query
    candidates: Candidates
    probability: Array
    useful: Array
    ranking: Ranking
    feasible: Mask
    order: Order
    left_out: tuple[LeftOut, ...]

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets to meet."""
        return self.ranking.targets

    @property
    def undecided(self) -> int:
        """Number of candidates that may meet targets on percentiles, which only a simulation tells;
        0 if the best are simulated.
        """
        if self.query.question.simulate:
            return 0
        return int(self.ranking.undecided(self.candidates, self.probability).sum())


def search(query: Query, priced: Priced | None = None) -> Found:
    """Price every deployment that a question may choose, and order those that meet its targets.

    priced: the result of `price` for the same space and load, if it is already known.

    Raises:
        RidgelineError: unknown names, or a space with nothing that could be priced.
    """
    query = demand.at_means(query)
    q = query.question
    targets = targets_of(query)
    candidates, left = priced or price(query)
    probability = likely(candidates, targets, q)
    useful = likely(candidates, targets, q, LEEWAY)
    ranked = ranking(candidates, targets, q.rank, q.confidence)
    feasible = ranked.feasible(candidates, probability)
    order = ranked.order(candidates, probability, feasible, useful)
    order = ranked.best_each(candidates, order)
    return Found(query, candidates, probability, useful, ranked, feasible, order, left)


def targets_of(query: Query) -> tuple[Target, ...]:
    """The targets to meet, without those that the answers cannot miss (`judged`).

    Raises:
        InvalidValue: as `parse_targets`.
    """
    return judged(_stated(query), demand.lengths(query.question).output)


def not_judged(query: Query) -> tuple[Target, ...]:
    """The question's targets that its answers cannot miss."""
    kept = targets_of(query)
    return tuple(one for one in _stated(query) if one not in kept)


def _stated(query: Query) -> tuple[Target, ...]:
    named = query.question.target
    return parse_targets(named if isinstance(named, str) else ", ".join(named))


def price(
    query: Query,
    progress: Progress = silent,
    cancelled: Cancel = never,
    where: Where = HERE,
    folder: Path | None = None,
) -> Priced:
    """Every candidate that a question may choose under its load, and what could not be tried.

    folder: stores priced families, so that a stopped search can continue; None stores nothing.

    Raises:
        RidgelineError: as `search`.
        Cancelled: between two families.
    """
    query = demand.at_means(query)
    # raised here; later a family's error only leaves out that family, with its reason
    devices(query.question)
    every, left = family_pricing.every_family(query)
    found = family_pricing.priced(query, every, where, folder, progress, cancelled)
    pairs = list(zip(every, found, strict=True))
    missing = (LeftOut(str(family), one.why) for family, one in pairs if one.why)
    return joined([one.of(family) for family, one in pairs if not one.why]), (*left, *missing)


def fewest_devices(found: Found) -> int | None:
    """The candidate with the fewest devices that meets every target; None if there is none."""
    order = np.flatnonzero(found.feasible)
    if not order.size:
        return None
    fewest = Ranking(FIGURES["devices"], found.ranking.targets, expected=False)
    return int(fewest.order(found.candidates, found.probability, found.feasible)[0])
