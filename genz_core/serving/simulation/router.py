"""Which rank a request goes to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from genz_core.serving.simulation.rank import Job, Rank

Routing = Literal["round_robin", "least_loaded", "prefix"]
#: Called with a request, the ranks of equal deployments by turns (the first of each, then the
#: second), and the number of deployments, which may change; returns the place of a rank.
Router = Callable[[Job, Sequence[Rank], int], int]


def router(routing: Routing, first_turns: Sequence[int] = (0,)) -> Router:
    """A router of that kind.

    first_turns: of each front end, the deployment that it sends its first request to.
    """
    if routing == "round_robin":
        return RoundRobin(first_turns)
    return Prefix() if routing == "prefix" else LeastLoaded()


class RoundRobin:
    """Each deployment in turn, whatever it has to do; of its ranks the least loaded, the first of
    equals.

    A front end counts workers and knows nothing of their ranks: a server shares out what it is sent
    itself.  Several take turns with requests, and each counts for itself: deployments are no longer
    sent as many at any time, and wait where others are free.
    Source: NVIDIA Dynamo, lib/runtime/src/pipeline/network/egress/push_router.rs, `round_robin`;
    TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/executor_request_queue.py,
    `_balance_requests_across_ranks`; srt-slurm, docs "Frontends": ten behind nginx by default.
    """

    def __init__(self, first_turns: Sequence[int]) -> None:
        self._turns = deque(first_turns)

    def __call__(self, job: Job, ranks: Sequence[Rank], deployments: int) -> int:
        turn = self._turns.popleft() % deployments
        self._turns.append(turn + 1)
        return min(range(turn, len(ranks), deployments), key=lambda at: ranks[at].load)


class LeastLoaded:
    """The rank with the fewest requests, the first of equals."""

    def __call__(self, job: Job, ranks: Sequence[Rank], deployments: int) -> int:
        loads = [rank.load for rank in ranks]
        return loads.index(min(loads))


class Prefix:
    """The rank whose cache and tiers have most of the prompt, the least loaded of equals.

    Of ranks that have as much, the one with more of it in the cache.

    A rank with more than `excess` requests above the least loaded is passed over.
    """

    def __init__(self, excess: int = 32) -> None:
        self._excess = excess

    def __call__(self, job: Job, ranks: Sequence[Rank], deployments: int) -> int:
        least = min(rank.load for rank in ranks)
        near = [at for at, rank in enumerate(ranks) if rank.load <= least + self._excess]
        return min(near, key=lambda at: self._order(job, ranks[at]))

    @staticmethod
    def _order(job: Job, rank: Rank) -> tuple[int, int, int]:
        hit = rank.hit(job)
        return -rank.known(job, hit), -hit, rank.load
