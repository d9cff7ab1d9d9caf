"""Capacity of workers of each shape, for prompts and for answers; all shapes are priced in one
call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.deployment import Deployment
from genz_core.phases import decode_step, mixed
from genz_core.serving.kv_capacity import sequences_that_fit, usual_tokens
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.steps.step_correction import StepCorrection
from genz_core.types import Array, Group, Mask, Num, Parallelism, Places, Step, Workload
from genz_core.validity import columns, split_of

#: Numbers of sequences at which a decode worker is priced: judgement.
_RUNNING = 48


@dataclass(frozen=True, slots=True)
class Reading:
    """Steps that read some prompts together, [shapes]: time, host's part, bound [s].

    stage_s: time until the next step may start.
    """

    total_s: Array
    host_s: Array
    bound_s: Array
    stage_s: Array

    def seconds(self, at: Places, by: StepCorrection) -> tuple[Array, Array]:
        """(time, time until the next step may start) of some shapes, corrected by measured runs
        [s].
        """
        least, host = self.bound_s[at], self.host_s[at]
        total = np.maximum(by.seconds(self.total_s[at], host, least, reads=True), least)
        return total, total * self.stage_s[at] / self.total_s[at]


@dataclass(frozen=True, slots=True)
class PrefillWorkers:
    """Prefill workers, [shapes].

    one: a step with a single prompt.  each: with one per rank.  full: with as many per rank as fit
    in a step, `together`.  ranks: of a worker; coupled: they wait for one another.
    cache_bytes: of a prompt on the fullest device.  fits: weights and one prompt fit.
    """

    one: Reading
    each: Reading
    full: Reading
    together: float
    ranks: Array
    coupled: bool
    cache_bytes: Array
    fits: Mask

    @property
    def prompts_per_s(self) -> Array:
        """Prompts that one worker reads per second when enough are waiting to fill its steps."""
        return self.together * self.ranks / self.full.stage_s

    @property
    def group(self) -> Array:
        """Ranks that read in the same step."""
        return self.ranks if self.coupled else np.ones_like(self.ranks)


@dataclass(frozen=True, slots=True)
class DecodeWorkers:
    """Decode workers.

    running: numbers of sequences, starting at 0; per_s: rate at which they complete steps,
    non-decreasing in their number; bound_s: least time of a step, [numbers, shapes].  steps: mean
    decode steps of an answer after its first token.  coupled, ranks: as in `PrefillWorkers`.
    ahead_steps: including those of the hand-over, see `EngineProfile`; it, most_running,
    cache_bytes, memory_bytes and fits are [shapes].
    """

    running: Array
    per_s: Array
    bound_s: Array
    steps: float
    ranks: Array
    coupled: bool
    ahead_steps: Array
    most_running: Array
    cache_bytes: Array
    memory_bytes: Array
    fits: Mask

    @property
    def answers_per_s(self) -> Array:
        """Answers that a worker completes per second, [numbers, shapes]."""
        return self.per_s / max(self.steps, 1e-9)


def prefill_workers(
    deployed: Deployment, split: Parallelism, isl: float, cached: float = 0.0, budget: float = 0.0
) -> PrefillWorkers:
    """Price workers of every shape; degrees of `split` are arrays [shapes].

    cached: tokens of a prompt that a worker finds in its cache.
    budget: tokens of a step, 0 for the engine's default.
    """
    ranks, engine = columns(Workload(), split)["dp"], deployed.engine
    chunk = float(budget or usual_tokens(engine, isl, 1.0))
    if engine.whole_prompts:
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
        fits=fit >= 1.0,
    )


def _coupled(deployed: Deployment, split: Parallelism) -> bool:
    """Whether attention ranks share experts and therefore wait for one another."""
    graph = deployed.graph(Step.decode(1.0, 1.0), split)
    return any(op.operator_class == "moe" for op in graph.ops)


def _reading(
    deployed: Deployment,
    split: Parallelism,
    sequences: Array,
    chunk: float,
    part: tuple[float, float],
) -> Reading:
    """The chunks of `sequences` prompts, for a part of them from one token to another."""
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
    limit: most sequences that run on a rank, 0 for the engine's default; a number or [shapes].
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
        ahead_steps=engine.hand_over_steps
        + np.where(columns(Workload(), split)["pp"] > 1.0, 0.0, engine.ahead_steps),
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
