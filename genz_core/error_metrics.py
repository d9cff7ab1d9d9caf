"""How far predictions lie from measurements: the figures every validation table shows.

An error is predicted / measured - 1; its absolute value is what MAPE averages.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from genz_core.types import Array


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Errors of `points` predictions; all but the count and the rank correlation are fractions.

    mape, median, p90: of the absolute error.  bias: mean signed error.  within_*: share of
    points whose absolute error is at most that.  rank: Spearman's rank correlation.
    coverage: share of points inside their stated interval, NaN where none is stated.
    """

    points: int
    mape: float
    median: float
    p90: float
    bias: float
    within_10: float
    within_20: float
    within_30: float
    rank: float
    coverage: float = float("nan")

    def row(self) -> dict[str, float]:
        return asdict(self)


def accuracy(
    predicted: Array, measured: Array, low: Array | None = None, high: Array | None = None
) -> Accuracy:
    """Compare predictions with measurements, [points] each; NaN pairs are left out.

    low, high: interval of each prediction, where one is stated.
    """
    predicted, measured = np.asarray(predicted, float), np.asarray(measured, float)
    usable = np.isfinite(predicted) & np.isfinite(measured) & (measured > 0)
    error = predicted[usable] / measured[usable] - 1.0
    if not error.size:
        return Accuracy(0, *([float("nan")] * 8))
    size = np.abs(error)
    return Accuracy(
        points=int(error.size),
        mape=float(size.mean()),
        median=float(np.median(size)),
        p90=float(np.quantile(size, 0.9)),
        bias=float(error.mean()),
        within_10=float((size <= 0.1).mean()),
        within_20=float((size <= 0.2).mean()),
        within_30=float((size <= 0.3).mean()),
        rank=rank_correlation(predicted[usable], measured[usable]),
        coverage=_coverage(measured, low, high, usable),
    )


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's rank correlation, ties at their mean rank; NaN for fewer than two points."""
    if len(first) < 2:
        return float("nan")
    a, b = _ranks(first), _ranks(second)
    spread = float(a.std() * b.std())
    if spread == 0.0:
        return float("nan")
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread)


def _ranks(values: Array) -> Array:
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2.0)[group]


def _coverage(
    measured: Array, low: Array | None, high: Array | None, usable: NDArray[np.bool_]
) -> float:
    if low is None or high is None:
        return float("nan")
    stated = usable & np.isfinite(low) & np.isfinite(high)
    if not stated.any():
        return float("nan")
    inside = (measured >= low) & (measured <= high)
    return float(inside[stated].mean())
