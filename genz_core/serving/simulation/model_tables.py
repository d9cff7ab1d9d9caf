"""Tables of one model's step times, from the step model.

A simulation needs the time of millions of steps.  The step model is therefore priced beforehand on
grids, in a few array calls, and interpolated; at the grid nodes the tables equal the price of
`genz_core.mixed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from genz_core.deployment import Deployment
from genz_core.models.speculative import QueryTokens
from genz_core.serving.simulation.interpolation import Curve, Surface
from genz_core.serving.simulation.price_grids import (
    PricedShares,
    cached_nodes,
    nodes,
    prompt_nodes,
    token_nodes,
)
from genz_core.serving.simulation.step_price import RankWork
from genz_core.types import Array, Group, Parallelism

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
    `decodes` plus those of `joined`, for a step without prompts.  uneven_s: of the experts, for
    each prompt token of the busiest rank beyond the mean.  kept: see `products_s`.
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
    uneven_s: float
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

    query: new tokens of a decoding sequence.  launches: operators that the host launches for each
    stage.
    alone: of the first stage, see `_Stage`.
    """

    __slots__ = ("_launches", "_query_sampled", "_stages", "alone", "query_tokens")

    def __init__(
        self, stages: Sequence[_Stage], query: QueryTokens, launches: Sequence[float]
    ) -> None:
        self._stages = stages
        self._launches = launches
        self.alone = stages[0].alone
        self.query_tokens, self._query_sampled = query.tokens, query.sampled

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
        uneven = priced.uneven_s(extent.tokens)
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
                    float(uneven[at]),
                )
                for at in range(priced.stages)
            ],
            query,
            priced.launches().tolist(),
        )

    @property
    def stages(self) -> int:
        return len(self._stages)

    def products_s(self, decodes: int) -> float:
        """Seconds of the first stage that the contexts of decoding sequences do not change."""
        tokens = decodes * self.query_tokens
        return self._stages[0].products_s(tokens, float(tokens), decodes * self._query_sampled)

    def launched(
        self, device: Sequence[float], ranks: Sequence[RankWork], launch_s: float, captured: float
    ) -> list[float]:
        """Time of every stage of a step [s], at least that of its launches if it has more tokens
        than a captured one; see `genz_core.engine.EngineProfile.launching_s`.
        """
        most = max(
            rank.decodes * self.query_tokens + sum(new for new, _ in rank.prompts) for rank in ranks
        )
        if most <= captured:
            return list(device)
        return [max(s, n * launch_s) for s, n in zip(device, self._launches, strict=True)]

    def times(self, ranks: Sequence[RankWork]) -> list[float]:
        """Device time of every stage [s]; ranks in lock-step wait for the slowest."""
        most = rows = together = 0
        for decodes, _, prompts in ranks:
            tokens, sampled = decodes * self.query_tokens, decodes * self._query_sampled
            for new, _ in prompts:
                tokens += new
                sampled += 1
            together += tokens
            most = tokens if tokens > most else most
            rows = sampled if sampled > rows else rows
        mean, device = together / len(ranks), []
        uneven = most - mean if any(rank.prompts for rank in ranks) else 0.0
        for stage in self._stages:
            longest = 0.0
            for rank in ranks:
                seconds = stage.groups_s(rank)
                longest = seconds if seconds > longest else longest
            products_s = stage.products_s(most, mean, rows) + stage.uneven_s * uneven
            device.append(products_s + longest)
        return device


def _least(*seconds: Array) -> float:
    return min(float(values[values > 0].min(initial=np.inf)) for values in seconds)
