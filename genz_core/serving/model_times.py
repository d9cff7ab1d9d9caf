"""Device time of a model's steps by what they hold: nodes priced in one array call, linear between.

An engine's step of D decodes and n prompt tokens costs its matrix products by tokens, its experts
by the tokens of all ranks, its head by what is sampled, and its attention by group.  Each share is
priced once, at a few nodes of every configuration.  At the nodes (one decode, the most that run, a
prompt of its own) a step is the price of `genz_core.mixed`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genz_core.deployment import Deployment
from genz_core.latency import Pricer
from genz_core.serving.alike import picked_columns
from genz_core.speculative import Query
from genz_core.step import of_busiest_rank, stage_runs
from genz_core.types import (
    Array,
    Graph,
    Group,
    Num,
    Op,
    Parallelism,
    Places,
    Step,
    Workload,
    picked,
)
from genz_core.validity import columns, split_of, stack

#: What the time of an operator follows: tokens of the rank, tokens of all ranks, sequences that
#: sample, or the lengths of every group of sequences.
Share = Literal["tokens", "experts", "rows", "groups"]
_OF_GROUPS = ("attention", "ssm", "convolution")
#: (sequences, new tokens, cached tokens) that a step is laid with to find its operators' shares.
_PROBES = ((8.0, 1.0, 1000.0), (1.0, 8.0, 1000.0), (8.0, 1.0, 3000.0))
_DECODE_NODES, _PROMPT_NODES = 10, 8
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(3)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the steps of a load hold at most, and of what length, [configs].

    decodes: sequences that decode in a step of a rank.  tokens: prompt tokens of one.
    piece: tokens of a prompt that a step takes.  isl, osl: mean lengths of a request; cached:
    tokens before its prompt that need not be read.  branches: sequences that a request decodes.
    share: of the ranks that have a request at all, 1 where there are as many requests as ranks.
    """

    decodes: Array
    tokens: Array
    piece: Array
    isl: Array
    osl: Array
    cached: Num = 0.0
    branches: int = 1
    share: Num = 1.0

    def picked(self, chosen: Places) -> Sizes:
        """Those of some configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, **columns)


@dataclass(frozen=True, slots=True)
class ModelTimes:
    """Device times of a model's steps, of configurations with as many pipeline stages.

    nodes: tokens of a rank, [nodes, configs]; products_s, experts_s, rows_s: seconds there,
    [stages, nodes, configs].  decode_nodes: sequences that decode; decodes_s: their attention.
    prompt_s: attention of one prompt token, [stages, configs].  ranks: that wait for one another,
    [configs].  query: new tokens of a sequence that decodes.
    """

    nodes: Array
    products_s: Array
    experts_s: Array
    rows_s: Array
    decode_nodes: Array
    decodes_s: Array
    prompt_s: Array
    sizes: Sizes
    ranks: Array
    query: Query

    @classmethod
    def of(
        cls,
        deployed: Deployment,
        parallelism: Parallelism,
        sizes: Sizes,
        query: Query,
        without: str = "",
    ) -> ModelTimes:
        """Price the nodes; every degree of `parallelism` an array [configs], `pp` the same in all.

        without: module whose operators are left out.

        Raises:
            MissingSpec: the system states no peak or link that an operator needs.
        """
        one = np.ones_like(sizes.isl)
        some, nodes = _nodes(sizes, query.tokens)
        prompt = sizes.cached + sizes.isl
        contexts = prompt + (_NODES[:, None] + 1.0) / 2.0 * np.maximum(sizes.osl - 2.0, 0.0)
        read = sizes.cached + (sizes.isl - sizes.piece) / 2.0
        laid = [
            *(Group(*(size * one for size in probe)) for probe in _PROBES),
            *(Group(node, one, one) for node in nodes),
            *(query.group(node, context, prompt) for node in some for context in contexts),
            Group(one, sizes.piece, read, prompt=prompt),
        ]
        priced = _Laid.of(deployed, parallelism, laid, without)
        tokens = slice(len(_PROBES), len(_PROBES) + len(nodes))
        by_context = priced.seconds("groups", slice(tokens.stop, len(laid) - 1))
        attention = by_context.reshape(-1, len(some), len(contexts), one.size)
        prompt = priced.seconds("groups", slice(len(laid) - 1, len(laid)))
        return cls(
            nodes=nodes,
            products_s=priced.seconds("tokens", tokens),
            experts_s=priced.seconds("experts", tokens),
            rows_s=priced.seconds("rows", tokens),
            decode_nodes=some,
            decodes_s=np.einsum("snkc,k->snc", attention, _WEIGHTS / 2.0),
            prompt_s=prompt[:, 0] / sizes.piece,
            sizes=sizes,
            ranks=one * parallelism.dp if priced.has_experts else one,
            query=query,
        )

    def picked(self, chosen: Places) -> ModelTimes:
        """Those of some configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, sizes=self.sizes.picked(chosen), **columns)

    def of_decodes(self, decodes: Array) -> Array:
        """Time of every stage of a step of decodes alone [s], [stages, ..., configs]."""
        tokens = _place(self.nodes, decodes * self.query.tokens)
        attention = _at(self.decodes_s, _place(self.decode_nodes, decodes))
        routed = tokens
        if np.any(np.asarray(self.sizes.share) < 1.0):
            routed = _place(self.nodes, decodes * self.query.tokens * self.sizes.share)
        sampled = _place(self.nodes, decodes * self.query.sampled)
        if routed is tokens and self.query.tokens == self.query.sampled:
            return _at(self.products_s + self.experts_s + self.rows_s, tokens) + attention
        products = _at(self.products_s, tokens) + _at(self.experts_s, routed)
        return products + _at(self.rows_s, sampled) + attention

    def __call__(self, decodes: Array, tokens: Array, elsewhere: Array) -> Array:
        """Time of every stage of the rank with the most to do [s], [stages, ..., configs].

        decodes: sequences that decode there.  tokens: of prompts there; elsewhere: on each other
        rank.
        """
        verified = decodes * self.query.tokens
        prompts = self.prompts(tokens)
        place = _place(self.nodes, verified + tokens)
        if np.all(self.ranks == 1.0):
            shares = _at(self.products_s + self.experts_s, place)
        else:
            prompts_mean = (tokens + elsewhere * (self.ranks - 1.0)) / self.ranks
            mean = verified * self.sizes.share + prompts_mean
            shares = _at(self.products_s, place) + _at(self.experts_s, _place(self.nodes, mean))
        return (
            shares
            + _at(self.rows_s, _place(self.nodes, decodes * self.query.sampled + prompts))
            + _at(self.decodes_s, _place(self.decode_nodes, decodes))
            + self.prompt_s.reshape(len(self.prompt_s), *(1,) * (tokens.ndim - 1), -1) * tokens
        )

    def prompts(self, tokens: Array) -> Array:
        """Prompts that so many tokens of a step belong to."""
        return np.minimum(np.ceil(tokens / self.sizes.isl - 1e-9), tokens)


