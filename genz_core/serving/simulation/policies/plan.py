"""What a scheduler decides, and what every scheduler has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from genz_core.serving.simulation.rank import Job, Lane, Rank


@dataclass(slots=True)
class Plan:
    """The next step of a lane.

    pieces: (job, tokens) of the prompts that the step reads.
    decodes: whether the sequences of the lane generate in it.
    steps: how many equal steps may follow one another before anything else can change, 1 where
    the step reads prompts.  open: an arrival may change that.
    """

    pieces: list[tuple[Job, int]] = field(default_factory=list)
    decodes: bool = True
    steps: int = 1
    open: bool = True


class Scheduler(Protocol):
    """A policy: who reads and who generates in the next step of a lane.

    reserves: a sequence's whole cache is taken when it is admitted.
    prompts_alone: while any rank reads prompts, none generates.
    """

    @property
    def reserves(self) -> bool: ...

    @property
    def prompts_alone(self) -> bool: ...

    def plan(self, rank: Rank, lane: Lane, *, more_to_come: bool) -> Plan | None:
        """Decide the next step, moving requests from the queue into the lane; None: nothing to do.

        more_to_come: whether further requests may still arrive.
        """
        ...


def places(rank: Rank, lane: Lane, most: int) -> int:
    """Sequences that a lane may still admit: the lanes of a pipeline share a rank's evenly."""
    lanes = len(rank.lanes)
    if lanes == 1:
        return most - lane.running
    share = -(-min(rank.running + len(rank.waiting), most) // lanes)
    return min(share - lane.running, most - rank.running)


def room_for_a_step(rank: Rank, lane: Lane) -> bool:
    """Make the sequences of a lane one step's room in the cache, preempting the latest.

    Returns whether none had to go.
    """
    untouched = True
    while rank.spare(lane) < 0.0 and lane.running > 1:
        rank.preempt(lane)
        untouched = False
    return untouched


def stretch(rank: Rank, lane: Lane) -> int:
    """Decode steps until a sequence of a lane ends, or the cache is full."""
    steps, grown, cache = lane.steps_to_an_end(), rank.grown(lane), rank.cache
    if grown > 0 and (room := int((cache.capacity - cache.used) / grown)) < steps:
        steps = room
    return steps if steps > 1 else 1


def settled(plan: Plan, rank: Rank, lane: Lane) -> Plan | None:
    """A plan of prompts and decodes with its steps; None where it has neither."""
    if not (lane.count or plan.pieces):
        return None
    plan.open = not rank.waiting
    if not plan.pieces:
        plan.steps = stretch(rank, lane)
    return plan
