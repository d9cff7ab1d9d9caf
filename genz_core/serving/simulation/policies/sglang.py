"""SGLang's scheduler: prompts first, in steps of their own; sequences decode if no prompt can be
prefilled.

A new request is admitted if the cache has space for its prompt, its output, and the expected rest
of the running outputs.  The expected share of a running output falls from step to step and jumps up
when the cache is full and a sequence is retracted.
Source: SGLang 0.5, python/sglang/srt/managers/scheduler.py (`get_next_batch_to_run`) and
schedule_policy.py (`PrefillAdder`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from genz_core.serving.simulation.policies.plan import Plan, places, stretch
from genz_core.serving.simulation.rank import Job, Lane, Rank

#: Largest part of a new request's output that is counted on admission (`CLIP_MAX_NEW_TOKENS`).
_CLIP = 4096
#: Expected share of running outputs: initial, smallest, and number of steps over which it falls.
_RATIO, _LEAST_RATIO, _FALL_STEPS = 0.7, 0.098, 600


@dataclass(slots=True)
class Sglang:
    """budget: most tokens of a prefill step.  sequences: most that run on a rank.
    query: see `Vllm`.  chunked: whether prompts may be cut to fit the budget; otherwise a step
    takes the first prompt whatever its length, and others that fit whole.
    """

    budget: int = 8192
    sequences: int = 1024
    query: int = 1
    chunked: bool = True
    reserves: bool = False
    prompts_alone: bool = True
    _ratio: WeakKeyDictionary[Rank, tuple[float, int]] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

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
        return Plan(steps=self._until_room(rank, lane), open=not rank.waiting)

    def _admit(self, plan: Plan, rank: Rank, lane: Lane, left: int) -> None:
        promised, open_places = 0.0, places(rank, lane, self.sequences)
        while rank.waiting and left > 0 and open_places > 0:
            job = rank.waiting[0]
            if promised + self._short(rank, lane, job, 0) > 0 and rank.running:
                return
            hit = rank.hit(job)
            if plan.pieces and not self.chunked and job.prompt - rank.known(job, hit) > left:
                return
            rank.waiting.popleft()
            before = rank.cache.free
            asked = self._asked(rank, job) - rank.shared_bytes(job, hit)
            rank.admit(job, lane, hit)
            # space for the rest of its prompt is not given to others once its blocks have arrived
            if job.load:
                rank.hold(job, rank.needs(job, job.prompt))
            elif job.left:
                left -= self._read(plan, rank, job, left)
            promised += asked - (before - rank.cache.free)
            open_places -= 1

    @staticmethod
    def _asked(rank: Rank, job: Job) -> float:
        """Bytes counted for a request: its remaining prompt and its output."""
        cache, output = rank.cache, min(job.length - job.prompt, _CLIP)
        read = cache.prompt_bytes(job.prompt) - len(job.blocks) * cache.block_bytes
        return read + output * cache.growth

    def _short(self, rank: Rank, lane: Lane, job: Job, later: int) -> float:
        """Bytes that a request lacks after `later` further decode steps; it fits if not above 0."""
        cache, steps = rank.cache, lane.steps_left - lane.count * later
        growth = lane.rate / lane.count if lane.count else 0.0
        expected = steps * growth * cache.growth * self._expected(rank, lane, later)
        asked = self._asked(rank, job) - rank.shared_bytes(job, rank.hit(job))
        return asked + expected - (cache.free - rank.grown(lane) * later)

    def _expected(self, rank: Rank, lane: Lane, later: int) -> float:
        """Expected share of the outputs of running sequences."""
        start, since = self._ratio.setdefault(rank, (_RATIO, lane.step))
        fall = (_RATIO - _LEAST_RATIO) / _FALL_STEPS
        return max(start - fall * (lane.step + later - since), _LEAST_RATIO)

    def _until_room(self, rank: Rank, lane: Lane) -> int:
        """Decode steps until a sequence ends, the cache is full, or the first waiting request
        fits.
        """
        steps = stretch(rank, lane)
        if not rank.waiting or places(rank, lane, self.sequences) <= 0:
            return steps
        job = rank.waiting[0]
        later = range(1, steps)
        return next((at for at in later if self._short(rank, lane, job, at) <= 0), steps)

    def _retract(self, rank: Rank, lane: Lane) -> None:
        while rank.grown(lane) > rank.cache.free and lane.count > 1:
            rank.preempt(lane)
            self._ratio[rank] = (_RATIO, lane.step)

    def _piece(self, tokens: int, left: int, plan: Plan) -> int:
        """Tokens of a prompt in this step: all, a part, or none."""
        if self.chunked:
            return tokens if tokens < left else left
        return tokens if tokens <= left or not plan.pieces else 0

    def _read(self, plan: Plan, rank: Rank, job: Job, left: int) -> int:
        new = self._piece(job.left, left, plan)
        if job.load or (new <= 0 and job.left):
            return 0
        rank.hold(job, rank.needs(job, job.done + new))
        plan.pieces.append((job, new))
        return new