def _nodes(sizes: Sizes, query: int) -> tuple[Array, Array]:
    """Sequences that decode, and tokens of a rank, where a step is priced, [nodes, configs].

    query: new tokens of a sequence that decodes.
    """
    some = np.geomspace(np.ones_like(sizes.decodes), np.maximum(sizes.decodes, 2.0), _DECODE_NODES)
    prompts = np.geomspace(np.minimum(sizes.piece, 16.0), sizes.tokens, _PROMPT_NODES)
    decodes = some if query == 1 else np.concatenate([some, some * query])
    tokens = [decodes, prompts, sizes.piece[None], sizes.decodes * query + prompts]
    if np.any(np.asarray(sizes.share) < 1.0):
        tokens.append(np.broadcast_to(sizes.share * query, sizes.isl.shape)[None])
    return some, np.sort(np.concatenate(tokens), axis=0)


# ------------------------------------------------------------------------------- linear in between


@dataclass(frozen=True, slots=True)
class _Place:
    """Nodes on either side of numbers: left of them, and how far to the next, [..., configs]."""

    left: NDArray[np.intp]
    share: Array
    some: NDArray[np.bool_]


def _place(nodes: Array, at: Array) -> _Place:
    """Where numbers [..., configs] lie among nodes [nodes, configs]; below the first, there."""
    columns = np.arange(nodes.shape[1])
    beside = nodes.reshape(len(nodes), *(1,) * (at.ndim - 1), -1)
    left = np.clip(np.count_nonzero(beside <= at, axis=0) - 1, 0, len(nodes) - 2)
    low, high = nodes[left, columns], nodes[left + 1, columns]
    gap = np.where(high > low, high - low, np.inf)
    return _Place(left, np.maximum(at - low, 0.0) / gap, at > 0)


