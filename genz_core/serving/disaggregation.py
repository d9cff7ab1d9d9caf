"""Prefill and decode in separate pools, in closed form: transfer, throughput, balance.

The pool of prefill workers reads prompts, their cache is sent over a fabric, and the pool of decode
workers generates the answers.  In the long run, the slower pool limits a deployment::

    requests/s = min(prefill workers x prompts/s, decode workers x answers/s)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from genz_core.capacity.memory import memory
from genz_core.deployment import Deployment, deploy
from genz_core.errors import InvalidValue
from genz_core.models.acceptance import expected_steps
from genz_core.models.speculative import Speculation, SpeculativeModel, speculative_model
from genz_core.phases import decode_step, mixed
from genz_core.serving.kv_capacity import usual_tokens
from genz_core.serving.options import Options
from genz_core.steps.step_estimate import StepEstimate
from genz_core.types import Array, Group, Num, Parallelism, Places, Step, Workload
from genz_core.validity import spread


@dataclass(frozen=True, slots=True)
class ServingPool:
    """Equal workers.

    deployed: model, system and engine of each.  parallelism: degrees of one worker.  workers: their
    number.  options: settings of the engine.
    """

    deployed: Deployment
    parallelism: Parallelism = field(default_factory=Parallelism)
    workers: int = 1
    options: Options = field(default_factory=Options)

    @property
    def step_scale(self) -> float:
        """Measured over priced time of a step, see `Options`."""
        own = self.options.step_scale
        return self.deployed.engine.recipe.tpot_scale if own is None else own

    @property
    def devices(self) -> Num:
        """Devices of all workers."""
        return self.workers * self.parallelism.devices

    def drafting(self, speculation: Speculation) -> ServingPool:
        """The same workers with a model that verifies drafts and produces new ones."""
        deployed = self.deployed
        model = speculative_model(deployed.model, speculation)
        return replace(self, deployed=deploy(model, deployed.system, deployed.engine))


@dataclass(frozen=True, slots=True)
class Transfer:
    """The transfer of a prompt's cache to a decode worker.

    bytes_per_s: of a device's link, in one direction.  latency_s: added for each prompt.  Numbers,
    or arrays [configs].
    layer_wise: each layer's cache is sent while later layers are computed (Mooncake,
    arXiv:2407.00079, section 5.2); when the prompt is read, only the last layer's cache and any
    backlog of the link remain.
    shown_by: the pool that sends the first token to the user.  Engines pass it on with the cache,
    and it is shown when a decode worker has admitted the sequence ("decode"); a front end that
    streams from both pools shows it at once ("prefill").
    """

    bytes_per_s: Num
    latency_s: Num = 0.0
    layer_wise: bool = False
    shown_by: Literal["prefill", "decode"] = "prefill"

    def __post_init__(self) -> None:
        rate, latency = np.min(self.bytes_per_s), np.min(self.latency_s)
        if not rate > 0 or not latency >= 0:
            raise InvalidValue(
                f"transfer with {rate:g} bytes/s and a latency of {latency:g} s: give a bandwidth "
                "above 0 and a latency of at least 0"
            )

    def of_configs(self, at: Places, size: int) -> Transfer:
        """The transfer of some of `size` configurations."""
        rate, latency = (
            spread(np.asarray(one, dtype=float), size)[at]
            for one in (self.bytes_per_s, self.latency_s)
        )
        return replace(self, bytes_per_s=rate, latency_s=latency)


@dataclass(frozen=True, slots=True)
class Disaggregation:
    """A separate prefill pool.

    prefill: that pool.  transfer: the transfer of the cache to the decode workers, which are
    described separately.
    """

    prefill: ServingPool
    transfer: Transfer

    def refuse_mismatch(self, decode: Deployment) -> None:
        """Raise `InvalidValue` where decode workers cannot use the cache of the prefill workers."""
        first, second = self.prefill.deployed.model, decode.model
        if round(first.parameters) != round(second.parameters):
            raise InvalidValue(
                f"prefill runs {first.name} and decode {second.name}: both pools need the same "
                "model"
            )
        if first.precision.kv != second.precision.kv:
            raise InvalidValue(
                f"the KV cache is {first.precision.kv} in prefill and {second.precision.kv} in "
                "decode: use one format for both"
            )

    def busy_s(self, decode: ServingPool, tokens: Num) -> Array:
        """Time during which the link of a prefill worker sends a prompt's cache after the prompt
        has been read, [prompts].

        The fuller device decides, among senders and among receivers.
        """
        sizes = [cache_bytes(pool, tokens) for pool in (self.prefill, decode)]
        whole = np.maximum(*sizes) / self.transfer.bytes_per_s
        if not self.transfer.layer_wise:
            return whole
        pool = self.prefill
        layers = pool.deployed.graph(Step.prefill(1.0, 8.0), pool.parallelism).layers
        meanwhile = prompt_s(self.prefill, tokens) * (1.0 - 1.0 / layers)
        return np.maximum(whole / layers, whole - meanwhile)


def cache_bytes(pool: ServingPool, tokens: Num) -> Array:
    """Cache of a prompt on the fullest device of a worker, [prompts].

    Degrees of the worker may be arrays [prompts], too.
    """
    sizes = np.atleast_1d(np.asarray(tokens, dtype=float))
    ranks = np.broadcast_to(np.asarray(pool.parallelism.dp, dtype=float), sizes.shape)
    load = Workload(ranks, sizes, np.zeros_like(sizes))
    deployed = pool.deployed
    held = memory(deployed.model, deployed.system, load, pool.parallelism, deployed.engine)
    return held.kv_bytes


def _ranks(pool: ServingPool) -> float:
    return float(np.max(pool.parallelism.dp))


# ------------------------------------------------------------------------------- prefill


def prompt_s(pool: ServingPool, tokens: Num) -> Array:
    """Time to read a single prompt, in the engine's chunks [s], [prompts]."""
    sizes = np.atleast_1d(np.asarray(tokens, dtype=float))
    return np.array([float(np.sum(_reading(pool, float(size), 1.0)[0])) for size in sizes])


