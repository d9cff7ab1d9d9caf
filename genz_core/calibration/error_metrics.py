"""Errors of predictions against measurements: the figures of every validation table.

An error is predicted / measured - 1; MAPE is the mean of its absolute value.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from genz_core.types import Array

_NAN = float("nan")


@dataclass(frozen=True, slots=True)
class ErrorSummary:
    """Errors of `points` predictions; all but the count and the rank correlation are fractions.

    mape, median, p90, worst: of the absolute error.  bias: mean signed error.  within_*: share of
    points whose absolute error is at most that.  rank: Spearman's rank correlation.
    coverage: share of points inside the interval of their prediction, NaN where none is stated.
    """

    points: int
    mape: float = _NAN
    median: float = _NAN
    p90: float = _NAN
    worst: float = _NAN
    bias: float = _NAN
    within_10: float = _NAN
    within_20: float = _NAN
    within_30: float = _NAN
    rank: float = _NAN
    coverage: float = _NAN

    def row(self) -> dict[str, float]:
        """The figures by name, for a table."""
        return asdict(self)


def error_summary(
    predicted: Array, measured: Array, low: Array | None = None, high: Array | None = None
) -> ErrorSummary:
    """Errors of predictions, [points], in the unit of the measurements.

    Pairs that are not finite, or whose measurement is not positive, are left out; if none is left,
    the summary has 0 points and NaN figures.

    Args:
        predicted, measured: [points].
        low, high: interval of each prediction, [points]; NaN if it has none.
    """
    predicted, measured = np.asarray(predicted, float), np.asarray(measured, float)
    usable = np.isfinite(predicted) & np.isfinite(measured) & (measured > 0)
    error = predicted[usable] / measured[usable] - 1.0
    if not error.size:
        return ErrorSummary(0)
    size = np.abs(error)
    return ErrorSummary(
        points=int(error.size),
        mape=float(size.mean()),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        worst=float(size.max()),
        bias=float(error.mean()),
        within_10=float((size <= 0.1).mean()),
        within_20=float((size <= 0.2).mean()),
        within_30=float((size <= 0.3).mean()),
        rank=rank_correlation(predicted[usable], measured[usable]),
        coverage=_coverage(measured, low, high, usable),
    )


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's rank correlation of two arrays [points], ties at their mean rank.

    NaN for fewer than two points, or where all values of an array are alike.
    """
    if len(first) < 2:
        return _NAN
    a, b = _ranks(first), _ranks(second)
    spread = float(a.std() * b.std())
    if spread == 0.0:
        return _NAN
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread)


def _ranks(values: Array) -> Array:
    """Rank of each value from 0, [points]; equal values share their mean rank."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[group]


def _coverage(
    measured: Array, low: Array | None, high: Array | None, usable: NDArray[np.bool_]
) -> float:
    """Share of the usable points with an interval whose measurement lies inside it."""
    if low is None or high is None:
        return _NAN
    stated = usable & np.isfinite(low) & np.isfinite(high)
    if not stated.any():
        return _NAN
    inside = (measured >= low) & (measured <= high)
    return float(inside[stated].mean())
