"""How many replicas a deployment wants by what it sees: autoscalers as they are documented.

One file an autoscaler; `policy.py` is what each has, and what it may look at.
"""

from genz_core.serving.simulation.scaling.dynamo import DynamoPlanner, Kalman, Last
from genz_core.serving.simulation.scaling.keda import Keda
from genz_core.serving.simulation.scaling.kubernetes import Hpa
from genz_core.serving.simulation.scaling.policy import METRICS, Fixed, Observed, Policy

__all__ = [
    "METRICS", "DynamoPlanner", "Fixed", "Hpa", "Kalman", "Keda", "Last", "Observed", "Policy",
]  # fmt: skip
