"""What the sequences of a load share: cached prompt prefixes, and several answers to one prompt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.capacity.memory import Memory
from genz_core.errors import InvalidValue, MissingSpec
from genz_core.serving.cache_tiers import CacheTier, TierShare
from genz_core.systems import System
from genz_core.types import Array, Num

#: Function from tokens of one sequence to its cache on the fullest device, including everything
#: else there, [configs].
Weigh = Callable[[Num], Memory]


@dataclass(frozen=True, slots=True)
class Sharing:
    """Sharing between sequences, numbers or arrays [configs].

    cached_tokens: at the start of each prompt, found in the cache and not prefilled again.
    shared_tokens: part of these that is equal in all requests, so that a rank stores it once.
    branches: sequences per request that share its prompt: parallel samples, or the beams of a
    search.  kept: number of these that the user receives; 1 for a beam search.
    from_host: cached tokens are in the host's memory, and are read over its link before the rest of
    the prompt (the transfer is not overlapped).  below: cache tiers that a part of them comes from.

    Raises:
        InvalidValue: fewer than one branch, or more kept than there are.
    """

    cached_tokens: Num = 0.0
    shared_tokens: Num = 0.0
    branches: int = 1
    kept: int = 1
    from_host: bool = False
    below: tuple[TierShare, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.kept <= self.branches:
            raise InvalidValue(f"{self.branches} branches, {self.kept} kept: give at least one")

    def __bool__(self) -> bool:
        return self.branches > 1 or bool((np.asarray(self.cached_tokens) > 0).any())

    def scaled(self, share: Num, isl: Num) -> Sharing:
        """A copy with cached tokens multiplied by `share`, at most all of a prompt except its last
        token.
        """
        if not self:
            return self
        most = np.maximum(np.asarray(isl, dtype=float) - 1.0, 0.0)
        cached = np.minimum(np.round(np.asarray(self.cached_tokens) * share), most)
        return replace(
            self, cached_tokens=cached, shared_tokens=np.minimum(self.shared_tokens, cached)
        )

    def held(self, whole: Memory, isl: Num, weigh: Weigh) -> Memory:
        """The memory of a rank with one request, whose cache is the increment per further request.

        whole: with one sequence of prompt and output.  State that does not consist of tokens (of a
        recurrence, part of a block) exists once per sequence; what all requests share is in the
        reserve.
        """
        if not self:
            return whole
        state = weigh(1.0).kv_bytes
        one = whole.kv_bytes
        common = np.zeros_like(one)
        if np.any(np.asarray(self.shared_tokens) > 0):
            common = np.maximum(weigh(np.maximum(self.shared_tokens, 1.0)).kv_bytes - state, 0.0)
        later = np.maximum(one - weigh(isl).kv_bytes, 0.0) + state if self.branches > 1 else 0.0
        each = np.maximum(one - common, 0.0) + (self.branches - 1) * later
        return replace(whole, kv_bytes=each, reserve_bytes=whole.reserve_bytes + common)

    @property
    def reads(self) -> bool:
        """Whether cached tokens come from outside the device."""
        return self.from_host or bool(self.below)

    def fetch_s(self, system: System, weigh: Weigh) -> Any:
        """Time to bring a request's cached tokens to the device [s], 0 if they are there.

        Raises:
            MissingSpec: the system states no host link.
        """
        if not self.reads or not np.any(np.asarray(self.cached_tokens) > 0):
            return 0.0
        below = self.below
        if self.from_host:
            if system.host_bytes_per_s is None:
                raise MissingSpec(f"{system.name} has no known host link to read a cache from")
            below = (TierShare(CacheTier("host", np.inf, system.host_bytes_per_s), 1.0),)
        cached: Array = weigh(np.maximum(self.cached_tokens, 1.0)).kv_bytes
        read: Array = np.sum([each.read_s(cached) for each in below], axis=0)
        return np.where(np.asarray(self.cached_tokens) > 0, read, 0.0)


ALONE = Sharing()
