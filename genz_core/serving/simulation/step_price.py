"""What a step costs: the protocol used by a simulation, and its tables from the step model.

A simulation needs the time of millions of steps.  The step model is therefore priced beforehand on
grids, in a few array calls, and interpolated; at the grid nodes the tables equal the price of
`genz_core.mixed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.models.speculative import (
    TARGET_STATES,
    QueryTokens,
    SpeculativeModel,
    draft_parallelism,
)
from genz_core.serving.simulation.interpolation import Curve, Surface, between
from genz_core.serving.simulation.price_grids import (
    PricedShares,
    cached_nodes,
    nodes,
    prompt_nodes,
    token_nodes,
)
from genz_core.types import Array, Group, Model, Parallelism, System


class RankWork(NamedTuple):
    """The work of one rank in a step.

    decodes: decoding sequences; tokens: their total tokens in the cache.
    prompts: (new, cached) tokens of every piece of a prompt.
    """

    decodes: int
    tokens: float
    prompts: Sequence[tuple[int, int]] = ()


class StepTime(NamedTuple):
    """latency_s: from the start of a step to its tokens.  stage_s: until the next step may
    start.
    """

    latency_s: float
    stage_s: float


class StepPrice(Protocol):
    """The time of a step of lock-step ranks: our tables, or your own predictor.

    Returns the two numbers of a `StepTime`; a plain pair is faster where millions of steps are
    priced.
    """

    def __call__(self, ranks: Sequence[RankWork]) -> tuple[float, float]: ...


@dataclass(frozen=True, slots=True)
class ScaledPrice:
    """A price scaled by measured over priced time.

    scale: of the whole step.  prompts: additional scale of the time that prompts add.
    """

    price: StepPrice
    scale: float
    prompts: float = 1.0

    def __call__(self, ranks: Sequence[RankWork]) -> tuple[float, float]:
        """See `StepPrice`."""
        latency, stage = self.price(ranks)
        if self.prompts != 1.0:
            for rank in ranks:
                if rank.prompts:
                    break
            else:
                return latency * self.scale, stage * self.scale
            plain, plain_stage = self.price([RankWork(rank.decodes, rank.tokens) for rank in ranks])
            latency = plain + self.prompts * (latency - plain)
            stage = plain_stage + self.prompts * (stage - plain_stage)
        return latency * self.scale, stage * self.scale


# ------------------------------------------------------------------------------- one model

_MOST_KEPT = 20_000


@dataclass(frozen=True, slots=True)
class Extent:
    """The range of a rank's tables: tokens and sequences of a step, cached tokens of a sequence."""

    tokens: float = 8192
    sequences: float = 1024
    context: float = 8192

    def rounded(self) -> Extent:
        """The extent rounded up to powers of two, so that similar loads share tables."""
        return Extent(*(float(2 ** np.ceil(np.log2(max(most, 16.0)))) for most in self._sizes))

    @property
    def _sizes(self) -> tuple[float, float, float]:
        return self.tokens, self.sequences, self.context


@dataclass(frozen=True, slots=True)
class _Joined:
    """Time of an operator that all groups of a step share [s].

    decodes: by number of sequences and context.  prompts: by the new and cached tokens of all
    pieces of prompts in the step.  least_s: of the smallest work, which is paid once.
    """

    decodes: Surface
    prompts: Surface
    least_s: float

    def seconds(self, rank: RankWork) -> float:
        new = cached = 0
        for piece, before in rank.prompts:
            new += piece
            cached += before
        reading = self.prompts(new, cached) if new else 0.0
        if not rank.decodes:
            return reading
        decoding = self.decodes(rank.decodes, rank.tokens / rank.decodes)
        both = reading > 0 and decoding > 0
        return reading + decoding - (self.least_s if both else 0.0)


@dataclass(frozen=True, slots=True)
class _Whole:
    """Time of an attention over the keys of a whole step [s], by all new and all cached tokens.

    query: new tokens of a decoding sequence.
    """

    of_tokens: Surface
    query: int

    def seconds(self, rank: RankWork) -> float:
        new, cached = rank.decodes * self.query, rank.tokens
        for piece, before in rank.prompts:
            new += piece
            cached += before
        return self.of_tokens(new, cached)


