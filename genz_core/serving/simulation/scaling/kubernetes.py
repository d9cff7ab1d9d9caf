"""Kubernetes' HorizontalPodAutoscaler, autoscaling/v2, with its defaults.

Source: kubernetes.io, "Horizontal Pod Autoscaling", sections "Algorithm details" and "Configurable
scaling behavior", https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/ (read
2026-11-25): every 15 s, ceil(replicas x metric / target), nothing within a tolerance of 10 %;
replicas without metrics count as 0 on the way up and as the target on the way down; up by 4
replicas or by doubling in 15 s, whichever is more; down to the largest number of the last 300 s.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from genz_core.serving.simulation.scaling.policy import Metric, Observed

#: Replicas, or share of the present ones, that may be added per period, whichever is more.
_MOST_ADDED, _MOST_SHARE = 4, 1.0
_ROUNDING = 1e-9


@dataclass(slots=True)
class Hpa:
    """Kubernetes' HorizontalPodAutoscaler, see the module docstring.

    target: of the metric per replica.  least, most: replicas.  metric: a mean over the replicas;
    requests that no replica has taken belong to no pod and are not seen.
    """

    target: float
    least: int = 1
    most: int = 100
    metric: Metric = "open"
    tolerance: float = 0.1
    stabilization_s: float = 300.0
    interval_s: float = 15.0
    _advice: deque[tuple[float, int]] = field(default_factory=deque)

    def wanted(self, seen: Observed) -> int:
        return self.stable(seen, self._advised(seen, seen.of_replicas(self.metric)))

    def _advised(self, seen: Observed, total: float) -> int:
        """ceil(replicas x metric / target), ignoring replicas without a metric."""
        if not seen.ready:
            return seen.replicas
        ratio = total / (seen.ready * self.target)
        without = seen.replicas - seen.ready
        if not without:
            return self.scaled(seen, ratio)
        if ratio < 1.0:
            total += without * self.target
        again = total / (seen.replicas * self.target)
        if (ratio < 1.0) != (again < 1.0):
            return seen.replicas
        return self.scaled(seen, again)

    def scaled(self, seen: Observed, ratio: float) -> int:
        """The present replicas times a ratio, unchanged within the tolerance."""
        if abs(ratio - 1.0) <= self.tolerance:
            return seen.replicas
        return math.ceil(ratio * seen.replicas - _ROUNDING)

    def stable(self, seen: Observed, advised: int) -> int:
        """The recommendation limited by the configured behaviour: no lower than any in the window,
        and upwards no faster than the rate allows.
        """
        if not self._advice:
            self._advice.append((seen.now_s, seen.replicas))
        limited = min(max(advised, self.least), self.most)
        self._advice.append((seen.now_s, limited))
        while self._advice[0][0] < seen.now_s - self.stabilization_s:
            self._advice.popleft()
        if limited < seen.replicas:
            return min(max(number for _, number in self._advice), seen.replicas)
        fastest = seen.replicas + max(_MOST_ADDED, math.ceil(_MOST_SHARE * seen.replicas))
        return max(min(limited, fastest), self.least)
