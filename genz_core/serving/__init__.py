"""Continuous batching in closed form: TTFT and TPOT at a concurrency or an arrival rate.

`traffic` defines the load and the figures, `queueing` the equations, and `closed_form` computes how
many sequences run in a closed or an open loop.
"""

from genz_core.engine import Recipe
from genz_core.serving.closed_form import run_sizes, serve
from genz_core.serving.kv_capacity import sequences_that_fit
from genz_core.serving.traffic import Novelty, ServingEstimate, Traffic

__all__ = [
    "Novelty",
    "Recipe",
    "ServingEstimate",
    "Traffic",
    "run_sizes",
    "sequences_that_fit",
    "serve",
]