@dataclass(frozen=True, slots=True)
class _Stage:
    """One pipeline stage.

    tokens, experts, rows: seconds by tokens of the busiest rank, by tokens of the mean rank (None
    without experts), and by sampled tokens.  decodes: by number of sequences and context.
    prompts: by new and cached tokens of one by itself; further: of one that shares its kernels with
    many, which pay `prompts_least_s` once.  joined: of operators that groups share.  alone:
    `decodes` plus those of `joined`, for a step without prompts.  kept: see `products_s`.
    """

    tokens: Curve
    experts: Curve | None
    rows: Curve
    decodes: Surface
    prompts: Surface
    further: Surface
    prompts_least_s: float
    joined: Sequence[_Joined | _Whole]
    alone: Surface
    kept: dict[tuple[float, float, float], float] = field(default_factory=dict, repr=False)

    def products_s(self, tokens: float, mean: float, sampled: float) -> float:
        """Seconds of matrix products, messages, experts and head; recent results are kept."""
        counts = tokens, mean, sampled
        seconds = self.kept.get(counts)
        if seconds is None:
            seconds = self.tokens(tokens) + self.rows(sampled)
            if self.experts:
                seconds += self.experts(mean)
            if len(self.kept) >= _MOST_KEPT:
                self.kept.clear()
            self.kept[counts] = seconds
        return seconds

    def groups_s(self, rank: RankWork) -> float:
        """Seconds of operators that depend on the distribution of a rank's tokens."""
        seconds = 0.0
        decodes, tokens, prompts = rank
        if decodes:
            context = tokens / decodes
            if not prompts:
                return self.alone(decodes, context)
            seconds = self.decodes(decodes, context)
        if len(prompts) == 1:
            seconds += self.prompts(*prompts[0])
        elif prompts:
            longest, together = 0.0, self.prompts_least_s
            for new, cached in prompts:
                alone = self.prompts(new, cached)
                longest = alone if alone > longest else longest
                together += self.further(new, cached)
            seconds += together if together > longest else longest
        for shared in self.joined:
            seconds += shared.seconds(rank)
        return seconds


class ModelTables:
    """Device time of one model's steps, by pipeline stage.

    query: new tokens of a decoding sequence.
    alone: of the first stage, see `_Stage`.
    """

    __slots__ = ("_query_sampled", "_query_tokens", "_stages", "alone")

    def __init__(self, stages: Sequence[_Stage], query: QueryTokens) -> None:
        self._stages = stages
        self.alone = stages[0].alone
        self._query_tokens, self._query_sampled = query.tokens, query.sampled

    @classmethod
    def of(
        cls,
        deployed: Deployment,
        parallelism: Parallelism,
        extent: Extent,
        query: QueryTokens,
        without: str = "",
    ) -> ModelTables:
        """Price a deployment's steps within `extent`.  without: module whose operators are left
        out.
        """
        priced = PricedShares(deployed, parallelism, without)
        tokens = max(extent.tokens, extent.sequences * query.tokens)
        by_tokens, by_experts = token_nodes(tokens), priced.expert_nodes(tokens)
        by_rows = token_nodes(extent.sequences * query.sampled)
        by_decodes, contexts = nodes(extent.sequences, 2**0.25), nodes(extent.context, 2**0.5)
        news, cached = prompt_nodes(extent.tokens), cached_nodes(extent.context)

        def surfaces(joined: tuple[str, str] | None = None) -> tuple[Array, Array]:
            """Seconds of decodes and of pieces of prompts, [stages, rows, columns]."""
            return (
                priced.grid(by_decodes, contexts, query.group, joined),
                priced.grid(news, cached, lambda new, c: Group(1.0, new, c), joined),
            )

        products = priced.line("tokens", by_tokens)
        experts, head = priced.line("experts", by_experts), priced.line("rows", by_rows)
        decodes, prompts = surfaces()
        further, least = priced.further_prompts(news, cached)
        shared = [surfaces(place) for place in priced.joined]
        news_all, cached_all = prompt_nodes(tokens), cached_nodes(extent.sequences * extent.context)
        whole = [
            (
                priced.grid(by_decodes, contexts, query.group, place),
                priced.grid(news_all, cached_all, lambda new, c: Group(1.0, new, c), place),
            )
            for place in priced.whole
        ]
        beside = [decoding for decoding, _ in (*shared, *whole)]
        return cls(
            [
                _Stage(
                    Curve(by_tokens, products[at]),
                    Curve(by_experts, experts[at]) if experts[at].any() else None,
                    Curve(by_rows, head[at]),
                    Surface(by_decodes, contexts, decodes[at]),
                    Surface(news, cached, prompts[at]),
                    Surface(news, cached, further[at]),
                    float(least[at]),
                    [
                        _Joined(
                            Surface(by_decodes, contexts, first[at]),
                            Surface(news, cached, second[at]),
                            _least(first[at], second[at]),
                        )
                        for first, second in shared
                        if first[at].any() or second[at].any()
                    ]
                    + [
                        _Whole(Surface(news_all, cached_all, s[at]), query.tokens) for _, s in whole
                    ],
                    Surface(by_decodes, contexts, sum((s[at] for s in beside), decodes[at])),
                )
                for at in range(priced.stages)
            ],
            query,
        )

    @property
    def stages(self) -> int:
        return len(self._stages)

    def products_s(self, decodes: int) -> float:
        """Seconds of the first stage that the contexts of decoding sequences do not change."""
        tokens = decodes * self._query_tokens
        return self._stages[0].products_s(tokens, float(tokens), decodes * self._query_sampled)

    def times(self, ranks: Sequence[RankWork]) -> list[float]:
        """Device time of every stage [s]; ranks in lock-step wait for the slowest."""
        most = rows = together = 0
        for decodes, _, prompts in ranks:
            tokens, sampled = decodes * self._query_tokens, decodes * self._query_sampled
            for new, _ in prompts:
                tokens += new
                sampled += 1
            together += tokens
            most = tokens if tokens > most else most
            rows = sampled if sampled > rows else rows
        mean, device = together / len(ranks), []
        for stage in self._stages:
            longest = 0.0
            for rank in ranks:
                seconds = stage.groups_s(rank)
                longest = seconds if seconds > longest else longest
            device.append(stage.products_s(most, mean, rows) + longest)
        return device


