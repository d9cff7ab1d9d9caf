"""From the ordered candidates to the plans: the best are simulated, and must still meet the
targets.

The closed form selects what is simulated.  A recommended plan meets every target, on means and on
percentiles, in a simulation of the requested load, and sustains that load.  A simulation whose
error leaves a target undecided is repeated with more requests.  Its figures come from a
fresh draw of arrivals, not from the one that selected it.  If the simulation of a family differs
from the closed form, its other candidates are corrected accordingly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from app.accuracy.decisions.choices import LEEWAY
from app.planning import demand, sampling_error
from app.planning.candidates import Candidates
from app.planning.corrections import Corrections
from app.planning.percentiles import Simulated, simulate
from app.planning.probability import likely
from app.planning.ranking import Ranking
from app.planning.sampling_error import Undecided
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
_MOST_TRIED = 16
#: Most candidates simulated with more requests because a target is within the error: judgement.
_MOST_SETTLED = 3
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
    are overloaded in `candidates`.
    undecided: {candidate: targets within the error of its figures, where it misses no other}; its
    figures say whether it is among the plans or the rejected.
    near: those of the rejected whose figure is better than the best plan's, best first.
    smaller: a candidate that meets the targets on fewer devices than any plan.
    gamble: a candidate with a better figure than the best plan, but less likely to meet the
    targets; safe: the best one that meets them with probability `SAFE`, if the best plan does not.
    Candidates that were not simulated have no percentiles; closed-form percentiles only select what
    to simulate.
    """

    candidates: Candidates
    plans: list[Plan] = field(default_factory=list)
    rejected: dict[int, Simulated] = field(default_factory=dict)
    undecided: dict[int, tuple[Undecided, ...]] = field(default_factory=dict)
    near: list[int] = field(default_factory=list)
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
    """The value of a target's figure in that of a candidate's simulations which is furthest from
    the target: of the draw that chose it and the fresh one, with every number of requests.
    """
    column = target.figure.column
    if not target.figure.latency:
        return float(candidates.columns[column][at])
    draws = (0,) if demand.trace_of(query) is not None else (0, _FRESH)
    every = [one for draw in draws for one in _longer_and_longer(candidates, at, query, draw)]
    values = [one.figures[column] for one in every]
    return max(values) if target.below else min(values)