def _at(values: Array, place: _Place) -> Array:
    """Values [stages, nodes, configs] at places, [stages, ..., configs]; 0 where there is none."""
    columns = np.arange(values.shape[2])
    low, high = values[:, place.left, columns], values[:, place.left + 1, columns]
    return (low + place.share * (high - low)) * place.some


# ------------------------------------------------------------------------------- one graph for all


@dataclass(frozen=True, slots=True)
class _Laid:
    """Steps of one group of sequences laid side by side in one graph, [rows x configs].

    shares: what the time of each operator follows.  size: number of configurations.
    """

    graph: Graph
    shares: Sequence[Share]
    pricer: Pricer
    stages: int
    size: int

    @classmethod
    def of(
        cls,
        deployed: Deployment,
        parallelism: Parallelism,
        laid: Sequence[Group],
        without: str,
    ) -> _Laid:
        """Lay steps of one group a rank, [rows]; `without` a module's operators."""
        size = np.size(laid[0].sequences)
        lanes = _repeated(parallelism, len(laid))
        group = _side_by_side(laid, size)
        sequences = group.sequences * np.asarray(lanes.dp, dtype=float)
        graph = deployed.graph(Step((replace(group, sequences=sequences),)), lanes)
        graph = of_busiest_rank(graph, lanes)
        graph = replace(graph, ops=tuple(op for op in graph.ops if not _belongs(op, without)))
        shares = [_share(op, size) for op in graph.ops]
        stages = int(np.ravel(parallelism.pp)[0])
        return cls(graph, shares, Pricer(deployed.system, deployed.engine), stages, size)

    @property
    def has_experts(self) -> bool:
        """Whether attention ranks wait for one another."""
        return "experts" in self.shares

    def seconds(self, share: Share, rows: slice) -> Array:
        """Seconds of a share of the operators in some of the steps, [stages, rows, configs]."""
        picks = slice(rows.start * self.size, rows.stop * self.size)
        pairs = zip(self.graph.ops, self.shares, strict=True)
        ops = tuple(picked(op, picks) for op, follows in pairs if follows == share)
        columns = picks.stop - picks.start
        shape = (self.stages, rows.stop - rows.start, self.size)
        if not ops:
            return np.zeros(shape)
        seconds = stack((self.pricer.expected_s(op) for op in ops), columns)
        return (stage_runs(replace(self.graph, ops=ops), self.stages) @ seconds).reshape(shape)


def _side_by_side(groups: Sequence[Group], size: int) -> Group:
    """One group of the columns of all, [groups x configs]."""
    # Sequences are those of a rank here, so no group says how many its fullest rank has.
    names = [entry.name for entry in fields(Group) if entry.name != "fullest"]
    return Group(
        *(
            np.concatenate([np.broadcast_to(getattr(group, name), (size,)) for group in groups])
            for name in names
        )
    )


def _belongs(op: Op, module: str) -> bool:
    return bool(module) and op.module == module


def _share(op: Op, size: int) -> Share:
    """What the time of an operator follows, found by the probes that its columns start with."""
    apart, together, later = (
        picked(op, slice(at * size, (at + 1) * size)) for at in range(len(_PROBES))
    )
    if op.operator_class in _OF_GROUPS or not _alike(apart, later):
        return "groups"
    if not np.any(apart.flops) and np.any(together.flops):
        return "groups"  # what only prompts run: an encoder of text, sound or images
    if op.operator_class == "moe" or op.name.startswith("moe_"):
        return "experts"
    return "tokens" if _alike(apart, together) else "rows"


def _alike(one: Op, other: Op) -> bool:
    figures = ("flops", "memory_bytes", "message_bytes")
    return all(np.all(getattr(one, name) == getattr(other, name)) for name in figures)


def _repeated(parallelism: Parallelism, times: int) -> Parallelism:
    """Degrees of steps side by side, [times x configs]; those that are numbers stay numbers."""
    numbers = columns(Workload(), parallelism)
    return split_of(
        parallelism,
        {
            name: np.tile(column, times)
            for name, column in numbers.items()
            if np.ndim(getattr(parallelism, name, 0.0))
        },
    )
