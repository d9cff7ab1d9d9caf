"""A deployment in a simulation: ranks with caches, a scheduler and a step price."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from genz_core.capacity.memory import memory
from genz_core.common.memo import ByIdentity
from genz_core.deployment import as_server, deploy
from genz_core.engine import EngineProfile, cuts_prompts
from genz_core.errors import InvalidValue, OutOfMemory
from genz_core.graphs import Model
from genz_core.models.speculative import query_tokens
from genz_core.serving.cache_tiers import CacheTier, Writes, blocks_of
from genz_core.serving.kv_capacity import usual_tokens
from genz_core.serving.options import Options
from genz_core.serving.simulation.cache import KvCache
from genz_core.serving.simulation.interpolation import Curve
from genz_core.serving.simulation.jitter import Jitter
from genz_core.serving.simulation.model_tables import Extent
from genz_core.serving.simulation.policies import (
    Scheduler,
    Sglang,
    StaticBatch,
    TensorRtLlm,
    Vllm,
)
from genz_core.serving.simulation.price_grids import nodes
from genz_core.serving.simulation.rank import Rank
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.step_price import ScaledPrice, StepPrice
from genz_core.serving.simulation.step_tables import StepTables
from genz_core.serving.simulation.tiers import Store, Tiers
from genz_core.serving.simulation.worker import Worker
from genz_core.systems import System
from genz_core.types import Parallelism, Step, Workload
from genz_core.validity import check, raise_for_status


def scheduler_of(
    engine: EngineProfile, options: Options, query: int, longest: tuple[int, int]
) -> Scheduler:
    """The scheduler of an engine.

    query: tokens of a decoding sequence per step.  longest: tokens of the longest prompt and of the
    longest output.

    Raises:
        InvalidValue: no scheduler is implemented for the name.
    """
    sequences = options.max_num_seqs or engine.max_sequences
    budget = options.max_num_batched_tokens or int(usual_tokens(engine, *longest))
    policy = options.scheduler or engine.scheduler
    chunked = engine.chunked_prefill
    if chunked is None:
        chunked = cuts_prompts(policy)
    if policy == "static":
        return StaticBatch(sequences)
    if policy == "sglang":
        return Sglang(budget, sequences, query, chunked=chunked)
    if policy == "tensorrt_llm":
        return TensorRtLlm(budget, sequences, query, chunked=chunked)
    if policy == "vllm":
        if told := options.max_num_batched_tokens:  # `EngineArgs` lowers the sequences to it
            sequences = min(sequences, max(told // query, 1))
        return Vllm(max(budget, sequences * query), sequences, query, chunked=chunked)
    raise InvalidValue(f"the scheduler {policy!r} has no case in `scheduler_of`")


_COUPLED: ByIdentity[bool] = ByIdentity()


@dataclass(frozen=True, slots=True)
class Site:
    """A model on devices with an engine."""

    model: Model
    system: System
    engine: EngineProfile
    parallelism: Parallelism

    @classmethod
    def of(
        cls, model: Model, system: System, engine: EngineProfile | None, parallelism: Parallelism
    ) -> Site:
        """A site, if its degrees can split the model.

        Raises:
            InvalidParallelism: degrees that do not divide the model.
        """
        checked = check(model, Workload(), parallelism)
        raise_for_status(checked.status, lambda at: checked.complaints.get(at, ""))
        deployed = deploy(model, system, as_server(engine or EngineProfile(), system))
        return cls(deployed.model, system, deployed.engine, parallelism)

    @property
    def query(self) -> int:
        """Tokens of a decoding sequence per step: one, plus those of a draft that it verifies."""
        return query_tokens(self.model)

    @property
    def coupled(self) -> bool:
        """Whether attention ranks wait for one another because they share experts."""
        deployed = deploy(self.model, self.system, self.engine)

        def has_experts() -> bool:
            graph = deployed.graph(Step.decode(1.0, 1.0), self.parallelism)
            return any(op.operator_class == "moe" for op in graph.ops)

        return _COUPLED.get(
            has_experts, self.model, self.system, self.engine, values=repr(self.parallelism)
        )

    def prompt_bytes(self, longest: float) -> tuple[Curve, float]:
        """Cache of a sequence on the fullest device by its tokens, and the bytes available per
        rank.

        Raises:
            OutOfMemory: the weights leave no space.
        """
        block = float(self.engine.kv_block_tokens)
        tokens = np.unique(np.concatenate([np.arange(1.0, 65.0), nodes(longest, 2**0.25)]))
        ranks = np.asarray(self.parallelism.dp, dtype=float)
        load = Workload(np.full_like(tokens, ranks), tokens, np.zeros_like(tokens))
        held = memory(self.model, self.system, load, self.parallelism, self.engine)
        free = held.free_bytes[0] * self.engine.free_share
        if free <= 0:
            raise OutOfMemory(held.reason(0) or "the weights leave no memory for a KV cache")
        whole = np.ceil(tokens / block) * block
        return Curve(tokens, held.kv_bytes * (tokens + (block - 1.0) / 2.0) / whole), float(free)


@dataclass(frozen=True, slots=True)
class CacheLayout:
    """The cache of every rank of a site, sized for some requests.

    capacity: bytes.  prompt_bytes: of a sequence by its tokens.  growth: per additional token.
    """

    capacity: float
    prompt_bytes: Curve
    growth: float

    @classmethod
    def of(cls, site: Site, requests: Requests, options: Options) -> CacheLayout:
        """The layout from the memory of the fullest device.

        Raises:
            OutOfMemory: the weights leave no space.
        """
        lengths = requests.input_tokens + requests.output_tokens
        curve, free = site.prompt_bytes(float(lengths.max()))
        prompt, end = float(requests.input_tokens.mean()), float(lengths.mean())
        growth = (curve(end) - curve(prompt)) / max(end - prompt, 1.0)
        return cls(options.kv_tokens * growth if options.kv_tokens else free, curve, growth)

    def cache(self, requests: Requests, options: Options) -> KvCache:
        """An empty cache."""
        return KvCache(
            self.capacity,
            self.prompt_bytes,
            self.growth,
            block_tokens=requests.block_tokens,
            shares=options.prefix_caching and bool(requests.prefix),
        )


def replica_of(
    site: Site,
    requests: Requests,
    options: Options,
    *,
    scheduler: Scheduler | None = None,
    price: StepPrice | None = None,
    open_requests: int = 0,
    generator: np.random.Generator | None = None,
) -> Callable[[], Sequence[Worker]]:
    """A function that makes the empty workers of a new replica each time it is called.

    open_requests: largest number, 0 for no limit.
    generator: of the engine's jitter, None for no jitter.
    """
    site = replace(site, engine=options.with_memory(site.engine))
    longest = int(requests.input_tokens.max()), int(requests.output_tokens.max())
    scheduler = scheduler or scheduler_of(site.engine, options, site.query, longest)
    layout = CacheLayout.of(site, requests, options)
    scale = options.step_scale
    if price is None:
        price = _tables(site, requests, scheduler, layout, open_requests)
        scale = site.engine.recipe.tpot_scale if scale is None else scale
    scales = (1.0 if scale is None else scale, options.prompt_scale)
    if scales != (1.0, 1.0):
        price = ScaledPrice(price, *scales)
    degree, lanes = int(np.max(site.parallelism.dp)), int(np.max(site.parallelism.pp))
    coupled = site.coupled
    below = _Below.of(site, layout, requests, options, scheduler)
    shares, jitter = (site.engine.step_jitter, site.engine.delivery_jitter), None
    if generator and any(shares):
        jitter = Jitter(*shares, generator)
    ahead = site.engine.ahead_steps > 0 and lanes == 1

    def made() -> Sequence[Worker]:
        ranks = [
            Rank(
                layout.cache(requests, options),
                lanes,
                reserves=scheduler.reserves,
                tiers=below.of_rank() if below else None,
            )
            for _ in range(degree)
        ]
        waits, hand_over = (options.recv_interval, options.batch_wait), site.engine.hand_over_steps
        return [
            Worker(group, scheduler, price, *waits, ahead=ahead, jitter=jitter, hand_over=hand_over)
            for group in ([ranks] if coupled else [[rank] for rank in ranks])
        ]

    return made


@dataclass(frozen=True, slots=True)
class _Below:
    """The cache tiers below the ranks of a deployment.

    sizes: (tier, blocks that one of its stores holds).  shared: stores used by all ranks, by name.
    """

    sizes: Sequence[tuple[CacheTier, int]]
    shared: Mapping[str, Store]
    block_bytes: float
    writes: Writes

    @classmethod
    def of(
        cls,
        site: Site,
        layout: CacheLayout,
        requests: Requests,
        options: Options,
        scheduler: Scheduler,
    ) -> _Below | None:
        """The tiers of a deployment; None without any.

        Raises:
            InvalidValue: tiers with a static batch, which keeps no prefixes.
        """
        if not options.tiers:
            return None
        if isinstance(scheduler, StaticBatch):
            raise InvalidValue(
                "a static batch keeps no prefixes, so cache tiers have no effect: leave them out, "
                "or choose another scheduler"
            )
        split = site.parallelism
        devices, ranks = int(np.max(split.tp)) * int(np.max(split.pp)), int(np.max(split.dp))
        block_bytes = layout.growth * requests.block_tokens
        sizes = [(t, blocks_of(t, block_bytes, devices, ranks)) for t in options.tiers]
        shared = {tier.name: Store(tier, most) for tier, most in sizes if tier.shared}
        return cls(sizes, shared, block_bytes, options.cache_writes)

    def of_rank(self) -> Tiers:
        """The tiers of one more rank."""
        stores = [
            self.shared[tier.name] if tier.shared else Store(tier, most)
            for tier, most in self.sizes
        ]
        return Tiers(stores, self.block_bytes, self.writes)


def _tables(
    site: Site, requests: Requests, scheduler: Scheduler, layout: CacheLayout, open_requests: int
) -> StepTables:
    """The tabulated step model for the range of steps that these requests can cause on a rank."""
    lengths = requests.input_tokens + requests.output_tokens
    fit = layout.capacity / max(layout.prompt_bytes(float(lengths.min())), 1e-9)
    most = min(getattr(scheduler, "sequences", 4096), fit, len(requests), open_requests or np.inf)
    budget = getattr(scheduler, "budget", 0) or most * float(requests.input_tokens.max())
    tables = StepTables.of(
        site.model,
        site.system,
        site.parallelism,
        site.engine,
        Extent(
            tokens=max(float(budget), float(requests.input_tokens.max())),
            sequences=max(float(most), 1.0),
            context=float(lengths.max()),
        ),
    )
    return tables.admitting(getattr(scheduler, "sequences", 0))
