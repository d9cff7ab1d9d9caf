"""The decision of a scheduler, and the interface of all schedulers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from genz_core.serving.simulation.rank import Job, Lane, Rank


@dataclass(slots=True)
class Plan:
    """The next step of a lane.

    pieces: (job, tokens) of the prompts prefilled in the step.
    decodes: whether the sequences of the lane decode in it.
    steps: number of equal steps that may follow one another before anything else can change, 1 with
    prompts.  open: whether an arrival may change that.
    """

    pieces: list[tuple[Job, int]] = field(default_factory=list)
    decodes: bool = True
    steps: int = 1
    open: bool = True


class Scheduler(Protocol):
    """A policy: which requests prefill and which decode in the next step of a lane.

    reserves: whether a sequence's whole cache is reserved on admission.
    prompts_alone: whether no sequence decodes while any rank prefills.
    """

    @property
    def reserves(self) -> bool: ...

    @property
    def prompts_alone(self) -> bool: ...

    def plan(self, rank: Rank, lane: Lane, *, more_to_come: bool) -> Plan | None:
        """Decide the next step and move requests from the queue into the lane; None if there is
        nothing to do.

        more_to_come: whether further requests may still arrive.
        """
        ...


def places(rank: Rank, lane: Lane, most: int) -> int:
    """Number of sequences that a lane may still admit; the lanes of a pipeline share a rank's limit
    evenly.
    """
    lanes = len(rank.lanes)
    if lanes == 1:
        return most - lane.running
    share = -(-min(rank.running + len(rank.waiting), most) // lanes)
    return min(share - lane.running, most - rank.running)


def piece(tokens: int, left: int, budget: int, *, chunked: bool, first: bool) -> int:
    """Tokens of a prompt in a step: all, a part, or none.

    left: of the step's budget.  chunked: whether prompts may be cut.  first: whether it is the
    first of the step; a whole prompt longer than the budget then has a step of its own.
    """
    if tokens <= left:
        return tokens
    if chunked:
        return max(left, 0)
    return tokens if first and tokens > budget else 0


def room_for_a_step(rank: Rank, lane: Lane) -> bool:
    """Make space in the cache for one more step of a lane by preempting its latest sequences.

    Returns whether no sequence had to be preempted.
    """
    untouched = True
    while rank.spare(lane) < 0.0 and lane.running > 1:
        rank.preempt(lane)
        untouched = False
    return untouched


def stretch(rank: Rank, lane: Lane) -> int:
    """Decode steps until a sequence of the lane ends or the cache is full."""
    steps, grown, cache = lane.steps_to_an_end(), rank.grown(lane), rank.cache
    if grown > 0 and (room := int((cache.capacity - cache.used) / grown)) < steps:
        steps = room
    return steps if steps > 1 else 1


def decoding(rank: Rank, lane: Lane) -> Plan | None:
    """A plan of decodes alone; None if no sequence decodes."""
    if not lane.count:
        return None
    return Plan([], True, stretch(rank, lane), not rank.waiting)


def settled(plan: Plan, rank: Rank, lane: Lane) -> Plan | None:
    """A plan of prompts and decodes, with its number of steps filled in; None if it has neither."""
    if not plan.pieces:
        return decoding(rank, lane)
    plan.open = not rank.waiting
    return plan
