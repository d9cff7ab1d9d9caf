"""Memory of the fullest device, whether a workload fits, and the largest workload that does.

Weights and cache are read from the graph: every operator states the bytes that stay on the device,
so traced models and described ones are treated alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.compiled.lanes import Lanes
from genz_core.compiled.pricing import operator_columns
from genz_core.deployment import Deployment, deploy
from genz_core.devices.memory_levels import MemoryLevel
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph, Model
from genz_core.models.diffusion import denoising
from genz_core.steps.placed_graph import slowest_stage
from genz_core.symbolic.symbols import number
from genz_core.systems import System
from genz_core.types import Array, Group, Mask, Num, Parallelism, Step, Workload
from genz_core.validity import spread_out

#: Fields of an operator for the bytes that stay on the device, and for those that it reads and
#: writes.
HELD, OPERANDS = ("held_weight_bytes", "held_kv_bytes"), ("input_bytes", "output_bytes")
_LARGEST = 2**31  # largest batch or context that is searched
#: Largest share of a device that its runtime reserves; a judgement, since no engine states it. An
#: engine's reserve of 1.5 GB applies in full from 24 GB on; on a chip of 0.5 GB a runtime must
#: leave memory free.
RESERVE_SHARE = 1.0 / 16.0


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on the fullest device, [configs] each.

    activations_bytes: the largest operator's operands and the residual stream of one step.
    reserve_bytes: runtime context, graphs and workspaces: as in the engine profile, but at most
    `RESERVE_SHARE` of the device.
    usable_bytes: share of the device that the engine may take.  capacity_bytes: of the device.
    second: the memory that takes what does not fit, if that is allowed; None otherwise.
    """

    weights_bytes: Array
    kv_bytes: Array
    activations_bytes: Array
    reserve_bytes: Array
    usable_bytes: float
    capacity_bytes: float
    second: MemoryLevel | None = None

    @property
    def total_bytes(self) -> Array:
        """Weights, cache, activations and reserve together, [configs]."""
        return self.weights_bytes + self.kv_bytes + self.activations_bytes + self.reserve_bytes

    @property
    def free_bytes(self) -> Array:
        """Bytes left beside weights, activations and reserve, negative where these do not fit,
        [configs].
        """
        return np.asarray(self.usable_bytes - (self.total_bytes - self.kv_bytes))

    @property
    def over_bytes(self) -> Array:
        """Bytes that do not fit in the first memory, [configs]."""
        return np.maximum(self.total_bytes - self.usable_bytes, 0.0)

    @property
    def second_bytes(self) -> Array:
        """Bytes placed in the second memory: as many as do not fit in the first, [configs]."""
        return np.minimum(self.over_bytes, self._second_room())

    @property
    def fits(self) -> Mask:
        """Whether each configuration fits, [configs]."""
        if self.second is None:
            return self.total_bytes <= self.usable_bytes
        return self.over_bytes <= self._second_room()

    def where(self, known: Mask) -> Memory:
        """The same memory, NaN for the other configurations, which do not fit then.  known:
        [configs].
        """
        if known.all():
            return self
        parts: dict[str, Any] = {n: np.where(known, getattr(self, n), np.nan) for n in _PARTS}
        return replace(self, **parts)

    def _second_room(self) -> Array:
        """Bytes that the second memory can take: of the tensors that it may hold, as many
        as fit.
        """
        if self.second is None:
            return np.zeros_like(self.total_bytes)
        parts = {"weights": self.weights_bytes, "cache": self.kv_bytes}
        held = sum((parts[name] for name in self.second.holds), np.zeros_like(self.total_bytes))
        return np.minimum(held, self.second.bytes)

    def reason(self, config: int = 0) -> str:
        """A sentence on the parts of a configuration that does not fit, with advice; "" if
        it fits.
        """
        return self.reasons([config])[0]

    def reasons(self, configs: Sequence[int] | NDArray[np.intp]) -> list[str]:
        """`reason` of several configurations."""
        fits = self.fits[configs].tolist()
        total = self.total_bytes[configs].tolist()
        parts = [np.asarray(getattr(self, name))[configs].tolist() for name in _PARTS]
        rows = zip(fits, total, *parts, strict=True)
        return ["" if held else self._reason(needed, sizes) for held, needed, *sizes in rows]

    def _reason(self, total: float, sizes: Sequence[float]) -> str:
        words = list(_PARTS.values())
        shown = " + ".join(
            f"{name} {_gb(size)}" for (name, _), size in zip(words, sizes, strict=True)
        )
        advice = words[sizes.index(max(sizes))][1]
        beside = f" and of {self.second}" if self.second else ""
        return (
            f"needs {_gb(total)} per device ({shown}), but the engine may use only "
            f"{_gb(self.usable_bytes)} of {_gb(self.capacity_bytes)}{beside}: {advice}"
        )


#: Parts of the memory: their names, and advice where one of them is the largest.
_PARTS: Mapping[str, tuple[str, str]] = {
    "weights_bytes": ("weights", "use more devices or fewer bits per weight"),
    "kv_bytes": ("KV cache", "use a smaller batch, a shorter context or an 8-bit KV cache"),
    "activations_bytes": ("activations", "use smaller prefill chunks"),
    "reserve_bytes": ("runtime reserve", "use a larger device"),
}


