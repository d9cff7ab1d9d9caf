"""What lies in a device's memory, whether it fits, and what would.

Weights and cache are read off the graph: every operator says what it holds, so a traced model and
a built one are weighed alike.  The figures are those of the fullest device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.step import slowest_stage
from genz_core.types import Array, Graph, Group, Mask, Model, Parallelism, Step, System, Workload
from genz_core.validity import stack, tiled

_LARGEST = 2**31  # batches and contexts beyond this are not asked for


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the fullest device, [configs] each.

    activations_bytes: the largest operator's operands and the residual stream of one step.
    reserve_bytes: runtime context, graphs and workspaces, of the engine profile.
    usable_bytes: what the engine may take of the device.
    """

    weights_bytes: Array
    kv_bytes: Array
    activations_bytes: Array
    reserve_bytes: Array
    usable_bytes: float
    capacity_bytes: float

    @property
    def total_bytes(self) -> Array:
        return self.weights_bytes + self.kv_bytes + self.activations_bytes + self.reserve_bytes

    @property
    def fits(self) -> Mask:
        return self.total_bytes <= self.usable_bytes

    def reason(self, config: int = 0) -> str:
        """Why one configuration does not fit, in a sentence; empty where it does."""
        if self.fits[config]:
            return ""
        parts = {
            "weights": self.weights_bytes[config],
            "KV cache": self.kv_bytes[config],
            "activations": self.activations_bytes[config],
            "runtime reserve": self.reserve_bytes[config],
        }
        listed = " + ".join(f"{name} {_gb(size)}" for name, size in parts.items())
        most = max(parts, key=lambda name: float(parts[name]))
        advice = {
            "weights": "use more devices or fewer bits a weight",
            "KV cache": "use a smaller batch, a shorter context or an 8-bit cache",
            "activations": "use smaller prefill chunks",
            "runtime reserve": "use a larger device",
        }[most]
        return (
            f"needs {_gb(self.total_bytes[config])} a device ({listed}) and the engine may use "
            f"{_gb(self.usable_bytes)} of {_gb(self.capacity_bytes)}: {advice}"
        )


def memory(
    model: Model,
    system: System,
    workload: Workload,
    parallelism: Parallelism,
    engine: EngineProfile,
) -> Memory:
    """Memory at the end of the workload, when every sequence has isl + osl tokens."""
    deployed = deploy(model, system, engine)
    engine = deployed.engine
    twice, lanes = tiled(workload, parallelism, 2)
    size = len(twice["batch"]) // 2
    held, busiest = slice(0, size), slice(size, None)
    block = float(engine.kv_block_tokens)
    tokens = np.ceil((twice["isl"] + twice["osl"]) / block) * block
    end = Group(twice["batch"], np.ones(2 * size), tokens - 1.0)
    (chunk,) = prefill_chunk(workload, engine).groups
    graph = deployed.graph(_second_half(end, chunk, size), lanes)
    weights, cache = (
        _column(graph, name, 2 * size)[:, held] for name in ("held_weight_bytes", "held_kv_bytes")
    )
    return Memory(
        weights_bytes=slowest_stage(graph, twice["pp"][held], weights),
        kv_bytes=slowest_stage(graph, twice["pp"][held], cache),
        activations_bytes=activations_bytes(graph, 2 * size)[busiest],
        reserve_bytes=np.full(size, engine.reserve_bytes),
        usable_bytes=system.memory_bytes * engine.memory_fraction,
        capacity_bytes=system.memory_bytes,
    )


def _second_half(first: Group, second: Group, size: int) -> Step:
    """A step of `first`, with `second` in the second half of its configurations."""
    numbers = []
    for name in ("sequences", "new_tokens", "cached_tokens"):
        column = np.array(getattr(first, name), dtype=float)
        column[size:] = getattr(second, name)
        numbers.append(column)
    return Step((Group(*numbers),))


def prefill_chunk(workload: Workload, engine: EngineProfile) -> Step:
    """The largest step that the engine forms of the prompts: whole, or cut to its chunk."""
    isl, batch = np.asarray(workload.isl, dtype=float), np.asarray(workload.batch, dtype=float)
    if not engine.chunk_tokens:
        return Step.prefill(batch, isl)
    chunk = float(engine.chunk_tokens)
    return Step.prefill(np.minimum(batch, np.ceil(chunk / isl)), np.minimum(isl, chunk))


def activations_bytes(graph: Graph, size: int) -> Array:
    """Working memory of one step, [size]: the largest operator's operands, and the stream twice.

    Operators run one after another and reuse each other's buffers, so the largest decides; the
    residual stream and its norm stay alive beside it.
    """
    operands = _column(graph, "input_bytes", size) + _column(graph, "output_bytes", size)
    stream = [row for row, op in enumerate(graph.ops) if op.kind == "norm"]
    residual = operands[stream].max(0) / 2.0 if stream else 0.0
    return operands.max(0) + residual


def max_batch(
    model: Model, system: System, workload: Workload, par: Parallelism, engine: EngineProfile
) -> int:
    """The largest batch of this isl and osl that fits (0: not even one)."""

    def fits(batch: Array) -> Mask:
        asked = Workload(batch, workload.isl, workload.osl)
        return memory(model, system, asked, par, engine).fits

    return _largest(fits)


def max_context(
    model: Model, system: System, workload: Workload, par: Parallelism, engine: EngineProfile
) -> int:
    """The longest prompt of this batch and osl that fits (0: not even one token)."""

    def fits(isl: Array) -> Mask:
        asked = Workload(workload.batch, isl, workload.osl)
        return memory(model, system, asked, par, engine).fits

    return _largest(fits)


def _largest(fits: Callable[[Array], Mask]) -> int:
    """The largest whole number for which a decreasing predicate holds, by narrowing grids."""
    low, high = 0.0, float(_LARGEST)
    while high - low > 1.0:
        probes = np.unique(np.round(np.geomspace(max(low, 1.0), high, 64)))
        probes = np.unique(np.concatenate([probes, np.linspace(low, high, 64).round()]))
        probes = probes[(probes > low) & (probes < high)]
        if not probes.size:
            break
        good = fits(probes)
        low = float(probes[good].max(initial=low))
        high = float(probes[~good].min(initial=high))
    return int(low)


def _column(graph: Graph, name: str, size: int) -> Array:
    """One field of every operator, [ops, configs]."""
    return stack((getattr(op, name) for op in graph.ops), size)


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
