"""Bytes that the steps of a load read from the host's memory, or compute there; see
`genz_core.capacity.offload`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from genz_core.capacity.memory import Memory
from genz_core.capacity.offload import CARRIED_TOKENS, HOST_SHARE, What
from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.errors import MissingSpec
from genz_core.graphs import Model
from genz_core.systems import System
from genz_core.types import Array, Parallelism, Step

_HOST_BYTES = 2e12  # assumed bytes of a host whose memory is not stated


@dataclass(frozen=True, slots=True)
class Banks:
    """Routed experts of a device.

    held_bytes: of all of them, [configs].  share: share of all experts that one token reaches.
    """

    held_bytes: Array
    share: float

    @classmethod
    def of(
        cls, model: Model, system: System, engine: EngineProfile, split: Parallelism, size: int
    ) -> Banks:
        """Read from the graph of a step, averaged over the pipeline stages."""
        ops = deploy(model, system, engine).graph(Step.decode(1.0, 1.0), split).ops
        banks = [op for op in ops if op.kind == "moe"]
        held = sum((np.asarray(op.held_weight_bytes) * op.count for op in banks), np.zeros(size))
        sizes = banks[0].dims if banks else {}
        share = float(np.max(sizes.get("top_k", 0.0))) / float(
            np.max(sizes.get("experts_total", 1.0))
        )
        return cls(np.asarray(held) / np.asarray(split.pp, dtype=float), share)

    def reached(self, tokens: Array) -> Array:
        """Share of the experts that the tokens of all ranks reach."""
        return np.asarray(-np.expm1(tokens * np.log1p(-min(self.share, 1.0 - 1e-9))))


def movable(
    single: Memory, system: System, spill: What, experts: Array | float = 0.0
) -> Array | float:
    """Bytes of a device that may be moved to its host.  experts: bytes of routed experts.

    Raises:
        MissingSpec: the system states no host link, or no bandwidth of its host's memory for
            experts that are computed there.
    """
    if system.host_bytes_per_s is None:
        raise MissingSpec(f"{system.name} has no known host link, so nothing can be offloaded")
    if spill == "experts" and system.host_memory_bytes_per_s is None:
        raise MissingSpec(
            f"{system.name} has no known host memory bandwidth: offload weights instead"
        )
    room = _HOST_BYTES if system.host_memory_bytes is None else system.host_memory_bytes
    if spill == "kv":
        return room
    return np.minimum(single.weights_bytes if spill == "weights" else experts, room)


@dataclass(frozen=True, slots=True)
class Spilled:
    """Traffic of a step with the host's memory, [configs].

    moved_bytes: weights on the host, routed experts first; a step reads those that its tokens
    reach.
    free_bytes: cache of a rank on the device; beyond it, `request_bytes` are read for each decoding
    request.  lanes: of a pipeline, each of which reads its own data.  ranks: number that share
    experts.
    worked: experts are computed on the host in steps of few tokens.
    """

    system: System
    banks: Banks
    moved_bytes: Array
    free_bytes: Array
    request_bytes: Array
    lanes: int
    ranks: Array
    worked: bool

    def __call__(self, decodes: Array, tokens: Array, elsewhere: Array) -> Array:
        """Time of every stage [s], [..., configs]; arguments as in `ModelTimes`.

        An empty step, which an engine that prefills apart has on paper, reads nothing.
        """
        link = float(self.system.host_bytes_per_s or np.inf)
        experts = np.minimum(self.moved_bytes, self.banks.held_bytes)
        routed = decodes * self.ranks + tokens + elsewhere * (self.ranks - 1.0)
        read = experts * self.banks.reached(routed)
        seconds = read / link
        if self.worked:
            there = read / (HOST_SHARE * float(self.system.host_memory_bytes_per_s or np.inf))
            seconds = np.where(routed < CARRIED_TOKENS, np.minimum(there, seconds), seconds)
        caches = decodes * self.lanes * self.request_bytes - self.free_bytes
        others = self.moved_bytes - experts + np.maximum(caches, 0.0) / self.lanes
        return np.where(routed > 0.0, seconds + others / link, 0.0)

    def picked(self, chosen: NDArray[np.intp]) -> Spilled:
        """A selection of the configurations."""
        columns = ("moved_bytes", "free_bytes", "request_bytes", "ranks")
        banks = replace(self.banks, held_bytes=self.banks.held_bytes[chosen])
        return replace(self, banks=banks, **{name: getattr(self, name)[chosen] for name in columns})
