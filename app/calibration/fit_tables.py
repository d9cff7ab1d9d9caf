"""What a calibration changed, laid out: errors before and after, constants with their doubt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from app.calibration import machine
from app.calibration.machine import ThisMachine
from genz_core.latency.measured_operators import OperatorPoints, price_s
from genz_core.latency.parameters import describe
from genz_core.latency.profile import LatencyProfile
from genz_core.operator_calibration import Calibration
from genz_core.types import System
from profilers.collect.progress import Cancel, Progress, never, silent


class Fitted(Protocol):
    """A calibrated system, whatever it was fitted on: microbenchmarks or reports."""

    @property
    def system(self) -> System: ...
    @property
    def prior(self) -> LatencyProfile: ...
    @property
    def calibration(self) -> Calibration: ...
    @property
    def points(self) -> Sequence[OperatorPoints]: ...


def fit_this_machine(
    asked: Mapping[str, Any], progress: Progress = silent, cancelled: Cancel = never
) -> ThisMachine:
    """Measure and fit, as a job of a page; `asked` holds device and threads."""
    return machine.calibrate(asked["device"], asked["threads"], progress, cancelled)


def errors(found: Fitted) -> list[dict[str, Any]]:
    """A row an operator and format: points, mean error before and after, 90th percentile after."""
    result = found.calibration
    return [
        {
            "operator": key,
            "points": after.points,
            "before": result.before[key].mape,
            "after": after.mape,
            "p90": after.p90,
        }
        for key, after in result.after.items()
    ]


def constants(found: Fitted) -> list[dict[str, Any]]:
    """A row a fitted constant: before, after, and the relative deviation that is left of it."""
    rows = []
    for key, deviations in found.calibration.uncertainty.items():
        operator, fmt = key.split(".", 1)
        before = found.prior.constants(operator, fmt)
        after = found.calibration.profile.constants(operator, fmt)
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


def points(found: Fitted) -> list[dict[str, Any]]:
    """A row a point and state (before, after the fit): predicted and measured seconds."""
    states = {"before": found.prior, "after": found.calibration.profile}
    return [row for state, profile in states.items() for row in _priced(found, state, profile)]


def _priced(found: Fitted, state: str, profile: LatencyProfile) -> list[dict[str, Any]]:
    rows = []
    for entry in found.points:
        key = f"{entry.operator}.{entry.fmt}"
        predicted = price_s(entry, found.system, profile.constants(entry.operator, entry.fmt))
        shapes = [f"{name}={{}}" for name in entry.dims]
        sizes = zip(*entry.arrays().values(), strict=True)
        for shape, p, m in zip(sizes, predicted, entry.measured_s, strict=True):
            told = " ".join(shapes).format(*(f"{size:g}" for size in shape))
            rows.append(
                {
                    "state": state, "operator": key, "label": f"{key} {told}",
                    "predicted_s": float(p), "measured_s": float(m),
                }
            )  # fmt: skip
    return rows
