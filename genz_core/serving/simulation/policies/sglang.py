"""SGLang's scheduler: prompts first, alone; sequences generate when none can be read.

A new request is admitted where the cache has room for its prompt, its output, and the share of
their outputs that the running ones are expected to need still.  That share falls from step to
step and jumps up when the cache runs out and a sequence is retracted.
Source: SGLang 0.5, python/sglang/srt/managers/scheduler.py (`get_next_batch_to_run`) and
schedule_policy.py (`PrefillAdder`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from genz_core.serving.simulation.policies.plan import Plan, places, stretch
from genz_core.serving.simulation.rank import Job, Lane, Rank

#: Of a new request's output counted at admission at most (`CLIP_MAX_NEW_TOKENS`).
_CLIP = 4096
#: Share of running outputs still expected: at start, at least, and steps of its fall.
_RATIO, _LEAST_RATIO, _FALL_STEPS = 0.7, 0.098, 600


@dataclass(slots=True)
class Sglang:
    """budget: tokens of a prefill step at most.  sequences: that run on a rank at most.
    query: see `Vllm`.
    """

    budget: int = 8192
    sequences: int = 1024
    query: int = 1
    reserves: bool = False
    prompts_alone: bool = True
    _ratio: dict[int, tuple[float, int]] = field(default_factory=dict, repr=False)

    def plan(self, rank: Rank, lane: Lane, *, more_to_come: bool) -> Plan | None:
        plan, left = Plan(decodes=False), self.budget
        for job in lane.prefilling:
            left -= self._read(plan, rank, job, left)
        self._admit(plan, rank, lane, left)
        if plan.pieces:
            return plan
        self._retract(rank, lane)
        if not lane.count:
            return None
        return Plan(steps=stretch(rank, lane), open=not rank.waiting)

    def _admit(self, plan: Plan, rank: Rank, lane: Lane, left: int) -> None:
        cache, open_places = rank.cache, places(rank, lane, self.sequences)
        expected = lane.steps_left * lane.growth * self._expected(rank, lane) * cache.growth
        while rank.waiting and left > 0 and open_places > 0:
            job = rank.waiting[0]
            hit = rank.hit(job)
            output = min(job.length - job.prompt, _CLIP)
            asked = cache.prompt_bytes(job.prompt) - hit * cache.growth + output * cache.growth
            if asked + expected > cache.free and rank.running:
                return
            rank.waiting.popleft()
            rank.admit(job, lane, hit)
            expected += output * cache.growth
            left -= self._read(plan, rank, job, left)
            open_places -= 1

    def _expected(self, rank: Rank, lane: Lane) -> float:
        """Share of their outputs that running sequences are counted with."""
        start, since = self._ratio.setdefault(id(rank), (_RATIO, lane.step))
        fall = (_RATIO - _LEAST_RATIO) / _FALL_STEPS
        return max(start - fall * (lane.step - since), _LEAST_RATIO)

    def _retract(self, rank: Rank, lane: Lane) -> None:
        while lane.count * rank.growth > rank.cache.free and lane.count > 1:
            rank.preempt(lane)
            self._ratio[id(rank)] = (_RATIO, lane.step)

    @staticmethod
    def _read(plan: Plan, rank: Rank, job: Job, left: int) -> int:
        new = min(job.left, left)
        if new <= 0 and job.left:
            return 0
        rank.hold(job, rank.needs(job, job.done + new))
        plan.pieces.append((job, new))
        return new
