"""Device time of a model's steps by their content: priced at nodes in one array call, linear
between.

An engine's step of D decodes and n prompt tokens costs its matrix products by tokens, its experts
by the tokens of all ranks, its head by the sampled sequences, and its attention by group.  Each of
these shares is priced once, at a few nodes of every configuration.  At the nodes (one decode, the
most that run, a prompt by itself) a step equals the price of `genz_core.mixed`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genz_core.common.memo import ByIdentity
from genz_core.compiled.lanes import Lanes, of_all_runs, repeated
from genz_core.compiled.pricing import operator_seconds
from genz_core.deployment import Deployment
from genz_core.graphs import Op, picked
from genz_core.models.speculative import QueryTokens
from genz_core.schedule import LEAST_REST, NODES, WEIGHTS
from genz_core.serving.deduplicate import picked_columns
from genz_core.serving.node_lines import Line, nodes_of
from genz_core.steps.placed_graph import launches, of_busiest_rank, stage_runs
from genz_core.types import Array, Group, Num, Parallelism, Places, Step, Workload
from genz_core.validity import columns, split_of

#: What the time of an operator depends on: tokens of the rank, tokens of all ranks, sampled
#: sequences, or the lengths of every group of sequences.
Share = Literal["tokens", "experts", "rows", "groups"]
_OF_TOKENS: tuple[Share, ...] = ("tokens", "experts", "rows")
_OF_GROUPS = ("attention", "ssm", "convolution")
#: (sequences, new tokens, cached tokens) of probe steps that show which share an operator belongs
#: to.
_PROBES = ((8.0, 1.0, 1000.0), (1.0, 8.0, 1000.0), (8.0, 1.0, 3000.0))
_DECODE_NODES, _PROMPT_NODES = 10, 8
#: Numbers of prompts whose attention is priced in one kernel: a single one, and two at which every
#: further one adds as much.
PROMPTS_OF_A_KERNEL = (1.0, 256.0, 512.0)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Largest content of the steps of a load, and its lengths, [configs].

    decodes: sequences that decode in a step of a rank.  tokens: prompt tokens of one.
    piece: tokens of a prompt that a step takes.  isl, osl: mean lengths of a request; cached:
    prompt tokens found in the cache.  branches: sequences that a request decodes.
    share: share of the ranks that have any request, 1 where there are at least as many requests as
    ranks.
    """

    decodes: Array
    tokens: Array
    piece: Array
    isl: Array
    osl: Array
    cached: Num = 0.0
    branches: int = 1
    share: Num = 1.0

    @property
    def several(self) -> bool:
        """Whether any prompt needs several steps."""
        return bool(np.any(self.isl > self.piece))

    @property
    def rest(self) -> Array:
        """Tokens of the last piece of a prompt."""
        left = self.isl - np.floor(self.isl / self.piece) * self.piece
        least = np.minimum(self.piece, LEAST_REST)
        return np.where(left > 0.0, np.maximum(left, least), self.piece)

    def picked(self, chosen: Places) -> Sizes:
        """A selection of the configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, **columns)


@dataclass(frozen=True)
class ModelTimes:
    """Device times of a model's steps, of configurations with the same number of pipeline stages.

    nodes: tokens of a rank, [nodes, configs]; products_s, experts_s, rows_s: seconds there,
    [stages, nodes, configs].  decode_nodes: sequences that decode; decodes_s: their attention.
    prompt_s: attention of a piece of a prompt by itself, [stages, configs]; rest_s: of the last
    piece of a prompt.  prompts_s: that each piece adds to a kernel of many, and prompts_least_s:
    what they pay once.
    ranks: number that wait for one another, [configs].  launched: operators that the host launches
    for each stage, [stages, configs].  uneven_s: time of the experts for each prompt token that a
    rank has beyond the mean of all, [stages, configs]: shared experts run for its own tokens.
    query: new tokens of a sequence that decodes.
    """

    nodes: Array
    products_s: Array
    experts_s: Array
    rows_s: Array
    decode_nodes: Array
    decodes_s: Array
    prompt_s: Array
    rest_s: Array
    prompts_s: Array
    prompts_least_s: Array
    sizes: Sizes
    ranks: Array
    launched: Array
    uneven_s: Array
    query: QueryTokens

    @classmethod
    def of(
        cls,
        deployed: Deployment,
        parallelism: Parallelism,
        sizes: Sizes,
        query: QueryTokens,
        without: str = "",
    ) -> ModelTimes:
        """Price the nodes; every degree of `parallelism` an array [configs], `pp` the same in all.

        without: module whose operators are left out.

        Raises:
            MissingSpec: the system states no peak or link that an operator needs.
        """
        one = np.ones_like(sizes.isl)
        steps = _Steps.of(deployed, parallelism, without)
        ranks = one * parallelism.dp if "experts" in steps.shares else one
        some, nodes = _nodes(sizes, query.tokens, ranks)
        prompt = sizes.cached + sizes.isl
        contexts = prompt + NODES[:, None] * np.maximum(sizes.osl - 2.0, 0.0)
        of_tokens = steps.seconds(Group(nodes, one, one), *_OF_TOKENS)
        decoding = query.group(some[:, None], contexts, prompt)
        attention = steps.seconds(decoding, "groups")["groups"]
        numbers, pieces = [*PROMPTS_OF_A_KERNEL], [sizes.piece] * len(PROMPTS_OF_A_KERNEL)
        if sizes.several:
            numbers, pieces = [*numbers, 1.0], [*pieces, sizes.rest]
        new = np.stack(pieces)
        reading = Group(
            np.array(numbers)[:, None] * one, new, sizes.cached + (sizes.isl - new) / 2.0,
            prompt=prompt,
        )  # fmt: skip
        alone, many, more, *last = np.moveaxis(steps.seconds(reading, "groups")["groups"], 1, 0)
        number, further = PROMPTS_OF_A_KERNEL[1:]
        each = (more - many) / (further - number)
        launched = steps.launched[:, None] * one
        uneven = np.zeros_like(launched)
        if np.any(ranks > 1.0):
            uneven = steps.uneven_s(sizes.piece, ranks)
        return cls(
            nodes=nodes,
            products_s=of_tokens["tokens"],
            experts_s=of_tokens["experts"],
            rows_s=of_tokens["rows"],
            decode_nodes=some,
            decodes_s=np.einsum("snkc,k->snc", attention, WEIGHTS),
            prompt_s=alone,
            rest_s=last[0] if last else alone,
            prompts_s=each,
            prompts_least_s=np.minimum(np.maximum(many - number * each, 0.0), alone - each),
            sizes=sizes,
            ranks=ranks,
            launched=launched,
            uneven_s=uneven,
            query=query,
        )

    @cached_property
    def _lines(self) -> _Lines:
        return _Lines(self)

    @cached_property
    def _part_of_a_piece(self) -> tuple[Array, Array, Array]:
        """Size of the last piece of a prompt, in pieces, [configs]; attention of a piece up to that
        size and beyond it [s per piece], [stages, configs].
        """
        rest = self.sizes.rest / self.sizes.piece
        left = np.where(rest < 1.0, 1.0 - rest, np.inf)
        return rest, self.rest_s / rest, (self.prompt_s - self.rest_s) / left

    @cached_property
    def _one_rank(self) -> bool:
        """Whether no rank of any configuration waits for another."""
        return bool((self.ranks == 1.0).all())

    @cached_property
    def _spread(self) -> bool:
        """Whether any configuration has fewer requests than ranks."""
        return bool((np.asarray(self.sizes.share) < 1.0).any())

    def with_share(self, share: Array) -> ModelTimes:
        """The times if this share of the ranks has requests, [configs]; see `Sizes`."""
        return replace(self, sizes=replace(self.sizes, share=share))

    def picked(self, chosen: Places) -> ModelTimes:
        """A selection of the configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, sizes=self.sizes.picked(chosen), **columns)

    def of_decodes(self, decodes: Array) -> Array:
        """Time of every stage of a step that only decodes [s], [stages, ..., configs]."""
        lines, verified = self._lines, decodes * self.query.tokens
        tokens = lines.tokens.place(verified)
        attention = lines.attention(lines.decodes.place(decodes))
        if not self._spread and self.query.tokens == self.query.sampled:
            return lines.all_shares(tokens) + attention
        routed = lines.tokens.place(verified * self.sizes.share) if self._spread else tokens
        sampled = lines.tokens.place(decodes * self.query.sampled)
        return lines.products(tokens) + lines.experts(routed) + lines.rows(sampled) + attention

    def __call__(self, decodes: Array, tokens: Array, elsewhere: Array) -> Array:
        """Time of every stage on the busiest rank [s], [stages, ..., configs].

        decodes: sequences that decode there.  tokens: prompt tokens there; elsewhere: on each other
        rank.
        """
        lines, verified = self._lines, decodes * self.query.tokens
        prompts = self.prompts(tokens)
        place = lines.tokens.place(verified + tokens)
        if self._one_rank:
            shares = lines.products_and_experts(place)
        else:
            prompts_mean = (tokens + elsewhere * (self.ranks - 1.0)) / self.ranks
            mean = verified * self.sizes.share + prompts_mean
            uneven = beside_stages(self.uneven_s, tokens) * (tokens - prompts_mean)
            experts = lines.experts(lines.tokens.place(mean)) + uneven
            shares = lines.products(place) + experts
        return (
            shares
            + lines.rows(lines.tokens.place(decodes * self.query.sampled + prompts))
            + lines.attention(lines.decodes.place(decodes))
            + self._reading(tokens / self.sizes.piece)
        )

    def _reading(self, pieces: Array) -> Array:
        """Attention of pieces of prompts in one kernel [s], [stages, ..., configs]; of less than a
        piece linear through that of a prompt's last piece.
        """
        rest, below, beyond = self._part_of_a_piece
        below, beyond, each, least = (
            beside_stages(seconds, pieces)
            for seconds in (below, beyond, self.prompts_s, self.prompts_least_s)
        )
        first = np.minimum(pieces, 1.0)
        one = below * np.minimum(first, rest) + beyond * np.maximum(first - rest, 0.0)
        seconds: Array = np.maximum(one, (least + each * pieces) * (pieces > 1.0))
        return seconds

    def prompts(self, tokens: Array) -> Array:
        """Number of prompts that the prompt tokens of a step belong to."""
        return np.minimum(np.ceil(tokens / self.sizes.isl - 1e-9), tokens)


