"""The engine: pure NumPy, no files, no hardware names, no charts.

estimate(model, system, workload, parallelism, engine)   the whole workload
prefill(...)  decode(...)  decode_step(...)  mixed(...)  one kind of step
"""

from genz_core.engine import EngineProfile
from genz_core.memory import max_batch, max_context
from genz_core.types import Parallelism, Precision, Step, System, Workload
from genz_core.workload import Estimate, decode, decode_step, estimate, mixed, prefill

__all__ = [
    "EngineProfile",
    "Estimate",
    "Parallelism",
    "Precision",
    "Step",
    "System",
    "Workload",
    "decode",
    "decode_step",
    "estimate",
    "max_batch",
    "max_context",
    "mixed",
    "prefill",
]
