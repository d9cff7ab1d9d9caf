"""Prefill and decode pools side by side: many shapes of workers, and many numbers of each.

The same equations as `genz_core.serving.disaggregation`, over arrays: workers of every shape are
priced in one call, and a loop through both pools is solved for all their combinations at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genz_core.deployment import Deployment
from genz_core.serving.disaggregation import queue_s
from genz_core.serving.room import sequences_that_fit
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.step_correction import least_scale, step_correction
from genz_core.types import Array, Group, Mask, Parallelism, Workload
from genz_core.validity import columns, split_of
from genz_core.workload import decode_step, mixed

_RUNNING = 48  # numbers of sequences that a decode worker is priced at
_HALVINGS = 48
_ANSWER = 256.0  # tokens out of the loads whose runs correct the reading of prompts
_FULL = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class PrefillWorkers:
    """Workers that read prompts, [shapes].

    alone_s: time of a prompt alone.  bound_s: the least it can be.  prompts_per_s: when enough
    wait.  cache_bytes: of a prompt on the fullest device.  fits: whether weights and a prompt do.
    """

    alone_s: Array
    bound_s: Array
    prompts_per_s: Array
    cache_bytes: Array
    memory_bytes: Array
    fits: Mask


@dataclass(frozen=True, slots=True)
class DecodeWorkers:
    """Workers that write answers.

    running: sequences, answers_per_s: completed with so many, bound_s: least time of a token,
    [numbers, shapes], none at first.  most_running, cache_bytes, memory_bytes, fits: [shapes], as
    of `PrefillWorkers`.
    """

    running: Array
    answers_per_s: Array
    bound_s: Array
    most_running: Array
    cache_bytes: Array
    memory_bytes: Array
    fits: Mask


def prefill_workers(
    deployed: Deployment, split: Parallelism, isl: float, cached: float = 0.0
) -> PrefillWorkers:
    """Price workers of every shape; degrees of `split` are arrays [shapes].

    cached: tokens of a prompt that a worker finds in its cache and does not read.
    """
    numbers = columns(Workload(), split)
    ranks, stages = numbers["dp"], numbers["pp"]
    engine = deployed.engine
    chunk = float(engine.chunk_tokens or isl)
    together = max(np.floor(chunk / (isl - cached)), 1.0)
    one, _, one_least = _reading(deployed, split, ranks, chunk, (cached, isl))
    _, gaps, _ = _reading(deployed, split, together * ranks, chunk, (cached, isl))
    single, fit = sequences_that_fit(
        deployed.model, deployed.system, Workload(1.0, isl, 1.0), split, engine
    )
    return PrefillWorkers(
        alone_s=one,
        bound_s=one_least,
        prompts_per_s=together * ranks / np.where(stages > 1, gaps[1], gaps[0]),
        cache_bytes=single.kv_bytes,
        memory_bytes=single.total_bytes,
        fits=fit >= 1.0,
    )


def _reading(
    deployed: Deployment,
    split: Parallelism,
    sequences: Array,
    chunk: float,
    part: tuple[float, float],
) -> tuple[Array, tuple[Array, Array], Array]:
    """Time of the chunks of a part of `sequences` prompts, from one token to another [s], that
    until the next may start where stages follow one another not and where they do, and the least
    time, [shapes]."""
    starts = np.arange(*part, chunk)
    size, times = sequences.size, starts.size
    lanes = _tiled(split, times)
    new = np.repeat(np.minimum(chunk, part[1] - starts), size)
    cached = np.repeat(starts, size)
    group = Group(np.tile(sequences, times), new, cached, prompt=part[1])
    step = mixed(deployed.model, deployed.system, [group], lanes, deployed.engine)
    scale = _step_scale(deployed, lanes, (part[1], _ANSWER, np.ones(new.size)), np.ones(new.size))
    latency = step.total_s * scale
    staged = np.maximum(step.stage_s, step.host_s) * scale

    def summed(values: Array) -> Array:
        return np.asarray(values.reshape(times, size).sum(0))

    whole = summed(latency)
    least = summed(step.bound_total_s)
    return np.maximum(whole, least), (whole, summed(staged)), least


def decode_workers(
    deployed: Deployment,
    split: Parallelism,
    isl: float,
    osl: float,
    steps: float,
    sharing: Sharing = ALONE,
) -> DecodeWorkers:
    """Price workers of every shape at every number of requests up to the most that run.

    steps: mean decode steps of an answer after its first token.  sharing: of a request's sequences.
    """
    numbers = columns(Workload(), split)
    ranks, engine = numbers["dp"], deployed.engine
    load = Workload(1.0, isl, osl)
    site = (deployed.model, deployed.system)
    single, fit = sequences_that_fit(*site, load, split, engine, sharing)
    limit = engine.max_sequences // sharing.branches
    most = np.maximum(np.minimum(fit, limit * ranks), ranks)
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
    floor = least_scale(step.total_s, step.bound_total_s)
    asked = isl, osl, running.ravel()
    measured = _step_scale(deployed, _tiled(split, _RUNNING), asked, floor)
    seconds = np.maximum((step.total_s * measured).reshape(_RUNNING, size), least)
    none = np.zeros((1, size))
    answers = running / (max(steps, 1e-9) * seconds)
    least = least * steps / max(osl - 1.0, 1.0)
    return DecodeWorkers(
        running=np.concatenate([none, running]),
        answers_per_s=np.concatenate([none, np.maximum.accumulate(answers)]),
        bound_s=np.concatenate([least[:1], least]),
        most_running=most,
        cache_bytes=single.kv_bytes,
        memory_bytes=single.total_bytes + single.kv_bytes * (most / ranks - 1.0),
        fits=fit >= 1.0,
    )


def _step_scale(
    deployed: Deployment, split: Parallelism, load: tuple[float, float, Array], least: Array
) -> Array:
    """Measured over priced time of a step, as `loops` has it of replicas, [configs].

    load: prompt and output tokens, and sequences that run, [configs].  least: see `least_scale`.
    """
    degrees = (split.tp, split.pp, split.dp, split.ep)
    sizes = np.stack(np.broadcast_arrays(*load, *degrees), axis=-1)
    return step_correction(deployed.engine, deployed.model, deployed.system, sizes, least).steps


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
    transfer_s: of a prompt's cache.
    """

    prefill: NDArray[np.intp]
    decode: NDArray[np.intp]
    prefill_workers: Array
    decode_workers: Array
    transfer_s: Array


