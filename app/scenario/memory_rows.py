"""The content of each memory of a device, and the time that a decode step reads it, as
table rows; all for the first configuration of an estimate.
"""

from typing import Any

import numpy as np

from genz_core import Estimate
from genz_core.steps.step_estimate import StepEstimate


def memory_rows(estimate: Estimate) -> list[dict[str, Any]]:
    """A row each for the first and the second memory; empty without a second memory in use.

    bytes: capacity.  weights_bytes, cache_bytes: held at the end.  read_bytes, read_s: traffic of
    the mean decode step there, and its least time.
    """
    memory, moved, system = estimate.memory, estimate.offload, estimate.system
    level = memory.second
    if level is None or moved is None or moved.cache_bytes is None:
        return []
    far_cache = float(moved.cache_bytes[0])
    far_weights = float(moved.host_bytes[0]) - far_cache
    far = _far_bytes(estimate.decode)
    total = float(estimate.decode.bytes[:, 0] @ estimate.decode.runs)
    rows = (
        ("first", memory.capacity_bytes, system.memory_bytes_per_s,
         float(memory.weights_bytes[0]) - far_weights,
         float(memory.kv_bytes[0]) - far_cache, total - far),
        (level.name, level.bytes, level.bytes_per_s, far_weights, far_cache, far),
    )  # fmt: skip
    names = ("memory", "bytes", "bytes_per_s", "weights_bytes", "cache_bytes", "read_bytes")
    return [dict(zip(names, row, strict=True)) | {"read_s": row[-1] / row[2]} for row in rows]


def _far_bytes(step: StepEstimate) -> float:
    """Traffic of a step with the second memory [bytes]."""
    weights = np.ones(1) if step.node_weights is None else step.node_weights[:, 0]
    far = 0.0
    for row, runs in enumerate(step.runs):
        each = np.broadcast_to(np.asarray(step.op(row).far_bytes, float), weights.shape)
        far += float(each @ weights) * float(runs)
    return far
