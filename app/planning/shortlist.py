"""From the ordered candidates to the plans: the best are simulated, and must still meet the
targets.

The closed form selects what is simulated.  A recommended plan meets every target, on means and on
percentiles, in a simulation of the requested load, and sustains that load.  Its figures come from a
fresh draw of arrivals, not from the one that selected it.  If the simulation of a family differs
from the closed form, its other candidates are corrected accordingly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from app.accuracy.decisions.choices import LEEWAY
from app.planning import demand
from app.planning.candidates import Candidates
from app.planning.percentiles import Simulated, simulate
from app.planning.probability import likely
from app.planning.ranking import Ranking
from app.planning.search import Found
from app.planning.targets import FIGURES, Target
from app.question.query import Query
from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import RidgelineError
from genz_core.serving.traffic import OVERLOADED
from genz_core.types import Array

#: Probability of meeting all targets that makes a choice safe; judgement.
SAFE = 0.9
#: Smallest ratio of simulated to closed-form percentile considered possible: a candidate is
#: simulated if it could then meet the targets.
_HOPE = 0.6
_CLOSE = 0.95  # the same ratio once the family has been simulated
_MOST_TRIED = 16
_MOST_CARRIED = 1.5  # least ratio to the closed form for less busy candidates of a simulated family
_BETTER = 0.01  # least relative advantage of a gamble's figure
_MOST_BESIDE = 3  # most candidates simulated for a gamble, and for a safe choice
_FRESH = 1  # offset of the seed for draws that did not select the plan
#: Figures that rise, and that fall, with the completed requests of a closed loop.
_RISING = ("requests_per_s", "output_tokens_per_s", "output_tokens_per_s_per_device")
_FALLING = ("usd_per_mtok", "joules_per_token")


@dataclass(frozen=True, slots=True)
class Plan:
    """A candidate that meets every target.

    at: its index in `candidates`.  probability: of meeting them all, NaN if not validated.
    simulated: its figures; None if it was not simulated, with the reason in `why`.
    """

    at: int
    probability: float
    simulated: Simulated | None = None
    why: str = ""


@dataclass(slots=True)
class Shortlist:
    """The plans, best first; candidates hold simulated figures where these exist.

    rejected: {candidate: simulation that missed a target}; candidates that do not sustain the load
    are overloaded in `candidates`.  smaller: a candidate that meets the targets on fewer devices
    than any plan.  gamble: a candidate with a better figure than the best plan, but less likely to
    meet the targets; safe: the best one that meets them with probability `SAFE`, if the best plan
    does not.
    Candidates that were not simulated have no percentiles; closed-form percentiles only select what
    to simulate.
    """

    candidates: Candidates
    plans: list[Plan] = field(default_factory=list)
    rejected: dict[int, Simulated] = field(default_factory=dict)
    smaller: Plan | None = None
    gamble: Plan | None = None
    safe: Plan | None = None

    @property
    def held(self) -> list[Plan]:
        """All candidates shown that meet the targets: the plans, then the gamble, the safe and the
        smaller one.
        """
        return [*self.plans, *filter(None, (self.smaller, self.gamble, self.safe))]

    def is_simulated(self, at: int) -> bool:
        """Whether a candidate's figures come from a simulation."""
        return at in self.rejected or any(one.at == at and one.simulated for one in self.held)


def shortlist(
    found: Found,
    progress: Progress = silent,
    cancelled: Cancel = never,
    most: int = _MOST_TRIED,
) -> Shortlist:
    """The plans of a search: at most the requested number, simulated if requested.

    most: number of candidates that are simulated.

    Raises:
        Cancelled: between two simulations.
    """
    question = found.query.question
    if question.simulate:
        return _Trials(found).shortlist(progress, cancelled, most)
    plans = [
        Plan(int(at), float(found.probability[at]), None, "not requested")
        for at in found.order[: question.top]
    ]
    result = Shortlist(found.candidates, plans)
    for at in _gambles(found, result)[:1]:
        result.gamble = Plan(at, float(found.probability[at]), None, "not requested")
    for at in _safe(found, result)[:1]:
        result.safe = Plan(at, float(found.probability[at]), None, "not requested")
    return result


def _gambles(found: Found, short: Shortlist) -> list[int]:
    """Candidates that meet the targets with a better figure than the best plan, the best first.

    Empty without targets, if the figure is a latency, or if the best plan has the best figure.
    """
    plain = replace(found.ranking, expected=False)
    if not (short.plans and found.targets) or plain.by.latency:
        return []
    value = plain.worth(short.candidates, found.probability)
    best = value[short.plans[0].at]
    better = found.feasible & (value < best - _BETTER * abs(best))
    better &= np.nan_to_num(found.probability, nan=0.0) < short.plans[0].probability
    order = plain.order(short.candidates, found.probability, better)
    return [int(at) for at in order if int(at) not in short.rejected]


