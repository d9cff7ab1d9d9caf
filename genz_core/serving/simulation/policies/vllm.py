"""vLLM's V1 scheduler: decodes and pieces of prompts share a token budget.

Running sequences come first, each with one token; the rest of the budget goes to prompts already
begun, then to new ones in order of arrival.  A sequence takes cache as it needs it; if there is
none left, the sequence admitted last is preempted and prefilled again later.
Without `enable_chunked_prefill` a prompt that does not fit ends the planning of a step.
Source: vLLM 0.11, vllm/v1/core/sched/scheduler.py, `Scheduler.schedule`.
"""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.serving.simulation.policies.plan import (
    Plan,
    decoding,
    piece,
    places,
    room_for_a_step,
    settled,
)
from genz_core.serving.simulation.rank import Job, Lane, Rank


@dataclass(frozen=True, slots=True)
class Vllm:
    """budget: most tokens of a step.  sequences: most that run on a rank.
    query: tokens of a decoding sequence per step: one, plus those of a draft that it verifies.
    chunked: whether prompts may be cut to fit the budget; otherwise a prompt waits until it fits,
    with those behind it.
    """

    budget: int = 8192
    sequences: int = 1024
    query: int = 1
    chunked: bool = True
    reserves: bool = False
    prompts_alone: bool = False

    def plan(self, rank: Rank, lane: Lane, *, more_to_come: bool) -> Plan | None:
        untouched = room_for_a_step(rank, lane)
        if not (lane.prefilling or rank.waiting):
            return decoding(rank, lane)
        plan, left = Plan(), self.budget - lane.count * self.query
        for job in lane.prefilling:
            left -= self._read(plan, rank, lane, job, left)
        if untouched and rank.waiting:
            self._admit(plan, rank, lane, left)
        while not (plan.pieces or lane.count) and self._stuck(lane):
            rank.preempt(lane)
            for job in lane.prefilling:
                left -= self._read(plan, rank, lane, job, left)
        return settled(plan, rank, lane)

    @staticmethod
    def _stuck(lane: Lane) -> bool:
        """Whether several prompts block each other: each holds cache that another needs, and no
        event frees any.
        """
        return len(lane.prefilling) > 1 and not any(job.load for job in lane.prefilling)

    def _admit(self, plan: Plan, rank: Rank, lane: Lane, left: int) -> None:
        open_places = places(rank, lane, self.sequences)
        while rank.waiting and left > 0 and open_places > 0:
            job = rank.waiting[0]
            hit = rank.hit(job)
            known = rank.known(job, hit)
            new = self._piece(job.prompt - known, left, plan)
            if not new and job.prompt > known:
                return
            if rank.asks(job, known + new, hit) > rank.spare(lane):
                return
            rank.waiting.popleft()
            rank.admit(job, lane, hit)
            open_places -= 1
            if job.left:
                left -= self._read(plan, rank, lane, job, left)
            else:
                left -= self.query

    def _piece(self, tokens: int, left: int, plan: Plan) -> int:
        """Tokens of a prompt in this step: all, a part, or none."""
        if self.chunked:
            return tokens if tokens < left else left
        return piece(tokens, left, self.budget, chunked=False, first=not plan.pieces)

    def _read(self, plan: Plan, rank: Rank, lane: Lane, job: Job, left: int) -> int:
        """Prefill a piece of a prompt; returns its tokens."""
        if job.load:
            return 0
        unread = job.left
        new = self._piece(unread, left, plan)
        held = rank.needs(job, job.done + new)
        if (new <= 0 and unread) or held - job.held > rank.spare(lane):
            return 0
        rank.hold(job, held)
        plan.pieces.append((job, new))
        return new