def beside_stages(numbers: Array, sizes: Array) -> Array:
    """Numbers [stages, configs] in the shape of those of steps, [stages, ..., configs].

    sizes: of the steps, [..., configs].
    """
    return numbers.reshape(len(numbers), *(1,) * (sizes.ndim - 1), -1)


def _nodes(sizes: Sizes, query: int, ranks: Array) -> tuple[Array, Array]:
    """Numbers of decoding sequences, and of tokens of a rank, at which a step is priced, [nodes,
    configs].

    query: new tokens of a sequence that decodes.  ranks: that wait for one another.
    """
    some = np.geomspace(np.ones_like(sizes.decodes), np.maximum(sizes.decodes, 2.0), _DECODE_NODES)
    prompts = np.geomspace(np.minimum(sizes.piece, 16.0), sizes.tokens, _PROMPT_NODES)
    decodes = some if query == 1 else np.concatenate([some, some * query])
    # the tiles that a piece fills may have no rows left for the decodes beside it
    few, none = np.full_like(sizes.piece, query), np.zeros_like(sizes.piece)
    piece = sizes.piece + np.stack([none, few, sizes.decodes * query])
    tokens = [decodes, prompts, piece, sizes.decodes * query + prompts]
    if sizes.several:
        tokens.append(sizes.rest[None])
    if np.any(ranks > 1.0):  # experts see the mean of the ranks, one of which reads
        tokens.append(sizes.piece / ranks + np.stack([none, sizes.decodes * query]))
        tokens.append(query / ranks[None])  # a single sequence on one of them
    if np.any(np.asarray(sizes.share) < 1.0):
        tokens.append(np.broadcast_to(sizes.share * query, sizes.isl.shape)[None])
    return some, np.sort(np.concatenate(tokens), axis=0)