def _safe(found: Found, short: Shortlist) -> list[int]:
    """Candidates that meet the targets with probability `SAFE`, best first; empty if the best plan
    does.
    """
    best = short.plans[0].probability if short.plans else np.nan
    if not found.targets or not best < SAFE:
        return []
    plain = replace(found.ranking, expected=False)
    sure = found.feasible & (np.nan_to_num(found.probability, nan=0.0) >= SAFE)
    order = plain.order(short.candidates, found.probability, sure)
    return [int(at) for at in order if int(at) not in short.rejected]


def worst(candidates: Candidates, at: int, query: Query, target: Target) -> float:
    """The value of a target's figure in that of a candidate's simulations which is further from the
    target: the one that chose it, or the fresh one.
    """
    column = target.figure.column
    if not target.figure.latency:
        return float(candidates.columns[column][at])
    draws = (0,) if demand.trace_of(query) is not None else (0, _FRESH)
    values = [simulate(candidates, at, query, draw).figures[column] for draw in draws]
    return max(values) if target.below else min(values)


def hopeful(ranked: Ranking) -> Ranking:
    """The ranking with percentile targets relaxed to what a simulation might reach: see `_HOPE`."""
    easier = tuple(
        replace(target, value=target.value / _HOPE) if target.figure.percentile else target
        for target in ranked.targets
    )
    return replace(ranked, targets=easier, confidence=0.0)