@dataclass(frozen=True, slots=True)
class PooledLoad:
    """A load through both pools, [deployments]; times in seconds.

    running: sequences of one decode worker.  use: share of what the slower pool sustains.
    bound_tpot_s: least time of the decode step.
    """

    requests_per_s: Array
    ttft_s: Array
    tpot_s: Array
    running: Array
    use: Array
    bound_tpot_s: Array


def pooled_load(
    prefill: PrefillWorkers,
    decode: DecodeWorkers,
    which: Combinations,
    osl: float,
    *,
    rate_per_s: float = 0.0,
    concurrency: float = 0.0,
) -> PooledLoad:
    """Both pools under an arrival rate, or under `concurrency` open requests by Little's law.

    A prompt waits in one queue for all prefill workers; its first token is shown when it is read,
    its cache travels before the second.
    """
    reads = which.prefill_workers * prefill.prompts_per_s[which.prefill]
    alone = prefill.alone_s[which.prefill]
    each = 1.0 / prefill.prompts_per_s[which.prefill]
    rate = np.full(alone.shape, rate_per_s)
    running, bound = np.empty_like(alone), np.empty_like(alone)
    most = np.empty_like(alone)
    for shape in np.unique(which.decode):
        at = np.flatnonzero(which.decode == shape)
        numbers, answers = decode.running[:, shape], decode.answers_per_s[:, shape]
        workers = which.decode_workers[at]
        most[at] = np.minimum(reads[at], workers * answers[-1])
        if concurrency:
            fixed = alone[at] + which.transfer_s[at]
            inside = _Inside(numbers, answers, workers, reads[at], each[at], fixed,
                             which.prefill_workers[at])  # fmt: skip
            rate[at] = inside.rate(concurrency, most[at])
        runs = np.interp(rate[at] / workers, answers, numbers)
        running[at] = np.maximum(runs, 1e-9)
        bound[at] = np.interp(running[at], numbers, decode.bound_s[:, shape])
    use = rate / most
    waits = queue_s(np.minimum(rate / reads, _FULL), which.prefill_workers, each)
    answer = which.decode_workers * running / rate
    gaps = max(osl - 1.0, 1.0)
    first = alone + waits
    if concurrency:
        first = np.maximum(concurrency / rate - answer - which.transfer_s, alone)
    return PooledLoad(
        requests_per_s=rate,
        ttft_s=np.where(use < 1.0, first, np.inf),
        tpot_s=(answer + which.transfer_s) / gaps,
        running=running,
        use=use,
        bound_tpot_s=bound,
    )


@dataclass(frozen=True, slots=True)
class _Inside:
    """Open requests inside of deployments with one shape of decode worker, [deployments]."""

    numbers: Array
    answers: Array
    workers: Array
    reads: Array
    each: Array
    fixed_s: Array
    readers: Array

    def __call__(self, rate: Array) -> Array:
        waits = queue_s(np.minimum(rate / self.reads, _FULL), self.readers, self.each)
        decoding = self.workers * np.interp(rate / self.workers, self.answers, self.numbers)
        return np.asarray(decoding + rate * (self.fixed_s + waits))

    def rate(self, concurrency: float, most: Array) -> Array:
        """The rate at which so many are inside, at most just below what is sustained."""
        low, high = np.zeros_like(most), most * (1.0 - 1e-6)
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            fewer = self(middle) < concurrency
            low, high = np.where(fewer, middle, low), np.where(fewer, high, middle)
        return (low + high) / 2.0
