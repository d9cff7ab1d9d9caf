"""Questions that measured loads answer, and what the prediction chooses for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from app.accuracy.decisions.loads import Key, Load

#: Most time per output token that is asked for [s], from 100 to 10 tokens a second: judgement.
TARGETS_S = (0.010, 0.015, 0.020, 0.030, 0.050, 0.100)
#: Times the target, beyond which a choice counts as useless: judgement.
MISSED = 1.1
#: By which the best of two GPUs differ that are not ranked: judgement.
_ALIKE = 0.05
#: Of a deployment whose most users are asked: judgement.
_LEAST_LOADS = 3
#: Users where none is predicted to meet a target, so that a ratio can be told: judgement.
_NO_USER = 0.5


@dataclass(frozen=True, slots=True)
class Choice:
    """What is given away where a target is asked for.

    regret: share of the best measured throughput.  missed: the choice misses the target.  none:
    nothing meets it by prediction.  rule: regret of the fewest GPUs that were measured to meet it.
    said: the probability that the choice meets it; met: whether it does.
    """

    model: str
    system: str
    target_s: float
    regret: float
    missed: bool
    none: bool
    rule: float
    said: float = 0.0
    met: bool = False


def choices(loads: Sequence[Load]) -> list[Choice]:
    """Every question that some measured load answers, and what the prediction chooses."""
    found = []
    for (asked, system), members in _grouped(loads).items():
        if len({load.deployment for load in members}) < 2:
            continue
        for target in TARGETS_S:
            good = [load for load in members if load.tpot_s[0] <= target]
            if good:
                found.append(_choice(asked[0], system, target, members, good))
    return found


def _choice(
    model: str, system: str, target_s: float, members: Sequence[Load], good: Sequence[Load]
) -> Choice:
    best = max(load.tokens[0] for load in good)
    fewest = max(good, key=lambda load: (-load.devices, load.tokens[0]))
    rule = 1.0 - fewest.tokens[0] / best
    chosen = max(members, key=lambda load: load.tokens[1] * load.chance(target_s))
    said = chosen.chance(target_s)
    if not said:
        return Choice(model, system, target_s, 1.0, missed=False, none=True, rule=rule)
    missed = chosen.tpot_s[0] > MISSED * target_s
    regret = 1.0 if missed else max(0.0, 1.0 - chosen.tokens[0] / best)
    met = chosen.tpot_s[0] <= target_s
    return Choice(
        model, system, target_s, regret, missed=missed, none=False, rule=rule, said=said, met=met
    )


def _grouped(loads: Sequence[Load]) -> dict[tuple[Key, str], list[Load]]:
    groups: dict[tuple[Key, str], list[Load]] = defaultdict(list)
    for load in loads:
        groups[load.asked, load.system].append(load)
    return groups


def gpu_pairs(loads: Sequence[Load]) -> list[bool]:
    """Whether two GPUs are ranked as measured, for each pair, target and model at some lengths.

    By the most tokens a second and GPU within the target; pairs within 5 % of each other are left
    out.
    """
    by_asked: dict[Key, list[Load]] = defaultdict(list)
    for load in loads:
        by_asked[load.asked].append(load)
    right = []
    for members in by_asked.values():
        for target in TARGETS_S:
            both = [_best_of_each(members, target, of) for of in (0, 1)]
            for one, other in combinations(sorted(both[0].keys() & both[1].keys()), 2):
                measured, predicted = (best[one] / best[other] for best in both)
                if abs(measured - 1.0) >= _ALIKE:
                    right.append((measured > 1.0) == (predicted > 1.0))
    return right


def _best_of_each(members: Sequence[Load], target_s: float, of: int) -> dict[str, float]:
    """The most tokens of each system within a target.  of: 0 for measured, 1 for predicted."""
    best: dict[str, float] = defaultdict(float)
    for load in members:
        if load.tpot_s[of] <= target_s:
            best[load.system] = max(best[load.system], load.tokens[of])
    return best


def most_users(loads: Sequence[Load]) -> Iterator[float]:
    """Predicted over measured most users within a target, of each deployment that some loads miss
    it with and some meet it; half a user where none is predicted to meet it."""
    by_deployment: dict[Any, list[Load]] = defaultdict(list)
    for load in loads:
        by_deployment[load.asked, load.system, load.deployment].append(load)
    for members in by_deployment.values():
        if len(members) < _LEAST_LOADS:
            continue
        for target in TARGETS_S:
            met, said = (
                [load.users for load in members if load.tpot_s[of] <= target] for of in (0, 1)
            )
            if met and len(met) < len(members):
                yield max(said, default=_NO_USER) / max(met)
