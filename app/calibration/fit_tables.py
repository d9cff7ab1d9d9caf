"""Tables of a calibration: errors before and after, constants with uncertainty, points."""

import math
from collections.abc import Sequence
from typing import Any, Protocol

from genz_core.calibration.operator_calibration import Calibration
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.parameters import describe
from genz_core.latency.profile import LatencyProfile
from genz_core.systems import System


class CalibratedSystem(Protocol):
    """A system whose latency profile was fitted, on microbenchmarks or on reports.

    prior: the profile before the fit.  points: the data of the fit.
    """

    @property
    def system(self) -> System: ...
    @property
    def prior(self) -> LatencyProfile: ...
    @property
    def calibration(self) -> Calibration: ...
    @property
    def points(self) -> Sequence[OperatorPoints]: ...


def error_rows(calibration: Calibration) -> list[dict[str, Any]]:
    """Errors of a fit on its own points, by operator and format, before it and after it.

    Columns: operator, points, mape_before, mape_after, p90_after (shares of the measured time).
    """
    return [
        {
            "operator": key,
            "points": after.points,
            "mape_before": calibration.before[key].mape,
            "mape_after": after.mape,
            "p90_after": after.p90,
        }
        for key, after in calibration.after.items()
    ]


def constant_rows(fitted: CalibratedSystem) -> list[dict[str, Any]]:
    """Fitted constants: before, after, and the remaining relative standard deviation."""
    rows = []
    for key, deviations in fitted.calibration.uncertainty.items():
        operator, fmt = key.split(".", 1)
        before = fitted.prior.constants(operator, fmt)
        after = fitted.calibration.profile.constants(operator, fmt)
        for constant in describe(type(after)):
            rows.append(
                {
                    "operator": key,
                    "constant": constant.name,
                    "unit": constant.unit,
                    "before": getattr(before, constant.name),
                    "after": getattr(after, constant.name),
                    "uncertainty": math.expm1(deviations[constant.name]),
                    "meaning": constant.meaning,
                }
            )
    return rows


def point_rows(fitted: CalibratedSystem) -> list[dict[str, Any]]:
    """Predicted and measured seconds, one row per point and state ("before" or "after" the fit)."""
    states = {"before": fitted.prior, "after": fitted.calibration.profile}
    return [row for state, profile in states.items() for row in _priced(fitted, state, profile)]


def _priced(fitted: CalibratedSystem, state: str, profile: LatencyProfile) -> list[dict[str, Any]]:
    rows = []
    for entry in fitted.points:
        key = f"{entry.operator}.{entry.fmt}"
        predicted = price_s(entry, fitted.system, profile.constants(entry.operator, entry.fmt))
        shapes = [f"{name}={{}}" for name in entry.dims]
        sizes = zip(*entry.arrays().values(), strict=True)
        for shape, p, m in zip(sizes, predicted, entry.measured_s, strict=True):
            sizes_text = " ".join(shapes).format(*(f"{size:g}" for size in shape))
            rows.append(
                {
                    "state": state, "operator": key, "label": f"{key} {sizes_text}",
                    "predicted_s": float(p), "measured_s": float(m),
                }
            )  # fmt: skip
    return rows