def _least(*seconds: Array) -> float:
    return min(float(values[values > 0].min(initial=np.inf)) for values in seconds)


# ------------------------------------------------------------------------------- a deployment


@dataclass(frozen=True, slots=True)
class _Drafting:
    """Passes of a draft model in a step.

    extending: number of passes over all tokens of the step, priced by `first`; single: number of
    later passes over one token per sequence, priced by `later`.
    """

    extending: int
    first: ModelTables
    single: int
    later: ModelTables
    query: int

    def seconds(self, ranks: Sequence[RankWork]) -> float:
        seconds = self.extending * self.first.times(ranks)[0]
        if self.single:
            after = [self._after(rank) for rank in ranks]
            seconds += self.single * self.later.times(after)[0]
        return seconds

    def _after(self, rank: RankWork) -> RankWork:
        """The same step with one token per sequence, after the tokens of `rank`."""
        tokens = rank.tokens + rank.decodes * self.query
        return RankWork(rank.decodes, tokens, [(1, new + cached) for new, cached in rank.prompts])


class StepTables:
    """The tabulated step model; a `StepPrice`.

    The time of a step is the sum of its matrix products and messages by tokens, its experts by the
    tokens of all ranks, its attention by group, its drafts, and its host time.
    """

    def __init__(
        self, target: ModelTables, engine: EngineProfile, drafting: _Drafting | None = None
    ) -> None:
        self._target = target
        self._drafting = drafting
        self._step_s = engine.host_step_s + engine.sampling_s
        self._sequence_s = engine.host_sequence_s
        self._plain = drafting is None and target.stages == 1
        self._contexts = target.alone.columns
        # of one rank that decodes, by its sequences: seconds of products, by context, and of host
        self._decoding: dict[int, tuple[float, list[float], float]] = {}

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        parallelism: Parallelism,
        engine: EngineProfile,
        extent: Extent | None = None,
    ) -> StepTables:
        """Price the step model of a deployment; drafts are included for a `SpeculativeModel`.

        Tables are cached for later simulations of similar loads.
        """
        extent = (extent or Extent()).rounded()
        values = (repr(parallelism), extent)
        return _TABLES.get(
            lambda: _priced(model, system, parallelism, engine, extent),
            model, system, engine, values=values,
        )  # fmt: skip

    def __call__(self, ranks: Sequence[RankWork]) -> tuple[float, float]:
        """See `StepPrice`."""
        if self._plain and len(ranks) == 1 and not ranks[0].prompts and ranks[0].decodes:
            whole = self._decoding_s(ranks[0])
            return whole, whole
        device = self._target.times(ranks)
        if self._drafting:
            device[-1] += self._drafting.seconds(ranks)
        sequences = 0
        for decodes, _, prompts in ranks:
            running = decodes + len(prompts)
            sequences = running if running > sequences else sequences
        host = self._step_s + self._sequence_s * sequences
        if len(device) == 1:
            whole = device[0] + host
            return whole, whole
        return sum(device) + host, max(*device, host)

    def _decoding_s(self, rank: RankWork) -> float:
        """Seconds of a step of one rank that only decodes, in one stage."""
        decodes, tokens, _ = rank
        parts = self._decoding.get(decodes)
        if parts is None:
            target, host = self._target, self._step_s + self._sequence_s * decodes
            parts = target.products_s(decodes), target.alone.line(decodes), host
            self._decoding[decodes] = parts
        products, by_context, host = parts
        return products + between(self._contexts, by_context, tokens / decodes) + host


_TABLES: ByIdentity[StepTables] = ByIdentity(16)


def _priced(
    model: Model, system: System, parallelism: Parallelism, engine: EngineProfile, extent: Extent
) -> StepTables:
    deployed = deploy(model, system, engine)
    engine = deployed.engine
    if not isinstance(deployed.model, SpeculativeModel):
        return StepTables(ModelTables.of(deployed, parallelism, extent, QueryTokens()), engine)
    speculation, target = deployed.model.speculation, deployed.model.model
    drafted = speculation.draft_tokens
    verified = QueryTokens(1 + drafted, drafted, 1 + drafted)
    tables = ModelTables.of(Deployment(target, system, engine), parallelism, extent, verified)
    if speculation.draft is None:
        return StepTables(tables, engine)
    draft = Deployment(speculation.draft, system, engine)
    split = draft_parallelism(speculation.draft, parallelism)
    first = ModelTables.of(draft, split, extent, QueryTokens(1 + drafted, drafted))
    later = ModelTables.of(draft, split, extent, QueryTokens(), without=TARGET_STATES)
    drafting = _Drafting(speculation.extending, first, speculation.single, later, 1 + drafted)
    return StepTables(tables, engine, drafting)
