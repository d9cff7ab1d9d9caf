"""Two stations in series: workers that read prompts, workers that write answers, a load over both.

A prompt waits in one queue for all ranks that read, is read with those that wait beside it, and its
cache travels.  It then waits for the step that runs on its decode worker, and is written in steps
that hold nothing but decodes.  Workers of every shape are priced in one call, and the load is
balanced for all combinations of shapes and numbers at once.

With X requests/s, c workers that read and R that decode, r sequences on each of these::

    X <= c prompts/s,  X <= R answers/s,  X <= c / (time on the link)
    X = R r / (steps T(r))                         T: a decode step of r sequences
    open requests = X (before + reading + travel + admission) + R r

The queue of prompts is M/D/c, and those that arrive while a step reads are read by the next one.
In a closed loop of N users a prompt meets the load of the N - 1 others.

Sources: Sakasegawa, Annals of the Institute of Statistical Mathematics 29 (1977), 67-75 (several
servers); Reiser and Lavenberg, Journal of the ACM 27 (1980), 313-322 (what an arrival in a closed
loop meets); the form as a whole is Ridgeline's.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from genz_core.deployment import Deployment
from genz_core.memory import Memory
from genz_core.serving.room import sequences_that_fit
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.step_correction import StepCorrection
from genz_core.types import Array, Group, Mask, Num, Parallelism, Step, Workload
from genz_core.validity import columns, split_of
from genz_core.workload import decode_step, mixed

_RUNNING = 48  # numbers of sequences that a decode worker is priced at
_HALVINGS = 48
_FULL = 1.0 - 1e-6  # of what is sustained, in a closed loop
_FULLEST = 0.9995  # of a queue whose length is still finite
_MOST_READING = 6.0  # arrivals in a step that reads, beyond which its length is that of its room
_LEAST = 1e-9  # sequences of a decode worker


@dataclass(frozen=True, slots=True)
class Reading:
    """Steps that read some prompts, all together, [shapes]: time, the host's part, its bound [s].

    stage_s: until the next may start.
    """

    total_s: Array
    host_s: Array
    bound_s: Array
    stage_s: Array

    def seconds(self, at: NDArray[np.intp], by: StepCorrection) -> tuple[Array, Array]:
        """(time, time until the next may start) of some shapes as measured runs teach [s]."""
        least, host = self.bound_s[at], self.host_s[at]
        total = np.maximum(by.seconds(self.total_s[at], host, least, reads=True), least)
        return total, total * self.stage_s[at] / self.total_s[at]


@dataclass(frozen=True, slots=True)
class PrefillWorkers:
    """Workers that read prompts, [shapes].

    one: a prompt alone.  each: one on every rank.  full: as many on every rank as a step takes,
    `together`.  ranks: of a worker; coupled: whether they wait for one another.
    cache_bytes: of a prompt on the fullest device.  fits: whether weights and a prompt do; memory:
    of the fullest device with one.
    """

    one: Reading
    each: Reading
    full: Reading
    together: float
    ranks: Array
    coupled: bool
    cache_bytes: Array
    memory: Memory
    fits: Mask

    @property
    def prompts_per_s(self) -> Array:
        """Prompts that one worker reads per second when enough wait to fill its steps."""
        return self.together * self.ranks / self.full.stage_s

    @property
    def group(self) -> Array:
        """Ranks that read in one step."""
        return self.ranks if self.coupled else np.ones_like(self.ranks)


@dataclass(frozen=True, slots=True)
class DecodeWorkers:
    """Workers that write answers.

    running: sequences, none at first; per_s: that generate per second, never fewer with more of
    them; bound_s: least time of a step, [numbers, shapes].  steps: mean decode steps of an answer
    after its first token.  coupled, ranks: as of `PrefillWorkers`.
    most_running, cache_bytes, memory_bytes, fits: [shapes].
    """

    running: Array
    per_s: Array
    bound_s: Array
    steps: float
    ranks: Array
    coupled: bool
    most_running: Array
    cache_bytes: Array
    memory_bytes: Array
    fits: Mask

    @property
    def answers_per_s(self) -> Array:
        """Answers that a worker completes per second, [numbers, shapes]."""
        return self.per_s / max(self.steps, _LEAST)


def prefill_workers(
    deployed: Deployment, split: Parallelism, isl: float, cached: float = 0.0, budget: float = 0.0
) -> PrefillWorkers:
    """Price workers of every shape; degrees of `split` are arrays [shapes].

    cached: tokens of a prompt that a worker finds in its cache and does not read.
    budget: tokens of a step, 0 for the engine's default.
    """
    ranks, engine = columns(Workload(), split)["dp"], deployed.engine
    chunk = float(budget or engine.chunk_tokens or max(isl, 8192.0))
    if engine.scheduler == "tensorrt_llm":  # which never cuts a prompt
        chunk = max(chunk, isl - cached)
    together = max(float(np.floor(chunk / (isl - cached))), 1.0)
    part = cached, isl
    one, each, full = (
        _reading(deployed, split, sequences, chunk, part)
        for sequences in (np.ones_like(ranks), ranks, together * ranks)
    )
    single, fit = sequences_that_fit(
        deployed.model, deployed.system, Workload(1.0, isl, 1.0), split, engine
    )
    return PrefillWorkers(
        one=one,
        each=each,
        full=full,
        together=together,
        ranks=ranks,
        coupled=_coupled(deployed, split),
        cache_bytes=single.kv_bytes,
        memory=single,
        fits=fit >= 1.0,
    )


def _coupled(deployed: Deployment, split: Parallelism) -> bool:
    """Whether attention ranks share experts, and so wait for one another."""
    graph = deployed.graph(Step.decode(1.0, 1.0), split)
    return any(op.operator_class == "moe" for op in graph.ops)


def _reading(
    deployed: Deployment,
    split: Parallelism,
    sequences: Array,
    chunk: float,
    part: tuple[float, float],
) -> Reading:
    """The chunks of a part of `sequences` prompts, from one token to another."""
    starts = np.arange(*part, chunk)
    size, times = sequences.size, starts.size
    lanes = _tiled(split, times)
    new = np.repeat(np.minimum(chunk, part[1] - starts), size)
    cached = np.repeat(starts, size)
    group = Group(np.tile(sequences, times), new, cached, prompt=part[1])
    step = mixed(deployed.model, deployed.system, [group], lanes, deployed.engine)
    staged = np.where(np.asarray(lanes.pp) > 1, np.maximum(step.stage_s, step.host_s), step.total_s)

    def summed(values: Array) -> Array:
        return np.asarray(np.broadcast_to(values, new.shape).reshape(times, size).sum(0))

    least = summed(step.bound_total_s)
    whole = np.maximum(summed(step.total_s), least)
    return Reading(whole, summed(step.host_s), least, summed(staged))


def decode_workers(
    deployed: Deployment,
    split: Parallelism,
    isl: float,
    osl: float,
    steps: float,
    sharing: Sharing = ALONE,
    limit: Num = 0.0,
) -> DecodeWorkers:
    """Price workers of every shape at every number of requests up to the most that run.

    steps: mean decode steps of an answer after its first token.  sharing: of a request's sequences.
    limit: sequences that run on a rank at most, 0 for the engine's default; a number or [shapes].
    """
    ranks, engine = columns(Workload(), split)["dp"], deployed.engine
    load = Workload(1.0, isl, osl)
    site = (deployed.model, deployed.system)
    single, fit = sequences_that_fit(*site, load, split, engine, sharing)
    told = np.asarray(limit, dtype=float)
    limit = np.floor(np.where(told > 0, told, engine.max_sequences) / sharing.branches)
    most = np.maximum(np.minimum(fit, limit * ranks), 1.0)
    running = np.geomspace(np.ones_like(most), np.maximum(most, 2.0), _RUNNING)
    size = most.size
    step = decode_step(
        *site,
        running.ravel() * sharing.branches,
        isl + osl / 2.0,
        _tiled(split, _RUNNING),
        engine,
    )
    least = step.bound_total_s.reshape(_RUNNING, size)
    seconds = np.maximum(step.total_s.reshape(_RUNNING, size), least)
    none = np.zeros((1, size))
    return DecodeWorkers(
        running=np.concatenate([none, running]),
        per_s=np.concatenate([none, np.maximum.accumulate(running / seconds)]),
        bound_s=np.concatenate([least[:1], least]),
        steps=steps,
        ranks=ranks,
        coupled=_coupled(deployed, split),
        most_running=most,
        cache_bytes=single.kv_bytes,
        memory_bytes=single.total_bytes + single.kv_bytes * np.maximum(most / ranks - 1.0, 0.0),
        fits=fit >= 1.0,
    )


def _tiled(split: Parallelism, times: int) -> Parallelism:
    numbers = columns(Workload(), split)
    return split_of(
        split, {n: np.tile(numbers[n], times) for n in ("tp", "pp", "dp", "ep") if n in numbers}
    )


# ------------------------------------------------------------------------------- both


@dataclass(frozen=True, slots=True)
class Combinations:
    """Deployments of both pools, [deployments].

    prefill, decode: which shapes.  prefill_workers, decode_workers: how many of each.
    busy_s, latency_s: of a prompt's cache on the link of a worker, and on top.
    """

    prefill: NDArray[np.intp]
    decode: NDArray[np.intp]
    prefill_workers: Array
    decode_workers: Array
    busy_s: Array
    latency_s: Num = 0.0


@dataclass(frozen=True, slots=True)
class Learned:
    """What measured runs say of the steps of both pools, [deployments] or one for all.

    prefill, decode: of their steps.  before_s: of a request, before a worker has it.
    """

    prefill: StepCorrection
    decode: StepCorrection
    before_s: Num = 0.0

    @classmethod
    def nothing(cls, size: int, before_s: Num = 0.0) -> Learned:
        """Steps as physics prices them."""
        plain = StepCorrection(np.ones(size), np.ones(size), np.zeros(size))
        return cls(plain, plain, before_s)

    def picked(self, at: NDArray[np.intp]) -> Learned:
        """That of some deployments."""
        before = self.before_s if np.ndim(self.before_s) == 0 else np.asarray(self.before_s)[at]
        return Learned(self.prefill.picked(at), self.decode.picked(at), before)


@dataclass(frozen=True, slots=True)
class Habits:
    """How requests come, and how the decode workers take them.

    waves: that each user sends from a common start, 0 for a steady loop; a number or
    [deployments].  ahead_steps: see `EngineProfile`.  late_steps: decode steps between the first
    token and its delivery.  look_every: between two looks at new requests.
    shown_by: the pool that brings the user the first token, see `Transfer`.
    """

    waves: Num = 0.0
    ahead_steps: float = 0.0
    late_steps: Num = 0.0
    look_every: Num = 1.0
    shown_by: Literal["prefill", "decode"] = "decode"


@dataclass(frozen=True, slots=True)
class PooledLoad:
    """A load through both pools, [deployments]; times in seconds.

    running: sequences of one decode worker.  use: share of what the slower station sustains.
    most_per_s: requests that it does.  prefill_s, bound_prefill_s: a prompt alone.  travel_s: of
    its cache, alone.  step_s, bound_step_s: the steady decode step, and the least that it can be.
    """

    requests_per_s: Array
    ttft_s: Array
    ttft_median_s: Array
    tpot_s: Array
    running: Array
    use: Array
    most_per_s: Array
    prefill_s: Array
    bound_prefill_s: Array
    travel_s: Array
    step_s: Array
    bound_step_s: Array


def pooled_load(
    prefill: PrefillWorkers,
    decode: DecodeWorkers,
    which: Combinations,
    osl: float,
    *,
    rate_per_s: Num = 0.0,
    concurrency: Num = 0.0,
    learned: Learned | None = None,
    habits: Habits | None = None,
) -> PooledLoad:
    """Both pools under an arrival rate, or under `concurrency` open requests by Little's law.

    rate_per_s, concurrency: one of them, a number or [deployments].  learned: nothing by default.
    """
    size = which.prefill.size
    learned, habits = learned or Learned.nothing(size), habits or Habits()
    whole = {name: np.empty(size) for name in PooledLoad.__dataclass_fields__}
    users, rate = (
        np.broadcast_to(np.asarray(x, float), (size,)) for x in (concurrency, rate_per_s)
    )
    for shape in np.unique(which.decode):
        at = np.flatnonzero(which.decode == shape)
        some = _Series.of(prefill, decode, which, at, learned.picked(at), _picked(habits, at, size))
        found = some.closed(users[at], osl) if np.any(users) else some.open(rate[at], osl)
        for name, column in whole.items():
            column[at] = getattr(found, name)
    return PooledLoad(**whole)


def _picked(habits: Habits, at: NDArray[np.intp], size: int) -> Habits:
    """Those of some deployments."""

    def of(values: Num) -> Array:
        return np.broadcast_to(np.asarray(values, dtype=float), (size,))[at]

    return replace(
        habits,
        waves=of(habits.waves),
        late_steps=of(habits.late_steps),
        look_every=of(habits.look_every),
    )


@dataclass(frozen=True, slots=True)
class _Series:
    """Deployments whose decode workers are of one shape, [deployments].

    numbers, per_s, bound_s: sequences of a decode worker, that generate per second, least step,
    [numbers].  steps: of an answer.  scale: measured over priced time of a step.
    writers, readers: workers.  servers: ranks that read; groups: those that read together.
    together: prompts of a full step of a group.  one, each, full: its time with one prompt (at
    least `least`), with one on each of its `abreast` ranks, and full.  reads_per_s: prompts of all
    readers at most.  busy_s: of a prompt on a link.  before_s: that no step takes.
    apart: decode workers, or their ranks where these do not wait for one another.
    """

    numbers: Array
    per_s: Array
    bound_s: Array
    steps: float
    scale: Array
    writers: Array
    readers: Array
    most: Array
    servers: Array
    groups: Array
    together: Array
    abreast: Array
    one: Array
    least: Array
    each: Array
    full: Array
    reads_per_s: Array
    busy_s: Array
    latency_s: Array
    before_s: Array
    apart: Array
    habits: Habits = field(default_factory=Habits)

    @classmethod
    def of(
        cls,
        prefill: PrefillWorkers,
        decode: DecodeWorkers,
        which: Combinations,
        at: NDArray[np.intp],
        learned: Learned,
        habits: Habits,
    ) -> _Series:
        first, shape = which.prefill[at], int(which.decode[at[0]])
        readers, writers = which.prefill_workers[at], which.decode_workers[at]
        (one, _), (each, _), (full, gap) = (
            part.seconds(first, learned.prefill)
            for part in (prefill.one, prefill.each, prefill.full)
        )
        ranks, group = prefill.ranks[first], prefill.group[first]
        travels = 1.0 if decode.steps > 0 else 0.0
        return cls(
            numbers=decode.running[:, shape],
            per_s=decode.per_s[:, shape],
            bound_s=decode.bound_s[:, shape],
            steps=max(decode.steps, 0.0),
            scale=learned.decode.steps,
            writers=writers,
            readers=readers,
            most=np.broadcast_to(decode.most_running[shape], at.shape),
            servers=readers * ranks,
            groups=readers * ranks / group,
            together=prefill.together * group,
            abreast=group,
            one=one,
            least=prefill.one.bound_s[first],
            each=np.maximum(each, one),
            full=np.maximum(full, np.maximum(each, one)),
            reads_per_s=readers * prefill.together * ranks / gap,
            busy_s=which.busy_s[at] * travels,
            latency_s=np.broadcast_to(np.asarray(which.latency_s, float),
                                      which.prefill.shape)[at] * travels,
            before_s=np.broadcast_to(np.asarray(learned.before_s, float), at.shape),
            apart=writers * (1.0 if decode.coupled else decode.ranks[shape]),
            habits=habits,
        )  # fmt: skip

    # --------------------------------------------------------------------------- the stations

    def together_s(self, prompts: Array) -> Array:
        """Time in which a group reads so many prompts, at most those of a full step [s]."""
        some = np.clip(prompts, 1.0, self.together)
        wide, deep = self.abreast - 1.0, self.together - self.abreast
        low = np.minimum(some, self.abreast) - 1.0
        abreast = self.one + (self.each - self.one) * low / np.maximum(wide, 1.0)
        high = np.maximum(some - self.abreast, 0.0)
        return np.asarray(abreast + (self.full - self.each) * high / np.maximum(deep, 1e-9))

    def _met(self, rate: Array) -> Array:
        """Prompts that a group reads together: as many as arrive while they are read."""
        wide = (self.each - self.one) / np.maximum(self.abreast - 1.0, 1e-9)
        deep = (self.full - self.each) / np.maximum(self.together - self.abreast, 1e-9)
        abreast = rate * (self.one - wide) / np.maximum(1.0 - rate * wide, 1e-9)
        beyond = rate * (self.each - deep * self.abreast) / np.maximum(1.0 - rate * deep, 1e-9)
        found = np.where(rate * self.each < self.abreast, abreast, beyond)
        return np.asarray(np.clip(found, 1.0, self.together))

    def read_s(self, per_s: Array) -> tuple[Array, Array, Array]:
        """(wait and reading of a prompt, the wait alone [s], chance of one) at a rate of all."""
        rate = per_s / self.groups
        used = np.minimum(per_s / self.reads_per_s, _FULLEST)
        step = self.together_s(self._met(rate))
        arriving = np.minimum(rate * step, _MOST_READING)
        chain = arriving * np.exp(arriving)
        several = np.clip(self.together - 1.0, 0.0, 1.0)
        busy = used + several * np.maximum(chain / (1.0 + chain) - used, 0.0)
        held = busy ** (np.sqrt(2.0 * (self.groups + 1.0)) - 1.0)  # all groups at once
        waiting = used ** (np.sqrt(2.0 * (self.servers + 1.0)) - 1.0) / self.servers / (1.0 - used)
        each = self.full * self.abreast / self.together
        queue = np.maximum(waiting - used / self.servers, 0.0) / 2.0 * each
        # to the same ranks, where others stand with as little to do; long steps gather more
        beside = rate * held / np.maximum(busy, 1e-12)
        longer = self.together_s(1.0 + beside * step)
        wait = held * longer / 2.0 + queue
        own = self.one + held * (self.together_s(1.0 + beside * longer) - self.one)
        return wait + own, wait + own - self.one, held

    def travel_s(self, per_s: Array) -> Array:
        """Time of a prompt's cache on its way, behind those that were read with it [s]."""
        rate = per_s / self.groups
        beside = np.clip(rate * self.one, 0.0, self.together - 1.0) / 2.0
        used = np.minimum(per_s / self.readers * self.busy_s, _FULLEST)
        queue = used / (2.0 * (1.0 - used))
        return self.latency_s + self.busy_s * (1.0 + np.maximum(beside, queue))

    def step_s(self, running: Array) -> Array:
        """A decode step of so many sequences of a worker [s]."""
        per_s = np.interp(running, self.numbers, self.per_s)
        least = np.interp(running, self.numbers, self.bound_s)
        return np.maximum(self.scale * running / per_s, least)

    def seen_s(self, running: Array, others: Array) -> Array:
        """The steps of an answer where so many run on a worker in the mean [s]: beside those that
        run when it comes, and itself.  others: share of the load that they are."""
        beside = running * others + 1.0 / self.writers
        return self.step_s(np.minimum(np.maximum(beside, 1.0), np.maximum(self.most, running)))

    def admission_s(self, running: Array, step: Array) -> Array:
        """What is left of the running step when a cache arrives, and the steps planned [s].

        running: of each worker, those of others.
        """
        busy = -np.expm1(-running * self.writers / self.apart)
        looks = (np.maximum(self.habits.look_every, 1.0) - 1.0) / 2.0
        some = 1.0 if self.steps > 0 else 0.0
        return some * busy * (0.5 + self.habits.ahead_steps + looks) * step

    @property
    def most_per_s(self) -> Array:
        """Requests that the slowest station sustains [1/s]."""
        on_link = self.readers / np.maximum(self.busy_s, 1e-15)
        answers: Num = np.inf
        if self.steps > 0:
            answers = self.writers * self.most / (self.steps * self.step_s(self.most))
        return np.minimum(np.minimum(self.reads_per_s, on_link), answers)

    # --------------------------------------------------------------------------- the load

    def closed(self, users: Array, osl: float) -> PooledLoad:
        """Users that send their next request when the last one ends."""
        others = 1.0 - 1.0 / np.maximum(users, 1.0)
        if self.steps > 0:
            low, high = np.full(users.shape, _LEAST), np.maximum(self.most, _LEAST)
            for _ in range(_HALVINGS):
                middle = np.sqrt(low * high)
                fewer = self._open_requests(middle, others) < users
                low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
            running = low
            per_s = np.minimum(self._answered(running, others), self.most_per_s * _FULL)
        else:
            low, high = np.zeros(users.shape), self.most_per_s * _FULL
            for _ in range(_HALVINGS):
                middle = (low + high) / 2.0
                fewer = middle * (self.before_s + self.read_s(middle * others)[0]) < users
                low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
            running, per_s = np.zeros(users.shape), low
        return self._figures(per_s, running, others, osl, users)

    def open(self, rate: Array, osl: float) -> PooledLoad:
        """Arrivals at a rate."""
        per_s = np.minimum(rate, self.most_per_s)
        running = np.zeros(rate.shape)
        if self.steps > 0:
            low, high = np.full(rate.shape, _LEAST), self.most
            for _ in range(_HALVINGS):
                middle = np.sqrt(low * high)
                fewer = self._answered(middle, np.ones(rate.shape)) < per_s
                low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
            running = high
        found = self._figures(per_s, running, np.ones(rate.shape), osl, None)
        use = rate / self.most_per_s
        full = use >= 1.0
        first, median = (np.where(full, np.inf, t) for t in (found.ttft_s, found.ttft_median_s))
        return replace(found, requests_per_s=rate, use=use, ttft_s=first, ttft_median_s=median)

    def _answered(self, running: Array, others: Array) -> Array:
        return self.writers * running / (self.steps * self.seen_s(running, others))

    def _open_requests(self, running: Array, others: Array) -> Array:
        """Open requests where so many run on a decode worker; none too few where a station is
        full."""
        per_s, step = self._answered(running, others), self.seen_s(running, others)
        met = np.minimum(per_s, self.most_per_s) * others
        first = self.before_s + self.read_s(met)[0] + self.travel_s(met)
        first = first + self.admission_s(running * others, step)
        found = self.writers * running + per_s * first
        return np.where(per_s < self.most_per_s * _FULL, found, np.inf)

    def _figures(
        self, per_s: Array, running: Array, others: Array, osl: float, users: Array | None
    ) -> PooledLoad:
        met, decodes = per_s * others, np.maximum(running, _LEAST)
        step = self.seen_s(decodes, others)
        reading, waits, chance = self.read_s(met)
        travel, admission = self.travel_s(met), self.admission_s(running * others, step)
        answer = self.steps * step
        first = self.before_s + reading + travel + admission
        queue = np.zeros_like(first)
        if users is not None:
            queue = np.maximum(users / per_s - answer - first, 0.0)
            first = first + queue
        waits = np.maximum(waits, 1e-15)
        crowded = np.maximum(chance, 0.5)
        usual = waits * np.log(2.0 * crowded) / crowded
        median = first - waits + usual
        burst = self._burst_s(users, reading + queue)
        later = self.habits.late_steps * step
        shown = travel + admission if self.habits.shown_by == "prefill" else 0.0
        gaps = max(osl - 1.0, 1.0)
        return PooledLoad(
            requests_per_s=per_s,
            ttft_s=first + burst + later - shown,
            ttft_median_s=median + later - shown,
            tpot_s=(answer + shown) / gaps if self.steps > 0 else step,
            running=running,
            use=per_s / self.most_per_s,
            most_per_s=self.most_per_s,
            prefill_s=self.one,
            bound_prefill_s=self.least,
            travel_s=self.latency_s + self.busy_s,
            step_s=step,
            bound_step_s=np.interp(np.maximum(decodes, 1.0), self.numbers, self.bound_s),
        )

    def _burst_s(self, users: Array | None, usual: Array) -> Array | float:
        """What a common start adds to the mean first token of all waves [s]: half of the prompts
        that all users send at once are read before one's own."""
        if users is None or not np.any(self.habits.waves):
            return 0.0
        rounds = users / (self.groups * self.together)
        wave = np.where(
            rounds > 1.0,
            (users / self.reads_per_s + self.full) / 2.0,
            self.together_s(users / self.groups),
        )
        waves = np.asarray(self.habits.waves)
        behind = np.maximum(wave - usual, 0.0) / np.where(waves > 0, waves, 1.0)
        return np.where(waves > 0, behind, 0.0)
