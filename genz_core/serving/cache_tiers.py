"""Tiers of cached prefixes below the memory of the device: host, disk, remote memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.types import Array, Num

#: When blocks are written.  "through": to every tier as soon as they are computed (vLLM's
#: OffloadingConnector, LMCache, SGLang's `write_through`).  "back": to the next tier when they are
#: evicted from the one above (TensorRT-LLM's host cache, SGLang's `write_back`).
Writes = Literal["through", "back"]
TIERS = ("host", "disk", "remote")


@dataclass(frozen=True, slots=True)
class CacheTier:
    """A store of prefix blocks with least-recently-used eviction.

    name: of `TIERS`.  size_bytes: per deployment, divided equally among its ranks; if `shared`, for
    all deployments together.  read_bytes_per_s: read bandwidth of one device.
    latency_s: added to each read.

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
                    "above 0: leave the tier out, or set its size and bandwidth"
                )
        if self.latency_s < 0:
            raise InvalidValue(f"cache tier {self.name}: latency_s must be at least 0")


def blocks_of(tier: CacheTier, block_bytes: float, devices: int, ranks: int) -> int:
    """Number of blocks in a rank's share of a tier, or in the whole tier if it is shared.

    block_bytes: of a block on one device.  devices: that hold a part of each block.  ranks: of a
    deployment.
    """
    share = tier.size_bytes if tier.shared else tier.size_bytes / ranks
    return int(share / (block_bytes * devices))


def total_bytes(tiers: Sequence[CacheTier], replicas: int) -> dict[str, float]:
    """Bytes of every tier over all deployments, by name."""
    return {t.name: t.size_bytes * (1 if t.shared else replicas) for t in tiers}


# ------------------------------------------------------------------------------- in closed form


@dataclass(frozen=True, slots=True)
class TierShare:
    """Average contribution of a tier over all requests, in closed form.

    share: of the cached tokens, a number or [configs].
    """

    tier: CacheTier
    share: Num

    def read_s(self, cached_bytes: Array) -> Array:
        """Time to read the tier's share of a request's cached bytes [s]."""
        bytes_s = cached_bytes / self.tier.read_bytes_per_s
        return np.asarray(self.share) * (bytes_s + self.tier.latency_s)


def characteristic_time(pauses_s: Array, per_s: Array, capacity: float) -> float:
    """Time for which a least-recently-used cache keeps an unused block [s].

    A block reused after a longer pause has been evicted.  The time solves: sum of per_s x
    min(pause, time) = capacity; it is infinite if everything fits.

    pauses_s: until the next use, infinite for none, [kinds].  per_s: tokens, or blocks, of each
    kind per second.
    Source: Che, Tung and Wang, Hierarchical Web caching systems, IEEE JSAC 20 (2002); for any
    stationary traffic Denning's working set, Xiang et al., HOTL, ASPLOS (2013).
    """
    if capacity <= 0:
        return 0.0
    order = np.argsort(pauses_s)
    pauses, rates = np.asarray(pauses_s)[order], np.asarray(per_s)[order]
    later = rates[::-1].cumsum()[::-1]  # still kept beyond the previous pause
    known = pauses[np.isfinite(pauses)]
    lengths = np.append(np.diff(known, prepend=0.0), np.full(len(pauses) - len(known), np.inf))
    held = np.cumsum(later * lengths)
    at = int(np.searchsorted(held, capacity, side="right"))
    if at == len(held):
        return float("inf")
    before, start = (held[at - 1], pauses[at - 1]) if at else (0.0, 0.0)
    return float(start + (capacity - before) / later[at])


def found_share(pauses_s: Array, per_s: Array, time_s: float) -> float:
    """Share of uses whose previous use was at most `time_s` earlier."""
    return float(np.sum(per_s, where=np.asarray(pauses_s) <= time_s) / np.sum(per_s))