def prompts_per_s(pool: ServingPool, isl: float) -> float:
    """Prompts that one worker reads per second when enough are waiting to fill its steps."""
    together = max(np.floor(_chunk(pool, isl) / isl), 1.0)
    _, gaps = _reading(pool, isl, together)
    return float(together * _ranks(pool) / np.sum(gaps))


def _chunk(pool: ServingPool, isl: float) -> float:
    engine = pool.deployed.engine
    told = pool.options.max_num_batched_tokens or usual_tokens(engine, isl, 1.0)
    # TensorRT-LLM's own way, whole prompts, is not modelled here
    return float(max(told, isl) if engine.chunked_prefill is False else told)


def _reading(pool: ServingPool, isl: float, together: float) -> tuple[Array, Array]:
    """Steps that read `together` prompts per rank, chunk after chunk: (time of each, time until the
    next one may start), [chunks].
    """
    chunk, deployed = _chunk(pool, isl), pool.deployed
    starts = np.arange(0.0, isl, chunk)
    new = np.minimum(chunk, isl - starts)
    sequences = np.full_like(new, together * _ranks(pool))
    pieces = [Group(sequences, new, starts, prompt=isl)]
    step = mixed(deployed.model, deployed.system, pieces, pool.parallelism, deployed.engine)
    return _under_load(step, pool)


def _under_load(step: StepEstimate, pool: ServingPool) -> tuple[Array, Array]:
    """(latency, time until the next one may start) of steps that read prompts, [steps]."""
    latency = step.total_s * pool.step_scale
    if np.max(pool.parallelism.pp) > 1:
        return latency, np.maximum(step.stage_s, step.host_s) * pool.step_scale
    return latency, latency


# ------------------------------------------------------------------------------- decode


def answer_steps(pool: ServingPool, osl: float) -> float:
    """Mean decode steps of an answer after its first token."""
    model = pool.deployed.model
    if isinstance(model, SpeculativeModel):
        return float(expected_steps(osl - 1.0, model.speculation.acceptance))
    return osl - 1.0


def decode_step_s(pool: ServingPool, isl: float, osl: float, running: Num) -> Array:
    """The mean step of `running` sequences of one worker [s], [loads]."""
    deployed = pool.deployed
    sizes = (running, isl + osl / 2.0)
    step = decode_step(deployed.model, deployed.system, *sizes, pool.parallelism, deployed.engine)
    return step.total_s * pool.step_scale


def most_running(pool: ServingPool, isl: float, osl: float) -> float:
    """Most sequences that one decode worker can run, limited by its cache and its engine; at least
    one.
    """
    deployed, ranks = pool.deployed, _ranks(pool)
    engine = pool.options.with_memory(deployed.engine)
    output = max(osl * engine.reserve_output, 1.0)
    held = memory(
        deployed.model, deployed.system, Workload(ranks, isl, output), pool.parallelism, engine
    )
    free = held.free_bytes[0] * engine.free_share
    fit = np.floor(free / max(held.kv_bytes[0], 1.0))
    most = pool.options.max_num_seqs or engine.max_sequences
    return float(max(min(fit, most), 1.0) * ranks)


def answers_per_s(pool: ServingPool, isl: float, osl: float, running: Num) -> Array:
    """Answers that one worker with `running` sequences completes per second, [loads]."""
    steps = max(answer_steps(pool, osl), 1e-9)
    return np.asarray(running) / (steps * decode_step_s(pool, isl, osl, running))


# ------------------------------------------------------------------------------- both


@dataclass(frozen=True, slots=True)
class Balance:
    """The capacity of the workers of both pools, and the ratio at which they match.

    prompts_per_s, answers_per_s: of one prefill and of one decode worker, both full.
    running: sequences of a full decode worker.  prefill_workers, decode_workers: as described.
    """

    prompts_per_s: float
    answers_per_s: float
    running: float
    prefill_workers: int
    decode_workers: int

    @property
    def prefill_per_decode(self) -> float:
        """Prefill workers that are needed to keep one decode worker full."""
        return self.answers_per_s / self.prompts_per_s

    @property
    def requests_per_s(self) -> float:
        """Requests per second that both pools can serve: the rate of the slower one."""
        return min(
            self.prefill_workers * self.prompts_per_s, self.decode_workers * self.answers_per_s
        )

    @property
    def slower(self) -> Literal["prefill", "decode"]:
        """The pool that limits the rate."""
        full = self.prefill_workers * self.prompts_per_s
        return "prefill" if full < self.decode_workers * self.answers_per_s else "decode"


def balance(disaggregation: Disaggregation, decode: ServingPool, isl: float, osl: float) -> Balance:
    """Compare the rates of both pools for requests of these lengths.

    Raises:
        InvalidValue: pools whose caches are incompatible.
    """
    disaggregation.refuse_mismatch(decode.deployed)
    running = most_running(decode, isl, osl)
    return Balance(
        prompts_per_s(disaggregation.prefill, isl),
        float(answers_per_s(decode, isl, osl, running)[0]),
        running,
        disaggregation.prefill.workers,
        decode.workers,
    )