# ------------------------------------------------------------------------------- linear in between


class _Lines:
    """The lines of `ModelTimes`, one for each quantity that time depends on."""

    def __init__(self, times: ModelTimes) -> None:
        self.tokens, self.decodes = nodes_of(times.nodes), nodes_of(times.decode_nodes)
        self._products_s, self._experts_s = times.products_s, times.experts_s
        self._rows_s, self._decodes_s = times.rows_s, times.decodes_s

    @cached_property
    def products(self) -> Line:
        return self.tokens.line(self._products_s)

    @cached_property
    def experts(self) -> Line:
        return self.tokens.line(self._experts_s)

    @cached_property
    def rows(self) -> Line:
        return self.tokens.line(self._rows_s)

    @cached_property
    def products_and_experts(self) -> Line:
        return self.tokens.line(self._products_s + self._experts_s)

    @cached_property
    def all_shares(self) -> Line:
        return self.tokens.line(self._products_s + self._experts_s + self._rows_s)

    @cached_property
    def attention(self) -> Line:
        return self.decodes.line(self._decodes_s)


# ------------------------------------------------------------------------------- shares of a step


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps with one group of sequences per rank.

    shares: what the time of each operator depends on, [ops]; "" for those that are left out.
    by_stage: runs on each pipeline stage, [stages, ops]; launched: of all that the host launches,
    [stages].  split: degrees, [configs] or one for all.
    """

    deployed: Deployment
    split: Parallelism
    shares: NDArray[np.str_]
    by_stage: Array
    launched: Array

    @classmethod
    def of(cls, deployed: Deployment, parallelism: Parallelism, without: str) -> _Steps:
        """Of a deployment; `without` a module's operators."""
        numbers = columns(Workload(), parallelism)
        distinct = np.stack(list(numbers.values()))
        alike = bool((distinct == distinct[:, :1]).all())
        distinct = distinct[:, :1] if alike else np.unique(distinct, axis=1)
        degrees: dict[str, Any] = dict(zip(numbers, distinct, strict=True))
        if alike:
            degrees = {name: float(column[0]) for name, column in degrees.items()}
        few, stages = split_of(parallelism, degrees), int(numbers["pp"][0])
        shares, by_stage, launched = _SHARES.get(
            lambda: _shares(deployed, few, stages, without),
            deployed.model, deployed.engine.eager, deployed.engine.shared_beside,
            deployed.placement,
            values=(distinct.tobytes(), few.sequence_parallel, few.order, few.overlap, stages,
                    without),
        )  # fmt: skip
        return cls(deployed, few if alike else parallelism, shares, by_stage, launched)

    def uneven_s(self, piece: Array, ranks: Array) -> Array:
        """Time of the experts for each token that a rank has beyond the mean of all ranks [s],
        [stages, configs]: of a piece of a prompt that only one rank reads.
        """
        one, mean = np.ones_like(piece), piece / ranks
        even = self.seconds(Group(mean, one, one), "experts")["experts"]
        alone = self.seconds(Group(one / ranks, piece, one), "experts")["experts"]
        uneven: Array = np.maximum(alone - even, 0.0) / np.maximum(piece - mean, 1.0)
        return uneven

    def seconds(self, laid: Group, *shares: Share) -> dict[Share, Array]:
        """Seconds of the operators of given shares in steps of a rank, [stages, ..., configs].

        laid: sizes of the steps, numbers or arrays [..., configs].
        """
        sizes = [getattr(laid, name) for name in _SIZES]
        shape = np.broadcast_shapes(*map(np.shape, sizes))
        split = repeated(self.split, math.prod(shape[:-1]))
        laid_out = np.empty((len(sizes), *shape))
        for row, size in zip(laid_out, sizes, strict=True):
            row[...] = size
        every = laid_out.reshape(len(sizes), -1)
        of = None
        if split is self.split and shape[-1] > 1:  # of several loads, in one split
            every, of = _distinct(every)
        sequences, new, cached, prompt = every
        group = replace(
            laid,
            sequences=sequences * np.asarray(split.dp, dtype=float),
            new_tokens=new,
            cached_tokens=cached,
            prompt=prompt,
        )
        chosen = {share: self.shares == share for share in shares}
        wanted = np.logical_or.reduce([*chosen.values()])
        time = operator_seconds(self.deployed, Lanes.of(group, split), wanted)
        found: dict[Share, Array] = {}
        for share, of_share in chosen.items():
            on_stages = of_all_runs(self.by_stage[:, of_share], time[of_share])
            if of is not None:
                on_stages = on_stages[:, of]
            found[share] = on_stages.reshape(len(on_stages), *shape)
        return found


