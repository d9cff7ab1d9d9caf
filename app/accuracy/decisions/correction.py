"""How much less often chosen plans meet their target than the prediction says."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.accuracy.decisions.choices import Choice

_NORMAL = statistics.NormalDist()
#: Replaces probabilities of 0 and 1, whose normal deviates are infinite: judgement.
_NEVER = 1e-6
#: Bounds and steps of the search grid: judgement.
_SLOPES = [at / 20.0 for at in range(4, 21)]
_SHIFTS = [-at / 20.0 for at in range(21)]
_ODD_SHARES = [at / 200.0 for at in range(21)]


@dataclass(frozen=True, slots=True)
class Correction:
    """Correction of the probability that a chosen plan meets its targets.

    The normal deviate z of the probability becomes slope z + shift, and a share of the choices
    misses whatever its probability: their runs had other settings than stated.  Choosing the best
    of many optimistic errors makes the shift negative; intervals that are too narrow make the slope
    smaller.

    choices: number of choices fitted.  odd_share: of those that miss whatever their probability.
    """

    slope: float = 1.0
    shift: float = 0.0
    choices: int = 0
    odd_share: float = 0.0

    def of(self, probability: Any) -> Any:
        """The corrected probability, never above the predicted one; NaN stays NaN."""
        said = np.asarray(probability, dtype=float)
        inner = np.clip(np.nan_to_num(said, nan=0.5), _NEVER, 1.0 - _NEVER)
        deviate = np.vectorize(_NORMAL.inv_cdf, otypes=[float])(inner)
        met = np.vectorize(_NORMAL.cdf, otypes=[float])(self.slope * deviate + self.shift)
        kept = np.where((said > 0.0) & ~np.isnan(said), np.minimum(met, said), said)
        kept *= 1.0 - self.odd_share
        return kept if np.ndim(probability) else float(kept)


def correction(made: Sequence[Choice]) -> Correction:
    """The maximum-likelihood correction for a set of choices and their outcomes.

    The slope is between 0 and 1, the shift at most 0 and the odd share at least 0, so that no
    choice becomes more certain.
    """
    known = [one for one in made if not one.none]
    said = np.array([one.said for one in known])
    met = np.array([one.met for one in known])
    bent = [Correction(slope, shift, len(known)) for slope in _SLOPES for shift in _SHIFTS]
    found = {
        replace(one, odd_share=odd): _likelihood((1.0 - odd) * shares, met)
        for one, shares in ((one, one.of(said)) for one in bent)
        for odd in _ODD_SHARES
    }
    return max(found, key=lambda one: found[one])


def _likelihood(said: Any, met: Any) -> float:
    sure = np.clip(said, _NEVER, 1.0 - _NEVER)
    return float(np.sum(np.log(np.where(met, sure, 1.0 - sure))))
