"""The requested autoscaler."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from app.scaling.capacity import Capacity
from genz_core.errors import InvalidValue
from genz_core.serving.simulation.scaling import DynamoPlanner, Hpa, Kalman, Keda, Last, Policy

#: Source of each autoscaler's documented behaviour; see `genz_core.serving.simulation.scaling`.
SOURCES: Mapping[str, str] = {
    "hpa": "kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale",
    "keda": "keda.sh/docs/latest/reference/scaledobject-spec",
    "dynamo": "docs.nvidia.com/dynamo, Planner Design (throughput-based, mode agg)",
}
NAMES: Mapping[str, str] = {
    "hpa": "Kubernetes HPA", "keda": "KEDA", "dynamo": "Dynamo planner",
}  # fmt: skip
_INTERVALS: Mapping[str, float] = {"hpa": 15.0, "keda": 15.0, "dynamo": 180.0}
#: Options that only some autoscalers use.
_ONLY: Mapping[str, tuple[str, ...]] = {
    "metric": ("hpa", "keda"), "metric_target": ("hpa", "keda"),
    "stabilization_s": ("hpa", "keda"), "tolerance": ("hpa", "keda"), "cooldown_s": ("keda",),
    "predictor": ("dynamo",),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scaling:
    """How replicas follow the load: the options of the verb "scale", see `app.question.extras`."""

    policy: str = "hpa"
    metric: str = "open"
    metric_target: float = 0.0
    min_replicas: int = 1
    max_replicas: int = 100
    interval_s: float = 0.0
    stabilization_s: float = 300.0
    tolerance: float = 10.0
    cooldown_s: float = 300.0
    predictor: str = "constant"

    def check(self) -> None:
        """Refuse invalid values and options that the autoscaler does not use.

        Raises:
            InvalidValue: names the option and the remedy.
        """
        if self.min_replicas > self.max_replicas:
            raise InvalidValue(
                f"min_replicas = {self.min_replicas} is more than max_replicas = "
                f"{self.max_replicas}: give a lower min_replicas"
            )
        if not self.min_replicas and self.policy != "keda":
            raise InvalidValue(
                f"min_replicas = 0: {NAMES[self.policy]} needs at least one; choose keda"
            )
        for name, known in _ONLY.items():
            if self.policy not in known and getattr(self, name) != getattr(_PLAIN, name):
                raise InvalidValue(
                    f"{name} does not apply to {NAMES[self.policy]}: leave it out, or choose "
                    f"{' or '.join(known)}"
                )
        if self.metric != "open" and not self.metric_target:
            raise InvalidValue(f"metric = {self.metric}: give its metric_target per replica")

    def target(self, capacity: Capacity) -> float:
        """The metric's target: the given one, or the open requests per replica within the
        targets.
        """
        return self.metric_target or float(capacity.mean.open)

    def made(self, capacity: Capacity) -> Policy:
        """The autoscaler in its initial state."""
        every = self.interval_s or _INTERVALS[self.policy]
        least, most = self.min_replicas, self.max_replicas
        if self.policy == "dynamo":
            kind = Kalman if self.predictor == "kalman" else Last
            return DynamoPlanner(capacity.requests_per_s, least, most, kind, every)
        target, tolerance = self.target(capacity), self.tolerance / 100.0
        metric: Any = cast(Any, self.metric)
        if self.policy == "hpa":
            return Hpa(target, least, most, metric, tolerance, self.stabilization_s, every)
        return Keda(
            target, least, most, metric, tolerance, self.stabilization_s, self.cooldown_s,
            interval_s=every,
        )  # fmt: skip


_PLAIN = Scaling()
