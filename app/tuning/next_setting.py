"""Which setting to run next, and when to stop because no setting may be clearly better.

The next run has the largest expected improvement over the best run so far, multiplied by the
probability that it meets the targets and that its server starts.
Source: Jones, Schonlau and Welch, Efficient Global Optimization of Expensive Black-Box Functions
(1998), eq. 15; Gardner et al., Bayesian Optimization with Inequality Constraints (2014).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from app.benchmarks.levels import quantile
from app.planning.targets import Target
from app.tuning.outcome import Outcome
from app.tuning.settings_model import Belief, beliefs, starts
from app.tuning.space import Space
from genz_core.types import Array

#: Settings less likely to start than this do not keep a search going.
_HARDLY = 0.2


@dataclass(frozen=True, slots=True)
class Proposal:
    """A setting to run.

    at: its index.  predicted, low, high: of the goal, updated by the runs so far.
    improvement: expected, relative to the best run; 0 before there is one.
    feasible: probability that it starts and meets the targets.
    """

    at: int
    predicted: float
    low: float
    high: float
    improvement: float
    feasible: float
    why: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What to do next: a proposal, or a sentence on why the search is over.

    reach: how much better than the best run some setting may still be, by its interval, as a share;
    infinite until a run meets the targets.
    """

    proposal: Proposal | None
    stop: str = ""
    reach: float = math.inf


def best_of(space: Space, runs: Sequence[tuple[int, Outcome]]) -> int | None:
    """Index of the best run that meets the targets, None without one."""
    good = [
        (space.sign * outcome.value(space.goal), -number)
        for number, (_, outcome) in enumerate(runs)
        if outcome.meets(space.targets) and math.isfinite(outcome.value(space.goal))
    ]
    return -max(good)[1] if good else None


def choose(
    space: Space, runs: Sequence[tuple[int, Outcome]], within: float, level: float
) -> Choice:
    """The next setting, or why there is none.

    within: relative gain that is too small for another run.  level: probability of an interval.
    """
    left = np.ones(len(space.settings), dtype=bool)
    left[[at for at, _ in runs]] = False
    if not left.any():
        return Choice(None, f"all {len(space.settings):,} settings were run", 0.0)
    believed, starting = beliefs(space, runs), starts(space, runs)
    z = quantile(level)
    goal, meets = believed[space.goal.name], starting.copy()
    may_meet = starting >= _HARDLY
    for target in space.targets:
        belief = believed[target.figure.name]
        meets = meets * _probability(target, belief)
        may_meet &= _slack(target, belief) + z * belief.deviation >= 0.0
    number = best_of(space, runs)
    if not (left & may_meet).any():
        if number is None:
            said = "according to the intervals, none of the remaining settings can meet the targets"
        else:
            said = (
                "according to the intervals, none of the remaining settings can start and meet the "
                "targets"
            )
        return Choice(None, said, 0.0 if number is not None else math.inf)
    gain = space.sign * goal.log
    if number is None:
        likely = np.where(left & may_meet, meets, -1.0)
        score = likely * np.exp(np.clip(gain - gain[left].max(), -50.0, 0.0))
        at = int(np.argmax(np.where(left & may_meet, score, -1.0)))
        why = (
            "the best predicted setting that meets the targets"
            if space.targets
            else ("the best predicted setting")
        )
        return Choice(_proposal(goal, at, z, 0.0, float(meets[at]), why))
    best = space.sign * math.log(runs[number][1].value(space.goal))
    reach = float(np.max((gain + z * goal.deviation - best)[left & may_meet]))
    if reach <= math.log1p(within):
        stop = (
            f"none of the remaining settings is better than run {number + 1} by more than "
            f"{within * 100:g} %, according to its {level * 100:g} % interval"
        )
        return Choice(None, stop, math.expm1(reach))
    improvement = _improvement(gain - best, goal.deviation)
    score = np.where(left & may_meet, improvement * meets, -1.0)
    at = int(np.argmax(score))
    why = (
        f"it has the largest expected gain over run {number + 1}"
        if score[at] > 0
        else "it is the most likely to be better"
    )
    proposal = _proposal(goal, at, z, float(improvement[at]), float(meets[at]), why)
    return Choice(proposal, reach=math.expm1(reach))


def _proposal(goal: Belief, at: int, z: float, gain: float, feasible: float, why: str) -> Proposal:
    log, spread = float(goal.log[at]), z * float(goal.deviation[at])
    ends = math.exp(log - spread), math.exp(log + spread)
    return Proposal(at, math.exp(log), *ends, gain, feasible, why)


def _improvement(better: Array, deviation: Array) -> Array:
    """Expected improvement of ln of the goal."""
    spread = np.maximum(deviation, 1e-9)
    share = better / spread
    return np.asarray(spread * (share * norm.cdf(share) + norm.pdf(share)))


def _slack(target: Target, belief: Belief) -> Array:
    """ln of the margin of a figure to its target; positive if the target is met."""
    ratio = math.log(target.value) - belief.log
    return ratio if target.below else -ratio


def _probability(target: Target, belief: Belief) -> Array:
    spread = np.maximum(belief.deviation, 1e-9)
    return np.asarray(norm.cdf(_slack(target, belief) / spread))