def _longer_and_longer(
    candidates: Candidates, at: int, query: Query, draw: int
) -> Iterator[Simulated]:
    """Simulations of a candidate, each with more requests; a trace has only its own."""
    outcome = simulate(candidates, at, query, draw)
    yield outcome
    while outcome.errors and (times := sampling_error.longer(outcome.times, outcome.requests)):
        outcome = simulate(candidates, at, query, draw, times)
        yield outcome


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
        self.corrections = Corrections(found)
        self.tried = 0

    def shortlist(self, progress: Progress, cancelled: Cancel, most: int) -> Shortlist:
        found, result = self.found, self.result
        order = self._hopeful() if self.on_percentiles else found.order
        for at in map(int, order):
            if len(result.plans) >= found.query.question.top or self.tried >= most:
                break
            if not self.corrections.allow(at):
                continue
            progress(min(self.tried / most, 1.0), "simulating the best")
            if cancelled():
                raise Cancelled("simulating the best")
            if (plan := self._plan(at)) is not None:
                result.plans.append(plan)
        self._settle()
        del result.plans[found.query.question.top :]
        self._of_fewest(most)
        self.result.gamble = self._first(_gambles(self.found, self.result), 0.0)
        self.result.safe = self._first(_safe(self.found, self.result), SAFE)
        if not result.plans:
            self.corrections.apply(result.candidates, list(result.rejected))
        return result

    def _hopeful(self) -> np.ndarray:
        """Ordered candidates that meet every target, or would with smaller percentiles."""
        found, eased = self.found, hopeful(self.found.ranking)
        likely = np.ones(len(found.candidates))  # their simulated figures are not known yet
        feasible = eased.feasible(found.candidates, likely)
        order = eased.order(found.candidates, found.probability, feasible, found.useful)
        return eased.best_each(found.candidates, order)

    def _plan(self, at: int, *, settle: bool = False) -> Plan | None:
        """The plan of a candidate, None if a simulation misses a target.

        settle: simulate it with more requests while they leave a target undecided.
        """
        found = self.found
        self.tried += 1
        draws = [0] if demand.trace_of(found.query) or not found.targets else [0, _FRESH]
        try:
            if not all(self._holds(at, draw, settle) for draw in draws):
                return None
        except RidgelineError as error:
            missed = [t for t in self.on_percentiles if not found.feasible[at]]
            return None if missed else Plan(at, float(found.probability[at]), None, str(error))
        return Plan(at, self._probability(at), self.last)

    def _holds(self, at: int, draw: int, settle: bool) -> bool:
        """Whether a simulation of a candidate meets every target with the requested confidence."""
        found, result = self.found, self.result
        for outcome in _longer_and_longer(found.candidates, at, found.query, draw):
            self._take(at, outcome)
            near = self._near(at, outcome)
            if not (settle and near):
                break
        self.last = outcome
        result.rejected.pop(at, None)
        result.undecided.pop(at, None)
        held = outcome.sustained and all(
            target.met(result.candidates.columns[target.figure.column][[at]])[0]
            for target in found.targets
        )
        if near:
            result.undecided[at] = near
        if least := found.query.question.confidence:
            held = held and self._probability(at) >= least
        if not held:
            result.rejected[at] = outcome
        return held

    def _near(self, at: int, outcome: Simulated) -> tuple[Undecided, ...]:
        """Targets within the error of a candidate's figures; none if it misses another, or does not
        sustain the load.
        """
        near = []
        for target in self.found.targets:
            column = target.figure.column
            value = float(self.result.candidates.columns[column][at])
            error = outcome.errors.get(self._source(column), 0.0)
            if sampling_error.is_near(target, value, error):
                near.append(Undecided(target, value, error, outcome.requests))
            elif not target.met(np.array([value]))[0]:
                return ()
        return tuple(near) if outcome.sustained else ()

    def _source(self, column: str) -> str:
        """The simulated latency that a figure is computed from, itself if it is one."""
        if column == "interactivity":
            return "tpot_s"
        follows = demand.is_closed(self.found.query.question) and column in (*_RISING, *_FALLING)
        return "e2e_s" if follows else column

    def _probability(self, at: int, leeway: float = 1.0) -> float:
        one = self.result.candidates.picked(np.array([at]))
        return float(likely(one, self.found.targets, self.found.query.question, leeway)[0])

    def _take(self, at: int, outcome: Simulated) -> None:
        """Replace closed-form figures by simulated ones, and update everything that depends on
        them.
        """
        before, after = self.found.candidates.columns, self.result.candidates.columns
        for name, value in outcome.figures.items():
            if np.isfinite(value):
                after[name][at] = value
        after["interactivity"][at] = 1.0 / after["tpot_s"][at]
        # Little's law: users over the duration of a request
        if demand.is_closed(self.found.query.question):
            share = before["e2e_s"][at] / after["e2e_s"][at]
            for name in _RISING:
                after[name][at] = before[name][at] * share
            for name in _FALLING:
                after[name][at] = before[name][at] / share
        self.corrections.learn(at, outcome)
        if not outcome.sustained:
            self.result.candidates.status[at] = OVERLOADED

    def _settle(self) -> None:
        """Try again with more requests what may be the best plan, until nothing open may be."""
        result, settled = self.result, set[int]()
        while True:
            self._rank()
            best = [plan.at for plan in result.plans[:1]]
            result.near = self._near_misses(*best)
            hopes = [at for at in best if at in result.undecided] + result.near
            left = [at for at in hopes if at not in settled]
            if not left or len(settled) == _MOST_SETTLED:
                return
            settled.add(left[0])
            plan = self._plan(left[0], settle=True)
            others = [one for one in result.plans if one.at != left[0]]
            result.plans = [*others, plan] if plan else others

    def _near_misses(self, best: int | None = None) -> list[int]:
        """Candidates that miss a target within the error, and have a better figure than the best
        plan; the best first.
        """
        result = self.result
        missed = np.zeros(len(result.candidates), dtype=bool)
        missed[list(result.undecided.keys() & result.rejected.keys())] = True
        plain = replace(self.found.ranking, expected=False)
        if best is not None:
            worth = plain.worth(result.candidates, self.found.probability)
            missed &= worth < worth[best] - _BETTER * abs(worth[best])
        return list(map(int, plain.order(result.candidates, self.found.probability, missed)))

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
            if at not in result.rejected and self.corrections.allow(at):
                result.smaller = self._plan(at)

    def _first(self, order: Sequence[int], least: float) -> Plan | None:
        """The first of some candidates that meets the targets when simulated, with the required
        probability.
        """
        result = self.result
        known = {plan.at: plan for plan in (*result.plans, result.smaller) if plan}
        for at in order[:_MOST_BESIDE]:
            plan = known.get(at) or (self._plan(at) if self.corrections.allow(at) else None)
            if plan is not None and not plan.probability < least:
                return plan
        return None


def _copied(candidates: Candidates) -> Candidates:
    columns: dict[str, Array] = {n: column.copy() for n, column in candidates.columns.items()}
    return replace(candidates, columns=columns, status=candidates.status.copy())
