"""Agreement of predictions with measurements: errors, R², and a regression line."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from genz_core.calibration.error_metrics import error_summary
from genz_core.types import Array


@dataclass(frozen=True, slots=True)
class Agreement:
    """Errors, coefficients of determination and fitted line of `points` predictions.

    mape, median, worst: of |predicted / measured - 1|.  bias: mean of its signed value.
    r2: coefficient of determination of the predictions themselves, 1 - sum (m - p)^2 /
    sum (m - mean m)^2.  slope, intercept_s: of the least-squares line measured = slope predicted +
    intercept; r2_line: coefficient of determination of that line.
    NaN where there are too few points.
    """

    points: int
    mape: float
    median: float
    worst: float
    bias: float
    r2: float
    slope: float
    intercept_s: float
    r2_line: float

    def row(self) -> dict[str, float]:
        return asdict(self)


def agreement(predicted_s: Array, measured_s: Array) -> Agreement:
    """Compare times [s], [points] each; pairs that are not finite and positive are left out."""
    p, m = np.asarray(predicted_s, float), np.asarray(measured_s, float)
    usable = np.isfinite(p) & np.isfinite(m) & (p > 0) & (m > 0)
    p, m = p[usable], m[usable]
    if not m.size:
        return Agreement(0, *([float("nan")] * 8))
    errors = error_summary(p, m)
    slope, intercept = _line(p, m)
    return Agreement(
        points=int(m.size),
        mape=errors.mape,
        median=errors.median,
        worst=errors.worst,
        bias=errors.bias,
        r2=_determination(m, p),
        slope=slope,
        intercept_s=intercept,
        r2_line=_determination(m, slope * p + intercept),
    )


def _line(x: Array, y: Array) -> tuple[float, float]:
    """Least squares of y = slope x + intercept; NaN where all x are alike."""
    spread = float(((x - x.mean()) ** 2).sum())
    if spread <= 1e-12 * float((x**2).sum()):
        return float("nan"), float("nan")
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread
    return slope, float(y.mean() - slope * x.mean())


def _determination(measured: Array, predicted: Array) -> float:
    """Coefficient of determination; NaN where all measurements are alike."""
    total = float(((measured - measured.mean()) ** 2).sum())
    if total <= 0.0:
        return float("nan")
    return 1.0 - float(((measured - predicted) ** 2).sum()) / total
