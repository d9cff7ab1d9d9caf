"""Relative spread of repeated timings, used as the noise figure of measurements and validations."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def relative_spread(samples: Sequence[float]) -> float:
    """Half the range of the middle 80 % of the samples, over their median; NaN for fewer than two.

    samples: repeats of one timing, in any unit.
    """
    if len(samples) < 2:
        return float("nan")
    ordered = sorted(samples)
    cut = len(ordered) // 10
    return (ordered[-1 - cut] - ordered[cut]) / (2.0 * statistics.median(ordered))
