"""KEDA: an HPA on a metric of the whole deployment, with KEDA's own step between 0 and 1.

Source: keda.sh, "ScaledObject specification",
https://keda.sh/docs/latest/reference/scaledobject-spec/
and "Scaling Deployments" (read 2026-11-25): the trigger is polled every 30 s (pollingInterval);
from 0 it scales as soon as the trigger is active, and back to 0 after 300 s without activity
(cooldownPeriod); from 1 on the HPA scales on the trigger's value divided by the replicas
(AverageValue); at least 0 and at most 100 replicas.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from genz_core.errors import InvalidValue
from genz_core.serving.simulation.scaling.kubernetes import Hpa
from genz_core.serving.simulation.scaling.policy import Metric, Observed


@dataclass(slots=True)
class Keda:
    """KEDA, see the module docstring.

    threshold: of the metric per replica.  polling_s: interval of looks while at zero.  The metric
    covers the whole deployment, including requests that no replica has taken.

    Raises:
        InvalidValue: it would scale to zero and never start again.
    """

    threshold: float
    least: int = 0
    most: int = 100
    metric: Metric = "open"
    tolerance: float = 0.1
    stabilization_s: float = 300.0
    cooldown_s: float = 300.0
    polling_s: float = 30.0
    interval_s: float = 15.0
    _hpa: Hpa = field(init=False)
    _polled_s: float = -math.inf
    _active_s: float = 0.0
    _active: bool = False

    def __post_init__(self) -> None:
        if not self.least and self.metric == "kv_use":
            raise InvalidValue(
                "metric = kv_use with min_replicas 0: with zero replicas there is no cache use "
                "that could trigger a start; choose open or waiting, or keep one replica"
            )
        self._hpa = Hpa(
            self.threshold, max(self.least, 1), self.most, self.metric, self.tolerance,
            self.stabilization_s, self.interval_s,
        )  # fmt: skip

    def wanted(self, seen: Observed) -> int:
        total = seen.total(self.metric)
        if seen.now_s - self._polled_s >= self.polling_s:
            self._polled_s = seen.now_s
            self._active = total > 0.0
            self._active_s = seen.now_s if self._active else self._active_s
        if not seen.replicas:
            return max(self.least, 1) if self._active else self.least
        if not self.least and seen.now_s - self._active_s >= self.cooldown_s:
            return 0
        ratio = total / (self.threshold * seen.replicas)
        return self._hpa.stable(seen, self._hpa.scaled(seen, ratio))
