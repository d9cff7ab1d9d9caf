"""Questions that measured loads can answer, and the prediction's choice for each."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from app.accuracy.decisions.loads import Key, Load

#: TPOT targets [s], from 100 to 10 tokens/s: judgement.
TARGETS_S = (0.010, 0.015, 0.020, 0.030, 0.050, 0.100)
#: A choice whose TPOT exceeds the target by this factor counts as useless: judgement.
MISSED = 1.1
#: Factor on the target that halves what a choice is worth.  Its worth falls evenly from the whole
#: at the target to nothing at `MISSED`, so on average it is the probability of staying within this.
LEEWAY = (1.0 + MISSED) / 2.0
#: GPUs whose best results differ by less than this are not ranked: judgement.
_ALIKE = 0.05
#: The target at which a deployment's largest number of users is compared: judgement.
_LEAST_LOADS = 3
#: Users assumed if no load is predicted to meet a target, so that a ratio exists: judgement.
_NO_USER = 0.5


@dataclass(frozen=True, slots=True)
class Choice:
    """The outcome of a choice for one question and target.

    regret: lost share of the best measured throughput.  missed: the choice misses the target.
     none: no candidate is predicted to meet it.  rule: regret of choosing the fewest GPUs that
    measured within the target.  said: predicted probability that the choice meets the target; met:
    whether it does.
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
    """Every question that some measured load meets, with the prediction's choice."""
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
    chosen = max(members, key=lambda load: _worth(load, target_s))
    said = chosen.chance(target_s)
    if not said:
        return Choice(model, system, target_s, 1.0, missed=False, none=True, rule=rule)
    missed = chosen.tpot_s[0] > MISSED * target_s
    regret = 1.0 if missed else max(0.0, 1.0 - chosen.tokens[0] / best)
    met = chosen.tpot_s[0] <= target_s
    return Choice(
        model, system, target_s, regret, missed=missed, none=False, rule=rule, said=said, met=met
    )


def _worth(load: Load, target_s: float) -> tuple[bool, float]:
    """The order of a plan: loads predicted to meet the target first, then expected tokens/s."""
    return load.tpot_s[1] <= target_s, load.tokens[1] * load.chance(LEEWAY * target_s)


def _grouped(loads: Sequence[Load]) -> dict[tuple[Key, str], list[Load]]:
    groups: dict[tuple[Key, str], list[Load]] = defaultdict(list)
    for load in loads:
        groups[load.asked, load.system].append(load)
    return groups


def gpu_pairs(loads: Sequence[Load]) -> list[bool]:
    """Whether two GPUs are ranked as measured, for each pair, target, model and lengths.

    The ranking is by the highest tokens/s per GPU within the target; pairs within 5 % of each other
    are left out.
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
    """The highest tokens/s of each system within a target.  of: 0 for measured, 1 for predicted."""
    best: dict[str, float] = defaultdict(float)
    for load in members:
        if load.tpot_s[of] <= target_s:
            best[load.system] = max(best[load.system], load.tokens[of])
    return best


def most_users(loads: Sequence[Load]) -> Iterator[float]:
    """Predicted over measured largest number of users within a target, one ratio per deployment.

    Only deployments with measured loads both inside and outside the target are included.  If no
    load is predicted to meet the target, half a user is assumed.
    """
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
