"""Sensitivity of a figure to a resource: elasticities, and the factor that meets a target."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.types import Array, Num

#: Relative precision of `least_factor`.
_PRECISION = 0.01


def elasticity(less: Num, more: Num, factor: float) -> Array:
    """d ln(figure) / d ln(resource) between a resource divided and multiplied by a factor.

    -1 for a time that this resource alone limits, 0 for one that it does not touch.  The
    elasticities of a time that depends only on speeds sum to -1 over all of them (Euler's theorem
    on homogeneous functions).

    Args:
        less, more: the figure with 1 / factor and with factor times the resource.
        factor: above 1.

    Raises:
        InvalidValue: a factor that is not above 1.
    """
    if not (math.isfinite(factor) and factor > 1.0):
        raise InvalidValue(f"factor = {factor:g}: give a number above 1")
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.asarray(more, dtype=float) / np.asarray(less, dtype=float)
        return np.asarray(np.log(ratio) / (2.0 * math.log(factor)))


def least_factor(meets: Callable[[float], bool], most: float) -> float | None:
    """The smallest factor on a resource at which a condition is met; None if even `most` fails.

    meets: whether a factor meets the condition.  If a larger factor may fail where a smaller one
    meets it, the answer meets it but need not be the smallest.  The search starts at 1 / most,
    which is returned if it already meets the condition; the answer is exact to `_PRECISION`.

    Raises:
        InvalidValue: most is not above 1.
    """
    if not most > 1.0:
        raise InvalidValue(f"most = {most:g}: give a factor above 1")
    low, high = 1.0 / most, most
    if not meets(high):
        return None
    if meets(low):
        return low
    while high / low > 1.0 + _PRECISION:
        middle = math.sqrt(low * high)
        if meets(middle):
            high = middle
        else:
            low = middle
    return high


def crossing(at: Array, below: Array, above: Array) -> float | None:
    """The place where a curve overtakes another, by log-linear interpolation; None if it never
    does.

    Args:
        at: places, rising and above 0, [points].  below: the curve that starts lower, above: the
            one that it overtakes, both above 0, [points].
    """
    with np.errstate(divide="ignore"):
        gap = np.log(below) - np.log(above)
    over = np.flatnonzero(gap >= 0.0)
    if not over.size:
        return None
    first = int(over[0])
    if first == 0:
        return float(at[0])
    share = -gap[first - 1] / (gap[first] - gap[first - 1])
    return float(at[first - 1] * (at[first] / at[first - 1]) ** share)
