"""Offload of weights, cache or experts to host memory and disk, and its cost in each step.

Data in a second memory of the device itself ("levels") is read in place by its operators
(`genz_core.capacity.placement`), as part of the step's time.

Every step reads the offloaded bytes over the host link: weights once, the cache of all sequences
once.  In a mixture of experts the routed experts are moved first, and a step reads those that its
tokens reach.  Bytes beyond the host's memory are on disk.  Transfers do not overlap with the work
of the device, as in frameworks that stream layer by layer.

In steps of few tokens, experts on the host ("experts") are computed there, at the rate of its
memory; larger steps copy them to the device, as llama.cpp does
(https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-cuda/ggml-cuda.cu, op_offload).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from genz_core.capacity.memory import Memory
from genz_core.devices.memory_levels import MemoryLevel
from genz_core.errors import MissingSpec
from genz_core.graphs import Op
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
from genz_core.types import Array, Mask

#: "levels": weights and cache in the system's second memory, where operators read them in place.
What = Literal["weights", "kv", "experts", "levels"]
#: Tokens of a step from which llama.cpp copies weights to the device instead of computing on the
#: host.
CARRIED_TOKENS = 32.0
#: Share of the memory's nominal bandwidth that a host's products reach; judgement.
HOST_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Offload:
    """Offloaded bytes of the fullest device and their cost, [configs].

    what: kind of data that is offloaded.  host_bytes, disk_bytes: offloaded to each.
    expert_bytes: offloaded routed experts; held_expert_bytes: all routed experts of the device.
    step_s: time to copy all of it to the device.  fits: whether the rest fits on the device.
    cache_bytes: cache in a second memory; None for offload to the host.
    """

    what: What
    system: System
    host_bytes: Array
    disk_bytes: Array
    expert_bytes: Array
    held_expert_bytes: Array
    step_s: Array
    fits: Mask
    cache_bytes: Array | None = None

    def seconds(self, step: StepEstimate) -> Array:
        """Time that a step spends on offloaded data, beside its operators [s], [configs]."""
        if self.what == "levels":
            return np.zeros(step.configs)
        moved = np.maximum(self.host_bytes + self.disk_bytes, 1.0)
        experts = self.expert_bytes / moved
        read, reads = _expert_reads(step, self.held_expert_bytes)
        others = self.step_s * (1.0 - experts) * reads
        carried = self.step_s * experts * read
        if self.what != "experts":
            return np.asarray(others + carried)
        rate = HOST_SHARE * (self.system.host_memory_bytes_per_s or np.inf)
        worked = (self.expert_bytes - self.disk_bytes) * read / rate
        from_disk = self.step_s * self.disk_bytes / moved * read
        few = _tokens(step) < CARRIED_TOKENS
        return np.asarray(np.where(few, np.minimum(worked + from_disk, carried), carried))


def offload(memory: Memory, system: System, what: What, step: StepEstimate) -> Offload:
    """Offload as much of the weights, of the KV cache or of the experts as does not fit.

    Args:
        memory: without offload, or with the second memory for "levels".
        what: "weights", "kv", "experts" or "levels".  step: any step of the model.

    Raises:
        MissingSpec: the system states no second memory for "levels", no host link, no bandwidth of
            the host's memory where experts are to be computed from it, or no disk where host
            memory is too small.
    """
    if what == "levels":
        return _on_second_memory(memory, system)
    if system.host_bytes_per_s is None:
        raise MissingSpec(f"{system.name} has no known host link, so nothing can be offloaded")
    if what == "experts" and system.host_memory_bytes_per_s is None:
        raise MissingSpec(
            f"{system.name} has no known host memory bandwidth, which offloaded experts need; "
            "offload weights instead, or add host.memory_gb_per_s to its YAML"
        )
    over = np.maximum(memory.total_bytes - memory.usable_bytes, 0.0)
    held = np.minimum(_held_experts(step), memory.weights_bytes)
    movable = {"weights": memory.weights_bytes, "kv": memory.kv_bytes, "experts": held}[what]
    moved = np.minimum(over, movable)
    room = np.inf if system.host_memory_bytes is None else system.host_memory_bytes
    host = np.minimum(moved, room)
    disk = moved - host
    seconds = host / system.host_bytes_per_s
    if np.any(disk > 0):
        if system.disk_bytes_per_s is None:
            raise MissingSpec(
                f"{disk.max() / 1e9:,.0f} GB do not fit into the host memory of {system.name}, "
                "which has no known disk; use more devices or fewer bits per weight"
            )
        seconds = seconds + disk / min(system.disk_bytes_per_s, system.host_bytes_per_s)
    experts = np.zeros_like(moved) if what == "kv" else np.minimum(moved, held)
    return Offload(what, system, host, disk, experts, held, seconds, over <= movable)


def second_memory(system: System) -> MemoryLevel:
    """The second memory of a system.

    Raises:
        MissingSpec: it states none.
    """
    if system.second_memory is None:
        raise MissingSpec(
            f"{system.name} has no second memory for weights and cache; offload weights or kv to "
            "the host, or add second_memory to its YAML"
        )
    return system.second_memory


def _on_second_memory(memory: Memory, system: System) -> Offload:
    """Data in the second memory; it adds nothing to a step, since operators are priced with it."""
    level, moved = second_memory(system), memory.second_bytes
    none = np.zeros_like(moved)
    return Offload(
        "levels", system, moved, none, none, none, moved / level.bytes_per_s, memory.fits
    )


# ------------------------------------------------------------------------------- of the graph


def _banks(step: StepEstimate) -> list[tuple[Op, float]]:
    """The routed experts of a step, and how often each operator of them runs."""
    return [(op, op.count) for op in step.graph.ops if op.kind == "moe"]


def _held_experts(step: StepEstimate) -> Array:
    """Bytes of routed experts that a device would hold, averaged over the pipeline stages."""
    total = np.zeros(step.configs)
    for op, count in _banks(step):
        total = total + _of_first_node(op.held_weight_bytes, step) * count
    return total / step.stages


def _expert_reads(step: StepEstimate, held: Array) -> tuple[Array, Array]:
    """Share of all experts that a step reads, and the number of passes that the step makes."""
    weights = np.ones((1, step.configs)) if step.node_weights is None else step.node_weights
    read = np.zeros(step.configs)
    for op, count in _banks(step):
        values = np.broadcast_to(np.asarray(op.weight_bytes, dtype=float), (weights.size,))
        read = read + (values.reshape(weights.shape) * weights).sum(0) * count
    return read / step.stages / np.maximum(held, 1.0), weights.sum(0)


def _tokens(step: StepEstimate) -> Array:
    """Tokens that the experts of a step route, [configs]."""
    banks = _banks(step)
    return _of_first_node(banks[0][0].dims["tokens"], step) if banks else np.zeros(step.configs)


def _of_first_node(values: object, step: StepEstimate) -> Array:
    """A number of an operator at the first node of the step, [configs]."""
    flat = np.ravel(np.asarray(values, dtype=float))
    return flat[: step.configs] if flat.size >= step.configs else np.full(step.configs, flat[0])
