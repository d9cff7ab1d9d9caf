"""Autoscalers as documented: how many replicas a deployment should have, from what they observe.

One file per autoscaler; `policy.py` has the common interface and the observed quantities.
"""

from genz_core.serving.simulation.scaling.dynamo import DynamoPlanner, Kalman, Last
from genz_core.serving.simulation.scaling.keda import Keda
from genz_core.serving.simulation.scaling.kubernetes import Hpa
from genz_core.serving.simulation.scaling.policy import METRICS, Fixed, Observed, Policy

__all__ = [
    "METRICS", "DynamoPlanner", "Fixed", "Hpa", "Kalman", "Keda", "Last", "Observed", "Policy",
]  # fmt: skip
