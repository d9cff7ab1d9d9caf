"""Which rank a request goes to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from genz_core.serving.simulation.rank import Job, Rank

Routing = Literal["round_robin", "least_loaded", "prefix"]
Router = Callable[[Job, Sequence[Rank]], int]


def router(routing: Routing) -> Router:
    """A router of that kind; round robin counts from the first rank."""
    if routing == "round_robin":
        return RoundRobin()
    return Prefix() if routing == "prefix" else LeastLoaded()


class RoundRobin:
    """Each rank in turn, whatever it has to do."""

    def __init__(self) -> None:
        self._next = -1

    def __call__(self, job: Job, ranks: Sequence[Rank]) -> int:
        self._next = (self._next + 1) % len(ranks)
        return self._next


class LeastLoaded:
    """The rank with the fewest requests, the first of equals."""

    def __call__(self, job: Job, ranks: Sequence[Rank]) -> int:
        return min(range(len(ranks)), key=lambda at: ranks[at].load)


class Prefix:
    """The rank whose cache and tiers have most of the prompt, the least loaded of equals.

    Of ranks that have as much, the one with more of it in the cache.

    A rank with more than `excess` requests above the least loaded is passed over.
    """

    def __init__(self, excess: int = 32) -> None:
        self._excess = excess

    def __call__(self, job: Job, ranks: Sequence[Rank]) -> int:
        least = min(rank.load for rank in ranks)
        near = [at for at, rank in enumerate(ranks) if rank.load <= least + self._excess]
        return min(near, key=lambda at: self._order(job, ranks[at]))

    @staticmethod
    def _order(job: Job, rank: Rank) -> tuple[int, int, int]:
        hit = rank.hit(job)
        return -rank.known(job, hit), -hit, rank.load
