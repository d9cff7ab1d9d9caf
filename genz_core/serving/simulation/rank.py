"""One rank of a deployment: its queue, its cache, and the sequences of its pipeline lanes.

Decoding sequences are not visited one by one: all sequences of a lane advance by a step together,
so a thousand of them cost as much as one.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Sequence

from genz_core.serving.simulation.cache import KvCache
from genz_core.serving.simulation.requests import Prefix
from genz_core.serving.simulation.tiers import Load, Tiers

_NOTHING = Load([], [])


class Job:
    """A request on a rank.

    prompt: tokens to prefill before decoding; after a preemption including those already generated.
    length: tokens at the end.  done: prompt tokens prefilled or found in the cache.  steps: decode
    steps after the first token; growth: tokens gained in each, so that the request ends with the
    last.  entered: step of the lane at which it began to decode, -1 if it is not decoding; stays:
    number of times it began.  ran: decode steps until it left.  held: bytes of its own; blocks:
    prefix blocks that it shares.  stopped_s: time of its last token before a preemption, or before
    another pool continues it.  load: blocks that it waits for, None for none.
    """

    __slots__ = (
        "blocks", "done", "entered", "growth", "held", "length", "load", "prefix", "prompt", "ran",
        "row",
        "stays", "steps", "stopped_s",
    )  # fmt: skip

    def __init__(self, row: int, prompt: int, output: int, steps: int, prefix: Prefix) -> None:
        self.row = row
        self.prompt = prompt
        self.length = prompt + output
        self.steps = steps
        self.growth = (output - 1) / steps if steps else 0.0
        self.prefix = prefix
        self.done = 0
        self.entered = -1
        self.stays = 0
        self.ran = 0
        self.held = 0.0
        self.blocks: list[int] = []
        self.load: Load | None = None
        self.stopped_s = math.nan

    @property
    def left(self) -> int:
        """Prompt tokens that still need prefill."""
        return self.prompt - self.done

    def begin_again(self) -> None:
        """Start over: prefill the prompt and the generated tokens again, then continue."""
        if self.left:
            self.done = 0
            return
        self.prompt += round(self.ran * self.growth) + 1
        output = self.length - self.prompt
        self.steps = max(math.ceil((output - 1) / self.growth - 1e-9), 0) if self.growth else 0
        self.growth = (output - 1) / self.steps if self.steps else 0.0
        self.ran = self.done = 0


class Lane:
    """Sequences that share a step: all of a rank, or those of one micro-batch of a pipeline.

    prefilling: admitted requests with unfinished prompts, in order.  count: decoding sequences;
    tokens: their total in the cache; rate: tokens that they gain per step together; step: decode
    steps so far.  resumed: sequences prefilled by another pool that have not decoded here yet.
    """

    __slots__ = (
        "_ends", "_order", "_sum_of_ends", "count", "prefilling", "rate", "resumed", "step",
        "tokens",
    )  # fmt: skip

    def __init__(self) -> None:
        self.prefilling: list[Job] = []
        self.resumed: list[Job] = []
        self.count = 0
        self.tokens = 0.0
        self.rate = 0.0
        self.step = 0
        self._sum_of_ends = 0
        self._ends: list[tuple[int, int, int, Job]] = []
        self._order: list[Job] = []

    @property
    def running(self) -> int:
        return self.count + len(self.prefilling)

    @property
    def steps_left(self) -> int:
        """Total decode steps that its sequences still need."""
        return self._sum_of_ends - self.count * self.step

    def enter(self, job: Job) -> None:
        """Add a sequence whose prompt is prefilled to the decoding sequences."""
        job.entered = self.step
        end = self.step + job.steps
        job.stays += 1
        heapq.heappush(self._ends, (end, job.row, job.stays, job))
        self._order.append(job)
        self.count += 1
        self._sum_of_ends += end
        self.tokens += job.prompt
        self.rate += job.growth

    def advance(self, steps: int) -> None:
        """Advance every sequence by some decode steps."""
        self.step += steps
        self.tokens += steps * self.rate

    def steps_to_an_end(self) -> int:
        """Steps until the next sequence ends; 0 if no sequence decodes."""
        ends = self._ends
        while ends:  # entries of sequences removed before, which may run elsewhere
            end, _, stay, job = ends[0]
            if job.entered >= 0 and job.stays == stay:
                return end - self.step
            heapq.heappop(ends)
        return 0

    def ended(self) -> Sequence[Job]:
        """Remove the sequences that have generated all their tokens."""
        ends, step = self._ends, self.step
        if not ends or ends[0][0] > step:
            return ()
        jobs: list[Job] = []
        while ends and ends[0][0] <= step:
            _, _, stay, job = heapq.heappop(ends)
            if job.entered >= 0 and job.stays == stay:
                self._leave(job)
                jobs.append(job)
        return jobs

    def last(self) -> Job | None:
        """Remove the sequence admitted last; None if none runs."""
        if self.prefilling:
            return self.prefilling.pop()
        while self._order and self._order[-1].entered < 0:
            self._order.pop()
        if not self._order:
            return None
        job = self._order.pop()
        self._leave(job)
        return job

    def _leave(self, job: Job) -> None:
        job.ran = self.step - job.entered
        self.count -= 1
        self._sum_of_ends -= job.entered + job.steps
        self.tokens -= job.prompt + job.ran * job.growth
        self.rate -= job.growth
        if not self.count:
            self.tokens = self.rate = 0.0
        job.entered = -1
        if len(self._order) > 64 + 4 * self.count:
            self._order = [other for other in self._order if other.entered >= 0]


class Rank:
    """Queue and cache of one rank, and the lanes of its sequences.

    reserves: whether a sequence's whole cache is reserved on admission, so that it never grows.
    waiting: requests known to the scheduler and not admitted, in order; mail: requests that it has
    not looked at, the first `seen` of which had arrived by the last step; received: decode steps
    since its last look.  coming: sequences prefilled by another pool that wait for a step here.
    preempted: see `preempt`.  tiers: below the cache, None for none; asked: sequences whose blocks
    are to be read from them; loading: sequences that wait for theirs.
    """

    __slots__ = (
        "__weakref__", "_token_bytes", "asked", "cache", "coming", "lanes", "loading", "mail",
        "preempted", "received", "seen", "tiers", "waiting",
    )  # fmt: skip

    def __init__(
        self, cache: KvCache, lanes: int, *, reserves: bool, tiers: Tiers | None = None
    ) -> None:
        self.cache = cache
        self.tiers = tiers
        self.asked: list[Job] = []
        self.loading = 0
        if tiers:
            cache.evicted = tiers.demoted
        self.lanes = [Lane() for _ in range(lanes)]
        self._token_bytes = 0.0 if reserves else cache.growth
        self.waiting: deque[Job] = deque()
        self.mail: deque[Job] = deque()
        self.received = 0
        self.seen = 0
        self.coming = 0
        self.preempted: list[Job] = []

    @property
    def running(self) -> int:
        running = 0
        for lane in self.lanes:
            running += lane.count + len(lane.prefilling)
        return running

    @property
    def load(self) -> int:
        """Number of requests on the rank, running or not."""
        load = len(self.waiting) + len(self.mail) + self.coming
        for lane in self.lanes:
            load += lane.count + len(lane.prefilling)
        return load

    def hit(self, job: Job) -> int:
        """Shared prompt tokens in the cache: whole blocks, never the last token."""
        cache = self.cache
        if not job.prefix or not cache.shares:
            return 0
        return cache.hits(job.prefix, self._most_blocks(job)) * cache.block_tokens

    def known(self, job: Job, hit: int) -> int:
        """Prompt tokens that need no prefill: done, in the cache (`hit`) or in a tier."""
        if job.done:
            return max(job.done, hit)
        return hit + len(self._below(job, hit).blocks) * self.cache.block_tokens

    def _most_blocks(self, job: Job) -> int:
        return (job.prompt - 1) // self.cache.block_tokens

    def _below(self, job: Job, hit: int) -> Load:
        """The blocks after the cached ones that the tiers hold."""
        if not self.tiers or not self.cache.shares:
            return _NOTHING
        first = hit // self.cache.block_tokens
        return self.tiers.find(job.prefix[first : self._most_blocks(job)])

    def needs(self, job: Job, tokens: float) -> float:
        """Bytes of its own that a sequence needs for `tokens` tokens in the cache."""
        return self.cache.prompt_bytes(tokens) - len(job.blocks) * self.cache.block_bytes

    def asks(self, job: Job, tokens: float, hit: int) -> float:
        """Bytes that a sequence takes from the cache for `tokens` tokens, of which `hit` are
        shared.

        Shared blocks that no sequence uses count too: they can no longer be evicted.
        Source: vLLM 0.11, vllm/v1/core/single_type_kv_cache_manager.py,
        `get_num_blocks_to_allocate` (evictable computed blocks).
        """
        return self.cache.prompt_bytes(tokens) - self.shared_bytes(job, hit)

    def shared_bytes(self, job: Job, hit: int) -> float:
        """Bytes of a prompt's cached blocks that other sequences already use."""
        if not hit:
            return 0.0
        blocks = job.prefix[: hit // self.cache.block_tokens]
        return self.cache.held(blocks) * self.cache.block_bytes

    def grown(self, lane: Lane) -> float:
        """Bytes that the sequences of a lane take in one decode step."""
        return lane.rate * self._token_bytes

    def spare(self, lane: Lane) -> float:
        """Bytes left after the sequences of a lane take one decode step."""
        cache = self.cache
        return cache.capacity - cache.used - lane.rate * self._token_bytes

    def admit(self, job: Job, lane: Lane, hit: int) -> None:
        """Move a request from the queue into a lane and share its cached blocks.

        A request prefilled by another pool decodes from the next step.
        """
        if job.prefix and hit:
            job.blocks = list(job.prefix[: hit // self.cache.block_tokens])
            self.cache.hold(job.blocks)
        job.done = max(job.done, hit)
        if job.left:
            lane.prefilling.append(job)
            self._ask(job, hit)
        else:
            self.hold(job, self.needs(job, job.prompt))
            lane.enter(job)
            lane.resumed.append(job)

    def _ask(self, job: Job, hit: int) -> None:
        """Request from the tiers the blocks of a prompt that follow the cached ones."""
        if not self.tiers or not job.prefix or job.done > hit:
            return
        load = self._below(job, hit)
        self.tiers.use(job.prefix[: self._most_blocks(job)])
        if not load.blocks:
            return
        job.done = hit + len(load.blocks) * self.cache.block_tokens
        job.load = load
        self.hold(job, self.needs(job, job.done))
        self.asked.append(job)
        self.loading += 1

    def loaded(self, job: Job) -> None:
        """Put the blocks that a sequence waited for into the cache, where others can share them."""
        load, job.load = job.load, None
        self.loading -= 1
        if self.tiers and load:
            self._share(job, job.done)
            self.tiers.landed(load)

    def hold(self, job: Job, held: float) -> None:
        """Set the bytes that a sequence holds for itself."""
        cache = self.cache
        cache.used += held - job.held
        job.held = held
        if cache.shares:
            cache.trim()

    def read(self, job: Job) -> None:
        """Finish the prefill of a job: others may share its blocks from now on."""
        if job.prefix:
            self._share(job, job.prompt)
            self._write(job, job.prompt)

    def advance(self, lane: Lane, steps: int) -> None:
        """Advance the sequences of a lane by some decode steps and grow their cache."""
        lane.advance(steps)
        cache = self.cache
        cache.used += steps * (lane.rate * self._token_bytes)
        if cache.shares:
            cache.trim()

    def finish(self, job: Job) -> None:
        """End a sequence; its shareable blocks stay in the cache."""
        if job.prefix:
            self._share(job, job.length)
            self._write(job, job.length)
        self._give_back(job)

    def preempt(self, lane: Lane) -> None:
        """Move the sequence admitted last back to the head of the queue, if any runs.

        Its cache is lost: it prefills its prompt and its generated tokens again.  It stays in
        `preempted` until the event is recorded.
        """
        job = self.take_out(lane)
        if job is not None:
            self.waiting.appendleft(job)
            self.preempted.append(job)

    def take_out(self, lane: Lane) -> Job | None:
        """Remove the sequence admitted last, ready to start over; None if none runs."""
        job = lane.last()
        if job is None:
            return None
        if job.load:
            job.load = None
            self.loading -= 1
        self._give_back(job)
        job.begin_again()
        return job

    def _write(self, job: Job, tokens: int) -> None:
        """Record computed blocks of a sequence in the tiers that are written immediately."""
        if self.tiers and self.cache.shares:
            self.tiers.write(job.prefix[: tokens // self.cache.block_tokens])

    def _share(self, job: Job, tokens: int) -> None:
        known = len(job.blocks)
        shared = self.cache.share(job.prefix[known : tokens // self.cache.block_tokens])
        job.blocks += shared
        job.held -= len(shared) * self.cache.block_bytes

    def _give_back(self, job: Job) -> None:
        self.cache.used -= job.held + job.ran * job.growth * self._token_bytes
        job.held = 0.0
        if job.blocks:
            blocks, job.blocks = job.blocks, []
            self.cache.drop(blocks)