def memory(
    model: Model,
    system: System,
    workload: Workload,
    parallelism: Parallelism,
    engine: EngineProfile,
    *,
    second: bool = False,
) -> Memory:
    """Memory at the end of the workload, when every sequence has isl + osl tokens.

    Args:
        workload, parallelism: numbers, or arrays [configs].
        second: place what does not fit in the first memory in the system's second memory.

    Raises:
        InvalidValue: a number beyond what a float holds.
    """
    deployed = deploy(model, system, engine)
    engine = deployed.engine
    sizes, split = spread_out(workload, parallelism)
    size = sizes["batch"].size
    end = end_of(sizes, engine)
    (chunk,) = prefill_chunk(Workload(sizes["batch"], sizes["isl"]), engine, split.dp).groups
    if denoising(model):
        whole = sizes["isl"] + sizes["osl"]
        end = Group(sizes["batch"], whole, np.zeros(size), prompt=sizes["isl"])
        chunk = Group(sizes["batch"], whole, np.zeros(size), prompt=sizes["isl"])
    holds, (weights, cache) = operator_columns(deployed, Lanes.of(end, split), HELD)
    reads, (read, written) = operator_columns(deployed, Lanes.of(chunk, split), OPERANDS)
    return on_device(
        deployed,
        slowest_stage(holds, sizes["pp"], weights),
        slowest_stage(holds, sizes["pp"], cache),
        np.asarray(activations_bytes(reads, [read, written])),
        second=system.second_memory if second else None,
    )


def on_device(
    deployed: Deployment,
    weights_bytes: Array,
    kv_bytes: Array,
    activations_bytes: Array,
    second: MemoryLevel | None = None,
) -> Memory:
    """Memory of a deployment on a device, with everything else that its engine takes there."""
    system, engine = deployed.system, deployed.engine
    reserve = min(engine.reserve_bytes, RESERVE_SHARE * system.memory_bytes)
    return Memory(
        weights_bytes,
        kv_bytes,
        activations_bytes,
        reserve_bytes=np.full(weights_bytes.shape, reserve),
        usable_bytes=system.memory_bytes * engine.memory_fraction,
        capacity_bytes=system.memory_bytes,
        second=second,
    )


def end_of(sizes: Mapping[str, Num], engine: EngineProfile) -> Group:
    """The last decode step of all sequences, with their cache rounded up to the engine's blocks.

    sizes: batch, isl and osl, numbers or [configs].
    """
    block = float(engine.kv_block_tokens)
    tokens = np.ceil((sizes["isl"] + sizes["osl"]) / block) * block
    return Group(sizes["batch"], np.ones(np.shape(tokens)), tokens - 1.0, prompt=sizes["isl"])


def prefill_chunk(workload: Workload, engine: EngineProfile, ranks: Num = 1.0) -> Step:
    """The largest step that the engine forms from the prompts: all of them, or cut to its chunk
    size.

    If several prompts share a chunk, the last one may be only partly in it.

    ranks: of data-parallel attention; each forms a chunk of its own.
    """
    isl, batch = number(workload.isl), number(workload.batch)
    if not engine.chunk_tokens:
        return Step.prefill(batch, isl)
    chunk: Num = float(engine.chunk_tokens)
    if engine.chunked_prefill is False:
        chunk = np.maximum(chunk, isl)
    together = np.maximum(chunk / isl, 1.0) * ranks
    return Step.prefill(np.minimum(batch, together), np.minimum(isl, chunk))


def activations_bytes(graph: Graph, operands: Sequence[Sequence[Num]]) -> Num:
    """Working memory of one step, [configs]: the largest operator's operands, plus the stream
    twice.

    Operators run one after another and reuse each other's buffers, so the largest one decides; the
    residual stream and its norm stay alive beside it.

    operands: bytes that operators read, and that they write, numbers or [configs] by operator.
    """
    moved = [read + written for read, written in zip(*operands, strict=True)]
    stream = [moved[row] for row, op in enumerate(graph.ops) if op.kind == "norm"]
    residual = reduce(np.maximum, stream) / 2.0 if stream else 0.0
    largest: Num = reduce(np.maximum, moved)
    return largest + residual


def max_batch(
    model: Model,
    system: System,
    workload: Workload,
    par: Parallelism,
    engine: EngineProfile,
    *,
    second: bool = False,
) -> int:
    """The largest batch that fits with the workload's isl and osl (0 if not even one sequence
    fits).

    Args:
        workload, par: numbers; the workload's batch is ignored.  second: as `memory`.
    """

    def fits(batch: Array) -> Mask:
        larger = Workload(batch, workload.isl, workload.osl)
        return memory(model, system, larger, par, engine, second=second).fits

    return _largest(fits)


def max_context(
    model: Model,
    system: System,
    workload: Workload,
    par: Parallelism,
    engine: EngineProfile,
    *,
    second: bool = False,
) -> int:
    """The longest prompt that fits with the workload's batch and osl (0 if not even one token
    fits).

    Args:
        workload, par: numbers; the workload's isl is ignored.  second: as `memory`.
    """

    def fits(isl: Array) -> Mask:
        longer = Workload(workload.batch, isl, workload.osl)
        return memory(model, system, longer, par, engine, second=second).fits

    return _largest(fits)


def _largest(fits: Callable[[Array], Mask]) -> int:
    """The largest whole number that fits, 0 if none, found on ever finer grids.

    fits: numbers -> whether each fits; true up to some number and false beyond.
    """
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


def _gb(size: float) -> str:
    return f"{size / 1e9:,.1f} GB"