class _Trials:
    """Candidates simulated one after another, and corrections for other candidates of a family."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.result = Shortlist(_copied(found.candidates))
        self.on_percentiles = [t for t in found.targets if t.figure.percentile]
        #: {(family, column): {use: simulated over closed form}} of its simulations.
        self.scale: dict[tuple[int, str], dict[float, float]] = {}
        #: {family: least use at which a simulation did not sustain the load}.
        self.overloaded: dict[int, float] = {}
        self.tried = 0

    def shortlist(self, progress: Progress, cancelled: Cancel, most: int) -> Shortlist:
        found, result = self.found, self.result
        order = self._hopeful() if self.on_percentiles else found.order
        for at in map(int, order):
            if len(result.plans) >= found.query.question.top or self.tried >= most:
                break
            if not self._worth(at):
                continue
            progress(min(self.tried / most, 1.0), "simulating the best")
            if cancelled():
                raise Cancelled("simulating the best")
            if (plan := self._plan(at)) is not None:
                result.plans.append(plan)
        self._rank()
        self._of_fewest(most)
        self.result.gamble = self._first(_gambles(self.found, self.result), 0.0)
        self.result.safe = self._first(_safe(self.found, self.result), SAFE)
        if not result.plans:
            self._judge_the_rest()
        return result

    def _hopeful(self) -> np.ndarray:
        """Ordered candidates that meet every target, or would with smaller percentiles."""
        found, eased = self.found, hopeful(self.found.ranking)
        likely = np.ones(len(found.candidates))  # their simulated figures are not known yet
        feasible = eased.feasible(found.candidates, likely)
        order = eased.order(found.candidates, found.probability, feasible, found.useful)
        return eased.best_each(found.candidates, order)

    def _worth(self, at: int) -> bool:
        """Whether a candidate may meet the targets, given the simulations of its family."""
        columns, family = self.found.candidates.columns, int(self.found.candidates.family[at])
        use = self.found.candidates.busy[at]
        if use >= self.overloaded.get(family, np.inf):
            return False
        for target in self.found.targets:
            column = target.figure.column
            if target.figure.latency and (family, column) in self.scale:
                factor = float(self._factor(family, column, use))
                if columns[column][at] * factor * _CLOSE > target.value:
                    return False
        return True

    def _factor(self, family: int, column: str, use: ArrayLike) -> Array:
        """Simulated over closed-form value of a figure in a family's simulations, at each load
        (`Candidates.busy`).

        The ratio is that of the busiest simulation that is no busier; candidates less busy than all
        simulated ones get at most a part of it.
        """
        uses, factors = np.array(sorted(self.scale[family, column].items())).T
        place = np.searchsorted(uses, use, side="right")
        least = min(factors[0], _MOST_CARRIED)
        return np.where(place > 0, factors[np.maximum(place - 1, 0)], least)

    def _plan(self, at: int) -> Plan | None:
        """The plan of a candidate, None if a simulation misses a target."""
        found = self.found
        self.tried += 1
        try:
            if not self._holds(at, 0):
                return None
            if found.targets and demand.trace_of(found.query) is None and not self._holds(at):
                return None
        except RidgelineError as error:
            missed = [t for t in self.on_percentiles if not found.feasible[at]]
            return None if missed else Plan(at, float(found.probability[at]), None, str(error))
        return Plan(at, self._probability(at), self.last)

    def _holds(self, at: int, draw: int = _FRESH) -> bool:
        """Whether a simulation of a candidate meets every target with the requested confidence."""
        found, result = self.found, self.result
        outcome = self.last = simulate(found.candidates, at, found.query, draw)
        self._take(at, outcome)
        held = outcome.sustained and all(
            target.met(result.candidates.columns[target.figure.column][[at]])[0]
            for target in found.targets
        )
        if least := found.query.question.confidence:
            held = held and self._probability(at) >= least
        if not held:
            result.rejected[at] = outcome
        return held

    def _probability(self, at: int, leeway: float = 1.0) -> float:
        one = self.result.candidates.picked(np.array([at]))
        return float(likely(one, self.found.targets, self.found.query.question, leeway)[0])

    def _take(self, at: int, outcome: Simulated) -> None:
        """Replace closed-form figures by simulated ones, and update everything that depends on
        them.
        """
        before, after = self.found.candidates.columns, self.result.candidates.columns
        family, use = int(self.found.candidates.family[at]), float(self.found.candidates.busy[at])
        for name, value in outcome.figures.items():
            if np.isfinite(value):
                self.scale.setdefault((family, name), {})[use] = value / before[name][at]
                after[name][at] = value
        after["interactivity"][at] = 1.0 / after["tpot_s"][at]
        # Little's law: users over the duration of a request
        if demand.is_closed(self.found.query.question):
            share = before["e2e_s"][at] / after["e2e_s"][at]
            for name in _RISING:
                after[name][at] = before[name][at] * share
            for name in _FALLING:
                after[name][at] = before[name][at] / share
        if not outcome.sustained:
            self.overloaded[family] = min(use, self.overloaded.get(family, np.inf))
            self.result.candidates.status[at] = OVERLOADED

    def _rank(self) -> None:
        """Order the plans by their simulated figures."""
        result = self.result
        chances, useful = np.full((2, len(result.candidates)), np.nan)
        chosen = np.zeros(len(result.candidates), dtype=bool)
        for plan in result.plans:
            chances[plan.at], chosen[plan.at] = plan.probability, True
            useful[plan.at] = self._probability(plan.at, LEEWAY)
        place = {
            int(at): number
            for number, at in enumerate(
                self.found.ranking.order(result.candidates, chances, chosen, useful)
            )
        }
        result.plans.sort(key=lambda plan: place[plan.at])

    def _of_fewest(self, most: int) -> None:
        """Look for a candidate that meets the targets on fewer devices than all plans."""
        found, result = self.found, self.result
        if not result.plans:
            return
        devices = found.candidates.columns["devices"]
        least = min(devices[plan.at] for plan in result.plans)
        fewer = found.feasible & (devices < least)
        by_devices = replace(found.ranking, by=FIGURES["devices"], expected=False)
        for at in map(int, by_devices.order(found.candidates, found.probability, fewer)):
            if self.tried >= most or result.smaller:
                return
            if at not in result.rejected and self._worth(at):
                result.smaller = self._plan(at)

    def _first(self, order: Sequence[int], least: float) -> Plan | None:
        """The first of some candidates that meets the targets when simulated, with the required
        probability.
        """
        result = self.result
        known = {plan.at: plan for plan in (*result.plans, result.smaller) if plan}
        for at in order[:_MOST_BESIDE]:
            plan = known.get(at) or (self._plan(at) if self._worth(at) else None)
            if plan is not None and not plan.probability < least:
                return plan
        return None

    def _judge_the_rest(self) -> None:
        """Without any plan, correct the candidates that were not simulated by their family's
        simulations.
        """
        candidates = self.result.candidates
        known = np.isin(np.arange(len(candidates)), list(self.result.rejected))
        for family, column in self.scale:
            rest = (candidates.family == family) & ~known
            candidates.columns[column][rest] *= self._factor(family, column, candidates.busy[rest])
        for family, use in self.overloaded.items():
            rest = (candidates.family == family) & (candidates.status == "ok")
            candidates.status[rest & (candidates.busy >= use)] = OVERLOADED


def _copied(candidates: Candidates) -> Candidates:
    columns: dict[str, Array] = {n: column.copy() for n, column in candidates.columns.items()}
    return replace(candidates, columns=columns, status=candidates.status.copy())
