"""From the candidates in their order to the plans: the best are simulated, and must still hold.

Targets on percentiles are looked for with the closed form's; where a family's simulation differs,
its other candidates are judged by that from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from app.planning.candidates import Candidates
from app.planning.percentiles import Simulated, closed_form_holds, simulate
from app.planning.probability import meets
from app.planning.search import Found
from app.planning.targets import Target
from genz_core.errors import RidgelineError
from genz_core.progress import Cancel, Cancelled, Progress, never, silent

#: Share of a percentile in closed form that a simulation may come to, so that it is worth trying.
_HOPE = 0.6
_CLOSE = 0.95  # the same once the family has been simulated
_MOST_TRIED = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """A candidate that meets every target.

    at: its number in `candidates`.  probability: of meeting them all, NaN where not validated.
    simulated: its percentiles; None where it was not simulated, `why` says why.
    """

    at: int
    probability: float
    simulated: Simulated | None = None
    why: str = ""


@dataclass(slots=True)
class Shortlist:
    """The plans, best first; candidates hold simulated percentiles in place of closed-form ones.

    rejected: {candidate: simulation that missed a target}.  Candidates that were not simulated
    have no percentiles: theirs only choose what is.
    """

    candidates: Candidates
    plans: list[Plan] = field(default_factory=list)
    rejected: dict[int, Simulated] = field(default_factory=dict)

    def is_simulated(self, at: int) -> bool:
        """Whether a candidate's percentiles are those of a simulation."""
        tried = {plan.at for plan in self.plans if plan.simulated is not None}
        return at in tried or at in self.rejected


def shortlist(found: Found, progress: Progress = silent, cancelled: Cancel = never) -> Shortlist:
    """The plans of a search: at most as many as asked for, simulated if asked for.

    Raises:
        Cancelled: between two simulations.
    """
    question = found.asked.question
    if not question.simulate:
        plans = [
            Plan(int(at), float(found.probability[at]), None, "not asked for")
            for at in found.order[: question.top]
        ]
        return Shortlist(found.candidates, plans)
    return _simulated(found, progress, cancelled)


def _simulated(found: Found, progress: Progress, cancelled: Cancel) -> Shortlist:
    question = found.asked.question
    of_percentiles = [target for target in found.targets if target.figure.percentile]
    order = _hopeful(found, of_percentiles) if of_percentiles else found.order
    result = Shortlist(_copied(found.candidates))
    scale: dict[tuple[int, str], float] = {}
    tried = 0
    for at in map(int, order):
        if len(result.plans) >= question.top or tried >= _MOST_TRIED:
            break
        if not _worth(found, at, of_percentiles, scale):
            continue
        progress(min(tried / _MOST_TRIED, 1.0), "simulating the best")
        if cancelled():
            raise Cancelled("simulating the best")
        tried += 1
        plan = _tried(found, result, at, of_percentiles, scale)
        if plan is not None:
            result.plans.append(plan)
    return result


def _hopeful(found: Found, targets: list[Target]) -> np.ndarray:
    """Candidates in their order that meet every target, or would if percentiles were smaller."""
    ranked = found.ranking
    easier = tuple(
        replace(target, value=target.value / _HOPE) if target in targets else target
        for target in ranked.targets
    )
    eased = replace(ranked, targets=easier, confidence=0.0)
    likely = np.ones(len(found.candidates))  # what a simulation says of them is not known yet
    feasible = eased.feasible(found.candidates, likely)
    order = eased.order(found.candidates, found.probability, feasible)
    return eased.best_each(found.candidates, order)


def _worth(
    found: Found, at: int, targets: list[Target], scale: dict[tuple[int, str], float]
) -> bool:
    """Whether a candidate may meet the percentiles, by what its family's simulation came to."""
    family = int(found.candidates.family[at])
    for target in targets:
        column = target.figure.column
        factor = scale.get((family, column))
        if factor is None:
            continue
        if found.candidates.columns[column][at] * factor * _CLOSE > target.value:
            return False
    return True


def _tried(
    found: Found,
    result: Shortlist,
    at: int,
    targets: list[Target],
    scale: dict[tuple[int, str], float],
) -> Plan | None:
    """The plan of a candidate, None where its simulation misses a target."""
    try:
        outcome = simulate(found.candidates, at, found.asked)
    except RidgelineError as error:
        missed = [t for t in targets if not found.feasible[at]]
        return None if missed else Plan(at, float(found.probability[at]), None, str(error))
    family = int(found.candidates.family[at])
    for name, value in outcome.figures.items():
        scale[family, name] = value / found.candidates.columns[name][at]
        result.candidates.columns[name][at] = value
    if not all(t.met(np.array([outcome.figures[t.figure.column]]))[0] for t in targets):
        result.rejected[at] = outcome
        return None
    if not closed_form_holds(found.candidates.of(at)):
        _take_means(result.candidates, at, outcome)
        if not _means_hold(found, outcome):
            result.rejected[at] = outcome
            return None
    one = result.candidates.picked(np.array([at]))
    question = found.asked.question
    probability = float(meets(one, found.targets, question)[0])
    if question.confidence and not probability >= question.confidence:
        result.rejected[at] = outcome
        return None
    return Plan(at, probability, outcome)


def _take_means(candidates: Candidates, at: int, outcome: Simulated) -> None:
    """Simulated means in place of those of the closed form."""
    known = {name: value for name, value in outcome.means.items() if np.isfinite(value)}
    for name, value in known.items():
        candidates.columns[name][at] = value
    if known.get("tpot_s"):
        candidates.columns["interactivity"][at] = 1.0 / known["tpot_s"]


def _means_hold(found: Found, outcome: Simulated) -> bool:
    """Whether simulated means meet their targets, asked where these stand for the kind."""
    means = [t for t in found.ranking.targets if t.figure.column in outcome.means]
    return all(t.met(np.array([outcome.means[t.figure.column]]))[0] for t in means)


def _copied(candidates: Candidates) -> Candidates:
    return replace(
        candidates, columns={name: column.copy() for name, column in candidates.columns.items()}
    )
