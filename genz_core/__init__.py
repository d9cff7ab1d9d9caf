"""The engine: latency, memory and serving figures of models on systems, in NumPy alone.

deploy(model, system, engine)     combine the three into what is priced
estimate(model, system, ...)      a static batch: prefill, decode, memory
prefill(...)  decode(...)  decode_step(...)  mixed(...)     one kind of step
serve(model, system, traffic)     continuous batching at a concurrency or an arrival rate
sweep(model, system, axes)        every combination of sizes and degrees in one call
max_batch(...)  max_context(...)  the largest that fits in memory

Sizes and degrees are numbers, or arrays with one value per configuration.
"""

from typing import TYPE_CHECKING, Any

from genz_core.capacity.memory import max_batch, max_context
from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph, Model, Op
from genz_core.phases import decode, decode_step, mixed, prefill
from genz_core.search import sweep
from genz_core.serving import ServingEstimate, Traffic
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
from genz_core.types import Group, Parallelism, Precision, Step, Workload
from genz_core.workload import Estimate, estimate

if TYPE_CHECKING:
    from genz_core.serving import serve

__all__ = [
    "EngineProfile",
    "Estimate",
    "Graph",
    "Group",
    "Model",
    "Op",
    "Parallelism",
    "Precision",
    "ServingEstimate",
    "Step",
    "StepEstimate",
    "System",
    "Traffic",
    "Workload",
    "decode",
    "decode_step",
    "deploy",
    "estimate",
    "max_batch",
    "max_context",
    "mixed",
    "prefill",
    "serve",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """`serve` is imported on first use: a static batch needs none of it."""
    if name == "serve":
        from genz_core import serving

        return serving.serve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
