"""Safe or risky: two choices, where the better one is less likely to meet the targets, and a run
that tells.

A measurement of the risky choice shows whether it meets the targets.  It is worth most where the
call is close: the probability that it does, times what it then saves.
"""

from dataclasses import dataclass

import numpy as np

from app.planning import measurement
from app.planning.measurement import Measurement
from app.planning.search import Found
from app.planning.shortlist import Plan, Shortlist
from app.wording import quantities

# Both are judgements: the relative difference of expected figures within which a call is close, and
# the probability above which there is nothing to settle.
_CLOSE, _SURE = 0.5, 0.95


@dataclass(frozen=True, slots=True)
class Settling:
    """The run that would settle a close call.

    at: candidate to measure.  chance: probability that it meets the targets.  wins: relative
    advantage of its figure over that of the safe choice.  run: how to measure it.  words: why.
    """

    at: int
    chance: float
    wins: float
    run: Measurement
    words: str


def pair(short: Shortlist) -> tuple[Plan, Plan] | None:
    """(risky, safe): the gamble and the best plan, or the best plan and the safe choice."""
    if short.plans and short.gamble:
        return short.gamble, short.plans[0]
    return (short.plans[0], short.safe) if short.plans and short.safe else None


def settling(found: Found, short: Shortlist) -> Settling | None:
    """The run that settles whether to take the risk; None without two choices, or without a close
    call.
    """
    both = pair(short)
    if both is None or not both[0].probability < _SURE or _apart(found, short, *both) > _CLOSE:
        return None
    daring, wins = both[0], better_by(found, short, *both)
    family, row = short.candidates.of(daring.at), short.candidates.row(daring.at)
    run = measurement.next_measurement(family, row, found.targets, several=False)
    words = (
        f"one closed loop at its planned load on {measurement.place(family, row)} of the riskier "
        f"plan: it meets the targets with a chance of "
        f"{quantities.chance(daring.probability)}, "
        f"and its {found.ranking.by.words} is {quantities.percent(wins)} better"
    )
    return Settling(daring.at, daring.probability, wins, run, words)


def better_by(found: Found, short: Shortlist, one: Plan, other: Plan) -> float:
    """Relative advantage of one plan over another in the ranked figure."""
    figure = found.ranking.by
    first, second = (float(short.candidates.columns[figure.column][p.at]) for p in (one, other))
    return 1.0 - first / second if figure.smaller else first / second - 1.0


def _apart(found: Found, short: Shortlist, one: Plan, other: Plan) -> float:
    """Relative difference of two plans in the expected figure."""
    chances = np.full(len(short.candidates), np.nan)
    for plan in (one, other):
        chances[plan.at] = plan.probability
    worth = np.abs(found.ranking.worth(short.candidates, chances))
    both = worth[[one.at, other.at]]
    return float(both.max() / both.min() - 1.0)
