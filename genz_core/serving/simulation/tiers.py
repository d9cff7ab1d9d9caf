"""Prefix blocks below the device: the contents of each tier, and the reads that bring blocks back.

An admitted request is looked up in the device's cache first and then, block by block, in the tiers,
the fastest first.  Blocks found there are read while other sequences run; the request keeps its
place among the running ones and waits.  Reads from one tier are sequential; several tiers are read
in parallel.  Writes do not delay reads (links carry both directions) and are visible immediately.
Source: vLLM 0.11, vllm/v1/kv_offload/lru_manager.py (`touch`: all blocks of a prompt, the last one
first) and vllm/distributed/kv_transfer/kv_connector/v1/offloading_connector.py
(`get_num_new_matched_tokens`; requests wait as WAITING_FOR_REMOTE_KVS).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from genz_core.serving.cache_tiers import CacheTier, Writes
from genz_core.serving.simulation.requests import Prefix


class Store:
    """`blocks` of one tier, the least recently used first; at most `most`.

    written: number of blocks written so far.
    """

    __slots__ = ("blocks", "most", "tier", "written")

    def __init__(self, tier: CacheTier, most: int) -> None:
        self.tier = tier
        self.most = most
        self.written = 0
        self.blocks: OrderedDict[int, None] = OrderedDict()

    def use(self, blocks: Prefix) -> None:
        """Mark blocks of a prompt as used; the first of them is the most recent."""
        held = self.blocks
        for block in reversed(blocks):
            if block in held:
                held.move_to_end(block)

    def write(self, blocks: Prefix) -> None:
        """Add blocks; the first of them is the most recent, and stays longest."""
        held, before = self.blocks, len(self.blocks)
        for block in reversed(blocks[: self.most]):
            if block in held:
                held.move_to_end(block)
            else:
                held[block] = None
        self.written += len(held) - before
        while len(held) > self.most:
            held.popitem(last=False)

    def put(self, block: int) -> int | None:
        """Add a block as the most recent; returns the block evicted for it."""
        if block in self.blocks:
            self.blocks.move_to_end(block)
            return None
        self.blocks[block] = None
        self.written += 1
        return self.blocks.popitem(last=False)[0] if len(self.blocks) > self.most else None

    def take(self, block: int) -> None:
        """Remove a block, if it is here."""
        self.blocks.pop(block, None)


@dataclass(slots=True, eq=False)
class Load:
    """Blocks being read to the device.

    blocks: all of them, in order.  counts: of each tier.  start_s, end_s: of the read.
    """

    blocks: list[int]
    counts: list[int]
    start_s: float = 0.0
    end_s: float = 0.0


class Tiers:
    """The tiers of one rank, the fastest first; shared stores are also used by other ranks.

    block_bytes: of a block on one device.  free_s: time when the link to each tier has finished its
    pending reads.
    """

    __slots__ = ("_through", "block_bytes", "free_s", "stores")

    def __init__(
        self, stores: Sequence[Store], block_bytes: float, writes: Writes = "through"
    ) -> None:
        self.stores = stores
        self.block_bytes = block_bytes
        self.free_s = [0.0] * len(stores)
        self._through = writes == "through"

    def find(self, blocks: Prefix) -> Load:
        """The leading blocks that are in any tier, each from the fastest tier that has it."""
        found: list[int] = []
        counts = [0] * len(self.stores)
        held = [store.blocks for store in self.stores]
        for block in blocks:
            for at, known in enumerate(held):
                if block in known:
                    found.append(block)
                    counts[at] += 1
                    break
            else:
                break
        return Load(found, counts)

    def use(self, blocks: Prefix) -> None:
        """Mark blocks of a prompt as used; the first of them is the most recent."""
        for store in self.stores:
            store.use(blocks)

    def send(self, load: Load, now: float) -> float:
        """Start a read that a request waits for; returns when the device has the blocks."""
        load.start_s = load.end_s = now
        for at, store in enumerate(self.stores):
            if not load.counts[at]:
                continue
            size = load.counts[at] * self.block_bytes
            read_s = max(now, self.free_s[at]) + size / store.tier.read_bytes_per_s
            self.free_s[at] = read_s
            load.end_s = max(load.end_s, read_s + store.tier.latency_s)
        return load.end_s

    def landed(self, load: Load) -> None:
        """Remove blocks that are now on the device from tiers that are written on eviction."""
        if not self._through:
            for store in self.stores:
                if not store.tier.shared:
                    for block in load.blocks:
                        store.take(block)

    def write(self, blocks: Prefix) -> None:
        """Add computed blocks; the first of them is the most recent.

        If there are more than a tier holds, the first ones stay.
        """
        if self._through:
            for store in self.stores:
                store.write(blocks)

    @property
    def demoted(self) -> Callable[[int], None] | None:
        """Function to call with every block that the device evicts; None if evictions have no
        effect.
        """
        return None if self._through else self._demote

    def _demote(self, block: int) -> None:
        """Move an evicted block down one tier, and the block that it displaces further down."""
        for store in self.stores:
            out = store.put(block)
            if out is None:
                return
            block = out
