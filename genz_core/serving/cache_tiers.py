"""Tiers of cached prefixes below the memory of the device: host, disk, remote memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from genz_core.errors import InvalidValue

#: "through": a block is written to every tier when it is computed (vLLM's OffloadingConnector,
#: LMCache, SGLang's `write_through`).  "back": to the next tier when it is evicted from the one
#: above (TensorRT-LLM's host cache, SGLang's `write_back`).
Writes = Literal["through", "back"]
TIERS = ("host", "disk", "remote")


@dataclass(frozen=True, slots=True)
class CacheTier:
    """A store of prefix blocks, the least recently used of which go first.

    name: of `TIERS`.  size_bytes: of a deployment, its ranks having equal shares of it; where
    `shared`, of all deployments together.  read_bytes_per_s: that one device reads of it.
    latency_s: of a read, on top.

    Raises:
        InvalidValue: no size or no bandwidth.
    """

    name: str
    size_bytes: float
    read_bytes_per_s: float
    latency_s: float = 0.0
    shared: bool = False

    def __post_init__(self) -> None:
        for name in ("size_bytes", "read_bytes_per_s"):
            if not getattr(self, name) > 0:
                raise InvalidValue(
                    f"cache tier {self.name}: {name} = {getattr(self, name):g}, but it must be "
                    "above 0: leave the tier out, or give it a size and a bandwidth"
                )
        if self.latency_s < 0:
            raise InvalidValue(f"cache tier {self.name}: latency_s must be at least 0")


def blocks_of(tier: CacheTier, block_bytes: float, devices: int, ranks: int) -> int:
    """Blocks that a rank's share of a tier holds, or all of it where it is shared.

    block_bytes: of a block on one device.  devices: that hold a part of each block.  ranks: of a
    deployment.
    """
    share = tier.size_bytes if tier.shared else tier.size_bytes / ranks
    return int(share / (block_bytes * devices))


def total_bytes(tiers: Sequence[CacheTier], replicas: int) -> dict[str, float]:
    """Bytes of every tier of all deployments, by name."""
    return {t.name: t.size_bytes * (1 if t.shared else replicas) for t in tiers}
