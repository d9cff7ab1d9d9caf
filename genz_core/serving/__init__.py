"""Continuous batching in closed form: TTFT and TPOT at a concurrency or an arrival rate.

`traffic` defines the load and the figures, `queueing` the equations, and `closed_form` computes how
many sequences run in a closed or an open loop.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from genz_core.engine import Recipe
from genz_core.serving.traffic import Novelty, ServingEstimate, Traffic

if TYPE_CHECKING:
    from genz_core.serving.closed_form import run_sizes, serve
    from genz_core.serving.kv_capacity import sequences_that_fit

__all__ = [
    "Novelty",
    "Recipe",
    "ServingEstimate",
    "Traffic",
    "run_sizes",
    "sequences_that_fit",
    "serve",
]


def __getattr__(name: str) -> Any:
    """What computes is imported on first use: a static batch needs none of it."""
    if name in ("run_sizes", "serve"):
        return getattr(import_module(f"{__name__}.closed_form"), name)
    if name == "sequences_that_fit":
        return import_module(f"{__name__}.kv_capacity").sequences_that_fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
