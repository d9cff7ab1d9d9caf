"""The KV cache of one rank: memory of sequences, and prefix blocks kept for sharing."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from genz_core.serving.simulation.requests import Prefix


class KvCache:
    """Bytes of one rank's cache.

    A sequence holds its prompt and grows by `growth` bytes per token.  Prefix blocks no longer used
    by any sequence stay until space is needed; the least recently used are evicted first.  Within a
    sequence the last blocks are evicted first, so that the remaining prefix can still be found from
    its start.
    Source: vLLM 0.11, vllm/v1/core/single_type_kv_cache_manager.py, `free`: blocks are freed in
    reverse order.

    capacity: bytes.  prompt_bytes: of a sequence by its number of tokens, in whole blocks.
    growth: bytes per additional token.  block_bytes: of a shared block; block_tokens: its tokens.
    shares: whether equal prefixes are shared.  evicted: called with every evicted block.
    """

    __slots__ = (
        "_held", "_idle", "block_bytes", "block_tokens", "capacity", "evicted", "growth",
        "prompt_bytes", "shares", "used",
    )  # fmt: skip

    def __init__(
        self,
        capacity: float,
        prompt_bytes: Callable[[float], float],
        growth: float,
        *,
        block_tokens: int = 16,
        shares: bool = False,
    ) -> None:
        self.capacity = capacity
        self.prompt_bytes = prompt_bytes
        self.growth = growth
        self.block_tokens = block_tokens
        self.block_bytes = growth * block_tokens
        self.shares = shares
        self.used = 0.0
        self.evicted: Callable[[int], None] | None = None
        self._held: dict[int, int] = {}
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> float:
        """Bytes available to sequences, including idle blocks, which can be evicted."""
        return self.capacity - self.used

    @property
    def kept(self) -> float:
        """Bytes in idle prefix blocks."""
        return len(self._idle) * self.block_bytes

    def hits(self, prefix: Prefix, most: int) -> int:
        """Number of leading blocks of a prefix that are in the cache, at most `most`."""
        if not self.shares:
            return 0
        found = 0
        for block in prefix[:most]:
            if block not in self._held and block not in self._idle:
                break
            found += 1
        return found

    def held(self, blocks: Prefix) -> int:
        """Number of leading blocks that are used by some sequence."""
        for at, block in enumerate(blocks):
            if block not in self._held:
                return at
        return len(blocks)

    def hold(self, blocks: Prefix) -> None:
        """Add a reference to blocks that are in the cache."""
        for block in blocks:
            if block in self._held:
                self._held[block] += 1
            else:
                del self._idle[block]
                self._held[block] = 1
                self.used += self.block_bytes

    def share(self, blocks: Prefix) -> list[int]:
        """Make a sequence's own blocks shareable; returns those that became shared."""
        shared = []
        for block in blocks if self.shares else ():
            if block not in self._held:
                self._idle.pop(block, None)
                self._held[block] = 1
                shared.append(block)
        return shared

    def drop(self, blocks: list[int]) -> None:
        """Drop references to blocks; unused blocks stay idle."""
        for block in reversed(blocks):
            self._held[block] -= 1
            if not self._held[block]:
                del self._held[block]
                self.used -= self.block_bytes
                self._idle[block] = None
        self.trim()

    def trim(self) -> None:
        """Evict idle blocks until everything fits."""
        while self._idle and self.used + self.kept > self.capacity:
            block, _ = self._idle.popitem(last=False)
            if self.evicted:
                self.evicted(block)
