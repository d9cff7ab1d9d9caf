"""A deployment as a simulation runs it: ranks with their caches, a scheduler and a step price."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue, OutOfMemory
from genz_core.memory import memory
from genz_core.serving.simulation.cache import KvCache
from genz_core.serving.simulation.policies import (
    Scheduler,
    Sglang,
    StaticBatch,
    TensorRtLlm,
    Vllm,
)
from genz_core.serving.simulation.rank import Rank
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.step_price import (
    Curve,
    ScaledPrice,
    StepPrice,
    StepTables,
    nodes,
)
from genz_core.serving.simulation.worker import Worker
from genz_core.types import Array, Graph, Model, Parallelism, Step, System, Workload
from genz_core.validity import check, raise_for_status

#: Names of the policies that an engine or an option may choose.
SCHEDULERS = ("vllm", "sglang", "tensorrt_llm", "static")


@dataclass(frozen=True, slots=True)
class Options:
    """What an operator tells an engine, 0 and None for its default.

    max_num_seqs, max_num_batched_tokens: sequences and tokens of a step and rank at most.
    memory_fraction: of a device that the engine takes.  kv_tokens: that the cache of a rank holds,
    in place of what fits.  prefix_caching: equal prefixes are shared.  recv_interval: decode steps
    between two looks at new requests.  scheduler: a policy in place of the engine's own, of
    `SCHEDULERS`.  step_scale: measured over priced time of a step.
    """

    max_num_seqs: int = 0
    max_num_batched_tokens: int = 0
    memory_fraction: float = 0.0
    kv_tokens: float = 0.0
    prefix_caching: bool = True
    recv_interval: int = 1
    scheduler: str = ""
    step_scale: float = 1.0


def scheduler_of(engine: EngineProfile, options: Options, query: int, longest: int) -> Scheduler:
    """The scheduler of an engine.

    query: tokens of a decode.  longest: tokens of the longest prompt.
    """
    sequences = options.max_num_seqs or engine.max_sequences
    budget = options.max_num_batched_tokens or engine.chunk_tokens or max(longest, 8192)
    policy = options.scheduler or engine.scheduler
    if policy == "static":
        return StaticBatch(sequences)
    if policy == "sglang":
        return Sglang(budget, sequences, query)
    if policy == "tensorrt_llm":
        return TensorRtLlm(budget, sequences, query)
    return Vllm(max(budget, sequences * query), sequences, query)


@dataclass(frozen=True, slots=True)
class Site:
    """A model on devices under an engine, and what its requests look like.

    sizes: (prompt, output) tokens that a rank's cache is laid out for, means.
    """

    model: Model
    system: System
    engine: EngineProfile
    parallelism: Parallelism

    @classmethod
    def of(
        cls, model: Model, system: System, engine: EngineProfile | None, parallelism: Parallelism
    ) -> Site:
        """Refuse what cannot be split.

        Raises:
            InvalidParallelism: degrees that do not divide the model.
        """
        checked = check(model, Workload(), parallelism)
        raise_for_status(checked.status, lambda at: checked.complaints.get(at, ""))
        deployed = deploy(model, system, engine)
        return cls(deployed.model, system, deployed.engine, parallelism)

    @property
    def coupled(self) -> bool:
        """Whether the attention ranks wait for one another: they share experts."""
        return _has_experts(deploy(self.model, self.system, self.engine).graph(
            Step.decode(1.0, 1.0), self.parallelism))  # fmt: skip

    def prompt_bytes(self, longest: float) -> tuple[Curve, float]:
        """Cache of a sequence on the fullest device by its tokens, and bytes that ranks have.

        Raises:
            OutOfMemory: the weights leave no room.
        """
        block = float(self.engine.kv_block_tokens)
        tokens = np.unique(np.concatenate([np.arange(1.0, 65.0), nodes(longest, 2**0.25)]))
        ranks = np.asarray(self.parallelism.dp, dtype=float)
        load = Workload(np.full_like(tokens, ranks), tokens, np.zeros_like(tokens))
        held = memory(self.model, self.system, load, self.parallelism, self.engine)
        free = held.usable_bytes - (held.total_bytes - held.kv_bytes)[0]
        if free <= 0:
            raise OutOfMemory(held.reason(0) or "the weights leave no room for any cache")
        whole = np.ceil(tokens / block) * block
        return Curve(tokens, held.kv_bytes * (tokens + (block - 1.0) / 2.0) / whole), float(free)

    def rank(
        self, requests: Requests, scheduler: Scheduler, options: Options, growth: float
    ) -> Rank:
        """An empty rank whose cache is laid out for these requests."""
        lengths = requests.input_tokens + requests.output_tokens
        curve, free = self.prompt_bytes(float(lengths.max()))
        prompt, end = float(requests.input_tokens.mean()), float(lengths.mean())
        slope = (curve(end) - curve(prompt)) / max(end - prompt, 1.0)
        if options.kv_tokens:
            free = options.kv_tokens * slope
        cache = KvCache(
            free,
            curve,
            slope,
            block_tokens=requests.block_tokens,
            shares=options.prefix_caching and bool(requests.prefix),
        )
        return Rank(cache, int(np.max(self.parallelism.pp)), growth, reserves=scheduler.reserves)


def workers(
    site: Site,
    requests: Requests,
    options: Options,
    *,
    replicas: int = 1,
    scheduler: Scheduler | None = None,
    price: StepPrice | None = None,
    open_requests: int = 0,
    growth: float = 1.0,
    query: int = 1,
) -> Sequence[Worker]:
    """The workers of a deployment, empty.

    open_requests: at most, 0 where there may be any number.  growth: tokens that a sequence gains
    in a decode step; query: tokens of a decode step.
    """
    if options.memory_fraction:
        engine = replace(site.engine, memory_fraction=options.memory_fraction)
        site = replace(site, engine=engine)
    longest = int(requests.input_tokens.max())
    scheduler = scheduler or scheduler_of(site.engine, options, query, longest)
    first = site.rank(requests, scheduler, options, growth)
    degree = int(np.max(site.parallelism.dp))
    price = price or _tables(site, requests, scheduler, first, open_requests, query)
    if options.step_scale != 1.0:
        price = ScaledPrice(price, options.step_scale)
    made = []
    for _ in range(replicas):
        ranks = [site.rank(requests, scheduler, options, growth) for _ in range(degree)]
        groups = [ranks] if site.coupled else [[rank] for rank in ranks]
        made += [Worker(group, scheduler, price, options.recv_interval) for group in groups]
    return made


def _tables(
    site: Site, requests: Requests, scheduler: Scheduler, rank: Rank, open_requests: int, query: int
) -> StepTables:
    """The step model over what these requests can ask of a rank."""
    lengths = requests.input_tokens + requests.output_tokens
    fit = rank.cache.capacity / max(rank.cache.prompt_bytes(float(lengths.min())), 1e-9)
    most = min(getattr(scheduler, "sequences", 4096), fit, len(requests), open_requests or np.inf)
    budget = getattr(scheduler, "budget", 0) or most * float(requests.input_tokens.max())
    return StepTables.of(
        site.model,
        site.system,
        site.parallelism,
        site.engine,
        tokens=max(float(budget), float(requests.input_tokens.max())),
        sequences=max(float(most), 1.0),
        context=float(lengths.max()),
        draft_tokens=query - 1,
    )


def _has_experts(graph: Graph) -> bool:
    return any(op.operator_class == "moe" for op in graph.ops)


def decode_steps(requests: Requests) -> Array:
    """Decode steps after the first token, one a token, [requests]."""
    return requests.output_tokens - 1.0


__all__ = ["InvalidValue", "Options", "Site", "decode_steps", "scheduler_of", "workers"]
