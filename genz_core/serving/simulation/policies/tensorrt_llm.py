"""TensorRT-LLM's in-flight batching: prompts together with decodes, cache reserved beforehand.

Prompts are whole unless `enable_chunked_prefill` is set; a whole prompt waits until it fits beside
the decodes, and those behind it wait with it.

Under "guaranteed no evict" a request is admitted if the cache has space for its prompt and its
whole output, so no request is ever stopped.  Under "max utilization" it is admitted as soon as
there is space, and the latest request is paused when there is none left.
Source: TensorRT-LLM documentation, "Batch scheduler", capacity policies, and
docs/source/features/paged-attention-ifb-scheduler.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from genz_core.serving.simulation.policies.plan import (
    Plan,
    decoding,
    piece,
    places,
    room_for_a_step,
    settled,
)
from genz_core.serving.simulation.rank import Lane, Rank

Capacity = Literal["guaranteed_no_evict", "max_utilization"]


@dataclass(frozen=True, slots=True)
class TensorRtLlm:
    """budget: most tokens of a step.  chunked: whether prompts may be split to fit it; otherwise a
    prompt longer than the budget has its own step.  sequences, query: see `Vllm`.
    """

    budget: int = 8192
    sequences: int = 2048
    query: int = 1
    capacity: Capacity = "guaranteed_no_evict"
    chunked: bool = False
    prompts_alone: bool = False

    @property
    def reserves(self) -> bool:
        return self.capacity == "guaranteed_no_evict"

    def plan(self, rank: Rank, lane: Lane, *, more_to_come: bool) -> Plan | None:
        untouched = self.reserves or room_for_a_step(rank, lane)
        if not (lane.prefilling or rank.waiting):
            return decoding(rank, lane)
        plan, left = Plan(), self.budget - lane.count * self.query
        for job in lane.prefilling:
            if job.load:
                continue
            new = self._piece(job.left, left, plan)
            if new or not job.left:
                plan.pieces.append((job, new))
                left -= new
        if untouched:
            self._admit(plan, rank, lane, left)
        return settled(plan, rank, lane)

    def _admit(self, plan: Plan, rank: Rank, lane: Lane, left: int) -> None:
        open_places = places(rank, lane, self.sequences)
        while rank.waiting and open_places > 0:
            job = rank.waiting[0]
            hit = rank.hit(job)
            known = rank.known(job, hit)
            new = self._piece(job.prompt - known, left, plan)
            if not new and job.prompt > known:
                return
            total = job.length if self.reserves else job.prompt
            if rank.asks(job, total, hit) > rank.spare(lane) and rank.running:
                return
            rank.waiting.popleft()
            rank.admit(job, lane, hit)
            rank.hold(job, rank.needs(job, total))
            open_places -= 1
            if job.load:
                continue
            if job.left:
                plan.pieces.append((job, new))
                left -= new
            else:
                left -= self.query

    def _piece(self, tokens: int, left: int, plan: Plan) -> int:
        """Tokens of a prompt in this step: all, a part, or none."""
        first = not plan.pieces
        return piece(tokens, left, self.budget, chunked=self.chunked, first=first)
