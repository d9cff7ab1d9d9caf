"""How much less often chosen plans meet their target than the prediction says."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.accuracy.decisions.choices import Choice

_NORMAL = statistics.NormalDist()
#: In place of probabilities of 0 and 1, whose deviates are infinite: judgement.
_NEVER = 1e-6
#: Tried, ends and steps: judgement.
_SLOPES = [at / 20.0 for at in range(4, 21)]
_SHIFTS = [-at / 20.0 for at in range(21)]


@dataclass(frozen=True, slots=True)
class Correction:
    """Of the probability that a chosen plan meets its targets, in standard deviations.

    The normal deviate z of a probability becomes slope z + shift: errors that the choice picked in
    its favour shift it down, runs that are far off flatten it.  choices: behind it.
    """

    slope: float = 1.0
    shift: float = 0.0
    choices: int = 0

    def of(self, probability: Any) -> Any:
        """A probability as it is met, at most as it was said; NaN stays."""
        said = np.asarray(probability, dtype=float)
        inner = np.clip(np.nan_to_num(said, nan=0.5), _NEVER, 1.0 - _NEVER)
        deviate = np.vectorize(_NORMAL.inv_cdf, otypes=[float])(inner)
        met = np.vectorize(_NORMAL.cdf, otypes=[float])(self.slope * deviate + self.shift)
        kept = np.where((said > 0.0) & ~np.isnan(said), np.minimum(met, said), said)
        return kept if np.ndim(probability) else float(kept)


def correction(made: Sequence[Choice]) -> Correction:
    """The correction under which what was met of some choices is most likely.

    The slope is between 0 and 1, the shift not above 0: no choice makes a target surer.
    """
    known = [one for one in made if not one.none]
    said = np.array([one.said for one in known])
    met = np.array([one.met for one in known])
    found = [Correction(slope, shift, len(known)) for slope in _SLOPES for shift in _SHIFTS]
    return max(found, key=lambda one: _likelihood(one.of(said), met))


def _likelihood(said: Any, met: Any) -> float:
    sure = np.clip(said, _NEVER, 1.0 - _NEVER)
    return float(np.sum(np.log(np.where(met, sure, 1.0 - sure))))