def _distinct(sizes: Array) -> tuple[Array, Places | None]:
    """Sizes [sizes, steps] once each if at most one of them varies, and the place of every step
    there.
    """
    varying = sizes[(sizes != sizes[:, :1]).any(axis=1)]
    if len(varying) > 1:
        return sizes, None
    one = varying[0] if len(varying) else sizes[0]
    _, first, of = np.unique(one, return_index=True, return_inverse=True)
    return sizes[:, first], of


_SIZES = ("sequences", "new_tokens", "cached_tokens", "prompt")
_SHARES: ByIdentity[tuple[NDArray[np.str_], Array, Array]] = ByIdentity(64)


def _shares(
    deployed: Deployment, parallelism: Parallelism, stages: int, without: str
) -> tuple[NDArray[np.str_], Array, Array]:
    """What the time of each operator depends on, judged by a graph of small steps, `_PROBES`, its
    runs on each pipeline stage, and the number that the host launches; see `_Steps`.
    """
    size = len(columns(Workload(), parallelism)["pp"])
    split = repeated(parallelism, len(_PROBES))
    sequences, new, cached = np.repeat(np.array(_PROBES), size, axis=0).T
    group = Group(sequences * np.asarray(split.dp, dtype=float), new, cached)
    graph = of_busiest_rank(deployed.graph(Step((group,)), split), split)
    shares = ["" if without and op.module == without else _share(op, size) for op in graph.ops]
    by_stage = stage_runs(graph, stages)
    return np.array(shares), by_stage, launches(graph, by_stage)


def _share(op: Op, size: int) -> Share:
    """What the time of an operator depends on, judged by its first columns, the probes."""
    apart, together, later = (
        picked(op, slice(at * size, (at + 1) * size)) for at in range(len(_PROBES))
    )
    if op.operator_class in _OF_GROUPS or not _alike(apart, later):
        return "groups"
    if not np.any(apart.flops) and np.any(together.flops):
        return "groups"  # work for prompts only: an encoder of text, sound or images
    if of_all_ranks(op):
        return "experts"
    if _alike(apart, together):
        return "tokens"
    # an exchange sends tokens of prompts otherwise than decoded ones
    return "groups" if op.operator_class == "collective" else "rows"


def of_all_ranks(op: Op) -> bool:
    """Whether an operator's time depends on the tokens of all attention ranks: experts, and what
    gathers tokens for them.  In an exchange the busiest sender decides.
    """
    gathers = op.operator_class == "collective" and op.kind != "all_to_all"
    return op.operator_class == "moe" or (gathers and op.name.startswith("moe_"))


def _alike(one: Op, other: Op) -> bool:
    figures = ("flops", "memory_bytes", "message_bytes")
    return all(np.all(getattr(one, name) == getattr(other, name)) for name in figures)
