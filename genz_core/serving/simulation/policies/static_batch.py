"""A static batch: requests are prefilled together, and the next ones wait until all have ended.

Sequences that end early keep their place, as in a loop over `model.generate`.
"""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.serving.simulation.policies.plan import Plan, stretch
from genz_core.serving.simulation.rank import Lane, Rank


@dataclass(frozen=True, slots=True)
class StaticBatch:
    """sequences: largest batch.  It waits for that many while more may arrive."""

    sequences: int = 32
    query: int = 1
    reserves: bool = True
    prompts_alone: bool = True

    def plan(self, rank: Rank, lane: Lane, *, more_to_come: bool) -> Plan | None:
        if lane.count:
            return Plan(steps=stretch(rank, lane), open=False)
        if not rank.waiting or (more_to_come and len(rank.waiting) < self.sequences):
            return None
        plan = Plan(decodes=False)
        while rank.waiting and lane.running < self.sequences:
            job = rank.waiting[0]
            held = rank.cache.prompt_bytes(job.length)
            if held > rank.cache.free and lane.running:
                break
            rank.waiting.popleft()
            rank.admit(job, lane, 0)
            rank.hold(job, held)
            if job.left:
                plan.pieces.append((job, job.left))
        if not plan.pieces:
            return Plan(steps=stretch(rank, lane), open=False)
        return plan
