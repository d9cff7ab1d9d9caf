"""The planner of NVIDIA Dynamo: scaling by predicted throughput under targets ("sla"), mode "agg".

Source: docs.nvidia.com/dynamo, "Planner Design" and "PlannerConfig" (read 2026-11-25), and
components/src/dynamo/planner/core/throughput_scaling.py, `_throughput_agg`: every 180 s
(throughput_adjustment_interval_seconds) it predicts the requests of the next interval and their
lengths from the past ones; replicas = max(ceil(rate / rate of a replica within the targets),
min_endpoint), within a budget of devices.  Predictors: "constant", and "kalman" (a local linear
trend, q_level 1, q_trend 0.1, r 10, after 5 points), of load_predictor.py.  Its "arima", the
default, and "prophet" are fits of libraries that are not used here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from genz_core.serving.simulation.scaling.policy import Observed

_Q_LEVEL, _Q_TREND, _R, _LEAST_POINTS, _UNKNOWN = 1.0, 0.1, 10.0, 5, 1000.0


class Predictor(Protocol):
    """Predicts the next value of a series from its previous values."""

    def next(self, value: float) -> float:
        """Add a value; returns the predicted next one, at least 0."""
        ...


class Last:
    """The next value equals the last one ("constant")."""

    def next(self, value: float) -> float:
        return value


class Kalman:
    """A local linear trend: level' = level + trend, trend' = trend, both with noise."""

    def __init__(self) -> None:
        self._level = self._trend = 0.0
        self._points = 0
        # variance of the level, covariance, variance of the trend
        self._p = [_UNKNOWN, 0.0, _UNKNOWN]

    def next(self, value: float) -> float:
        p00, p01, p11 = self._p
        level = self._level + self._trend
        p00, p01, p11 = p00 + 2.0 * p01 + p11 + _Q_LEVEL, p01 + p11, p11 + _Q_TREND
        gain0, gain1 = p00 / (p00 + _R), p01 / (p00 + _R)
        miss = value - level
        self._level, self._trend = level + gain0 * miss, self._trend + gain1 * miss
        self._p = [(1.0 - gain0) * p00, (1.0 - gain0) * p01, p11 - gain1 * p01]
        self._points += 1
        if self._points < _LEAST_POINTS:
            return value
        return max(self._level + self._trend, 0.0)


@dataclass(slots=True)
class DynamoPlanner:
    """Dynamo's planner, see the module docstring.

    capacity: requests/s of a replica within the targets, by mean prompt and answer tokens.
    predictor: makes one predictor for each of the three series.
    """

    capacity: Callable[[float, float], float]
    least: int = 1
    most: int = 100
    predictor: Callable[[], Predictor] = Last
    interval_s: float = 180.0
    _requests: Predictor = field(init=False)
    _isl: Predictor = field(init=False)
    _osl: Predictor = field(init=False)
    _lengths: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._requests, self._isl, self._osl = (self.predictor() for _ in range(3))

    def wanted(self, seen: Observed) -> int:
        if not seen.seconds:
            return seen.replicas
        requests = self._requests.next(seen.arrived)
        if seen.arrived:
            self._lengths = (self._isl.next(seen.isl), self._osl.next(seen.osl))
        if self._lengths is None:
            return max(self.least, 1)
        isl, osl = self._lengths
        rate = self.capacity(max(isl, 1.0), max(osl, 1.0))
        replicas = math.ceil(requests / seen.seconds / rate) if rate > 0.0 else seen.replicas
        return min(max(replicas, self.least, 1), self.most)
