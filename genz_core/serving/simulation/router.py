"""Which rank a request is sent to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

from genz_core.serving.simulation.rank import Job, Rank

#: Requests above the least loaded rank with which one may still be chosen for its prefix.
#: Judgement.
_EXCESS = 32

Routing = Literal["round_robin", "least_loaded", "prefix"]
#: Function called with a request, the ranks of equal deployments in turn (the first of each, then
#: the second), and the number of deployments, which may change; returns the index of a rank.
Router = Callable[[Job, Sequence[Rank], int], int]


def router(routing: Routing, first_turns: Sequence[int] = (0,)) -> Router:
    """The router for a routing method.

    first_turns: for each front end, the deployment to which it sends its first request.
    """
    if routing == "round_robin":
        return RoundRobin(first_turns)
    return Prefix() if routing == "prefix" else LeastLoaded()


class RoundRobin:
    """Each deployment in turn, regardless of its load; within it the least loaded rank, the first
    of equals.

    A front end counts deployments and does not know their ranks: each server distributes its
    requests itself.  Several front ends take requests in turn and count separately, so deployments
    do not get equal numbers at all times, and some have queues while others are idle.
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
    """The rank whose cache and tiers hold most of the prompt; the least loaded of equals.

    Among ranks that hold equal amounts, the one with more in its cache is preferred.

    A rank with more than `_EXCESS` requests above the least loaded is not chosen.
    """

    def __call__(self, job: Job, ranks: Sequence[Rank], deployments: int) -> int:
        least = min(rank.load for rank in ranks)
        near = [at for at, rank in enumerate(ranks) if rank.load <= least + _EXCESS]
        return min(near, key=lambda at: self._order(job, ranks[at]))

    @staticmethod
    def _order(job: Job, rank: Rank) -> tuple[int, int, int]:
        hit = rank.hit(job)
        return -rank.known(job, hit), -hit, rank.load
