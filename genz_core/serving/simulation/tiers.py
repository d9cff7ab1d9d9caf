"""Prefix blocks below the device: what each tier holds, and the reads that bring them back.

A request that is admitted is looked up in the device's cache first and then, block by block, in
the tiers, the fastest first.  What they have is read while other sequences run; the request waits
for it in its place among those that run.  Reads of one tier follow one another; several tiers are
read at once.  Writes take no time of a read (links carry both directions) and are visible at once.
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
    """`blocks` of one tier, the least recently used first; `most` at most.

    written: blocks that were put into it so far.
    """

    __slots__ = ("blocks", "most", "tier", "written")

    def __init__(self, tier: CacheTier, most: int) -> None:
        self.tier = tier
        self.most = most
        self.written = 0
        self.blocks: OrderedDict[int, None] = OrderedDict()

    def use(self, blocks: Prefix) -> None:
        """Blocks of a prompt were asked for; the first of them counts as the last used."""
        held = self.blocks
        for block in reversed(blocks):
            if block in held:
                held.move_to_end(block)

    def write(self, blocks: Prefix) -> None:
        """Take blocks in; the first of them counts as the last used, and stays the longest."""
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
        """Take a block in as the last one used; returns the block that had to go for it."""
        if block in self.blocks:
            self.blocks.move_to_end(block)
            return None
        self.blocks[block] = None
        self.written += 1
        return self.blocks.popitem(last=False)[0] if len(self.blocks) > self.most else None

    def take(self, block: int) -> None:
        """Take a block out, if it is here."""
        self.blocks.pop(block, None)


@dataclass(slots=True, eq=False)
class Load:
    """Blocks on their way to the device.

    blocks: all of them, in their order.  counts: of each tier.  start_s, end_s: of the read.
    """

    blocks: list[int]
    counts: list[int]
    start_s: float = 0.0
    end_s: float = 0.0


class Tiers:
    """The tiers of one rank, the fastest first; stores that are shared are those of others, too.

    block_bytes: of a block on one device.  free_s: when the link to each tier has read all that it
    was asked for.
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
        """The leading ones of some blocks that some tier has, each in the first that does."""
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
        """Blocks of a prompt were asked for, the first of them counts as the last used."""
        for store in self.stores:
            store.use(blocks)

    def send(self, load: Load, now: float) -> float:
        """Read what a request waits for; returns when the device has it."""
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
        """Blocks are on the device: tiers that are written on eviction hold them no longer."""
        if not self._through:
            for store in self.stores:
                if not store.tier.shared:
                    for block in load.blocks:
                        store.take(block)

    def write(self, blocks: Prefix) -> None:
        """Blocks were computed; the first of them counts as the last used.

        Of more than a tier holds the first ones stay.
        """
        if self._through:
            for store in self.stores:
                store.write(blocks)

    @property
    def demoted(self) -> Callable[[int], None] | None:
        """Told of every block that the device evicts; None where that changes nothing."""
        return None if self._through else self._demote

    def _demote(self, block: int) -> None:
        """A block goes down, and what it displaces further."""
        for store in self.stores:
            out = store.put(block)
            if out is None:
                return
            block = out
