"""Intervals at other levels than the 80 % of held-out points.

Assumption: measured over predicted is lognormal between and beyond the two known deciles, as in
`app.planning.probability`.  The points themselves have heavier tails, so a level of 99 % or more is
a rule of thumb, not a counted coverage.
"""

from statistics import NormalDist

import numpy as np

from genz_core.errors import InvalidValue
from hardware_db.intervals import LEVEL, Interval

LEAST, MOST = 0.5, 0.999


def checked_level(percent: float) -> float:
    """A level in percent as a share, 95 -> 0.95.

    Raises:
        InvalidValue: below 50 or above 99.9.
    """
    if not LEAST * 100.0 <= percent <= MOST * 100.0:
        raise InvalidValue(f"level = {percent:g}: give percent from {LEAST:.0%} to {MOST:.1%}")
    return percent / 100.0


def at_level(interval: Interval | None, level: float) -> Interval | None:
    """An 80 % interval scaled to another level by the normal quantile of its logarithm.

    level: share of runs inside, such as 0.95.
    """
    if interval is None or level == LEVEL:
        return interval
    low, high = np.log(interval.low), np.log(interval.high)
    centre, half = (low + high) / 2.0, (high - low) / 2.0
    half *= quantile(level) / quantile(LEVEL)
    return Interval(np.exp(centre - half), np.exp(centre + half), interval.points)


def quantile(level: float) -> float:
    """Standard deviations from the middle to either end of a normal interval at a level."""
    return NormalDist().inv_cdf((1.0 + level) / 2.0)
