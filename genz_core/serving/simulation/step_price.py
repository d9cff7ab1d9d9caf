"""What a step costs: the protocol that drives a simulation, and its tables from our own model.

A simulation asks for the time of millions of steps, so the step model is priced beforehand on
grids, in a few array calls, and read by interpolation; at the nodes of the grids the tables give
the price of `genz_core.mixed` itself.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import numpy as np

from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.latency import Pricer
from genz_core.step import of_busiest_rank, stage_runs
from genz_core.types import Array, Group, Model, Op, Parallelism, Step, System
from genz_core.validity import stack


class RankWork(NamedTuple):
    """What one rank does in a step.

    decodes: sequences that generate; tokens: of theirs in the cache, all together.
    prompts: (new, cached) tokens of every piece of a prompt.
    """

    decodes: int
    tokens: float
    prompts: Sequence[tuple[int, int]] = ()


class StepTime(NamedTuple):
    """latency_s: from the start of a step to its tokens.  stage_s: until the next may start."""

    latency_s: float
    stage_s: float


class StepPrice(Protocol):
    """The time of a step of ranks that work in lock-step: our tables, or a predictor of yours."""

    def __call__(self, ranks: Sequence[RankWork]) -> StepTime: ...


@dataclass(frozen=True, slots=True)
class ScaledPrice:
    """A price times what was measured over it."""

    price: StepPrice
    scale: float

    def __call__(self, ranks: Sequence[RankWork]) -> StepTime:
        """See `StepPrice`."""
        time = self.price(ranks)
        return StepTime(time.latency_s * self.scale, time.stage_s * self.scale)


# ------------------------------------------------------------------------------- interpolation


class Curve:
    """A function of one number, linear between nodes and beyond the last; 0 at 0 and below."""

    __slots__ = ("_kept", "_nodes", "_values")

    def __init__(self, at: Array, values: Array) -> None:
        self._nodes = [float(node) for node in at]
        self._values = [float(value) for value in values]
        self._kept: dict[float, float] = {}

    def __call__(self, at: float) -> float:
        if at <= 0:
            return 0.0
        value = self._kept.get(at)
        if value is None:
            if len(self._kept) > 100_000:
                self._kept.clear()
            value = self._kept[at] = _between(self._nodes, self._values, at)
        return value


class Surface:
    """A function of two numbers, linear between nodes in each; 0 where the first is 0."""

    __slots__ = ("_columns", "_rows", "_rows_at", "_values")

    def __init__(self, rows: Array, columns: Array, values: Array) -> None:
        self._rows = [float(row) for row in rows]
        self._columns = [float(column) for column in columns]
        self._values = np.asarray(values, dtype=float)
        self._rows_at: dict[float, list[float]] = {}

    def __call__(self, row: float, column: float) -> float:
        if row <= 0:
            return 0.0
        line = self._rows_at.get(row)
        if line is None:
            if len(self._rows_at) > 20_000:
                self._rows_at.clear()
            at, share = _cell(self._rows, row)
            mixed = self._values[at] * (1.0 - share) + self._values[at + 1] * share
            line = self._rows_at[row] = mixed.tolist()
        return _between(self._columns, line, column)


def _cell(nodes: list[float], at: float) -> tuple[int, float]:
    """The interval of sorted nodes that a number lies in or nearest to, and how far along."""
    left = min(max(bisect_right(nodes, at) - 1, 0), len(nodes) - 2)
    low = nodes[left]
    return left, max((at - low) / (nodes[left + 1] - low), 0.0)


def _between(nodes: list[float], values: list[float], at: float) -> float:
    left, share = _cell(nodes, at)
    low = values[left]
    return low + share * (values[left + 1] - low)


def nodes(most: float, ratio: float, least: float = 1.0) -> Array:
    """Whole numbers from `least` to at least `most`, each at most `ratio` times the one before."""
    steps = int(np.ceil(np.log(max(most, 2.0 * least) / least) / np.log(ratio)))
    return np.unique(np.round(least * ratio ** np.arange(steps + 1)))


# ------------------------------------------------------------------------------- our own tables

#: Classes whose time depends on how a step's tokens are spread over sequences and contexts.
_OF_GROUPS = ("attention", "ssm", "convolution")


@dataclass(frozen=True, slots=True)
class _Stage:
    """One pipeline stage.

    tokens, experts, rows: seconds by tokens of the busiest rank, by tokens of the mean rank, and
    by sequences that sample.  decodes: by sequences and context of each.  prompts: by new and
    cached tokens of one.
    """

    tokens: Curve
    experts: Curve
    rows: Curve
    decodes: Surface
    prompts: Surface


class StepTables:
    """The step model on grids; a `StepPrice`.

    The time of a step is that of its matrix products and messages by tokens, of its experts by
    the tokens of all ranks, of its attention by group, and of its host.
    """

    def __init__(self, stages: Sequence[_Stage], engine: EngineProfile, draft_tokens: int) -> None:
        self._stages = stages
        self._step_s = engine.host_step_s + engine.sampling_s
        self._sequence_s = engine.host_sequence_s
        self._share = engine.prefill_share
        self._query = 1 + draft_tokens

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        parallelism: Parallelism,
        engine: EngineProfile,
        *,
        tokens: float = 8192,
        sequences: float = 1024,
        context: float = 8192,
        draft_tokens: int = 0,
    ) -> StepTables:
        """Price the step model of a deployment.

        Args:
            tokens: of a step of one rank at most.  sequences: that decode on a rank at most.
            context: cached tokens of a sequence at most.
            draft_tokens: that every decode verifies on top of its own.
        """
        priced = _Priced(deploy(model, system, engine), parallelism)
        query = 1.0 + draft_tokens
        by_tokens = nodes(max(tokens, sequences * query), 2**0.25)
        by_rows = nodes(sequences, 2**0.5)
        by_decodes = nodes(sequences, 2**0.25)
        contexts = nodes(context, 2**0.5)
        news = nodes(tokens, 2**0.25)
        cached = np.concatenate([[0.0], nodes(context, 2**0.5, least=64.0)])
        products = priced.line("tokens", by_tokens)
        experts = priced.line("experts", by_tokens)
        head = priced.line("rows", by_rows)
        decodes = priced.grid(by_decodes, contexts, lambda n, c: Group(n, query, c))
        prompts = priced.grid(news, cached, lambda n, c: Group(1.0, n, c))
        stages = [
            _Stage(
                Curve(by_tokens, products[at]),
                Curve(by_tokens, experts[at]),
                Curve(by_rows, head[at]),
                Surface(by_decodes, contexts, decodes[at]),
                Surface(news, cached, prompts[at]),
            )
            for at in range(priced.stages)
        ]
        return cls(stages, priced.deployed.engine, draft_tokens)

    def __call__(self, ranks: Sequence[RankWork]) -> StepTime:
        """See `StepPrice`; of ranks in lock-step each waits for the slowest part of any."""
        with_prompts = any(rank.prompts for rank in ranks)
        decodes = any(rank.decodes for rank in ranks)
        device = self._times(ranks, prompts=True)
        if with_prompts and self._share != 1.0:
            alone = self._times(ranks, prompts=False) if decodes else [0.0] * len(device)
            pairs = zip(device, alone, strict=True)
            device = [least + self._share * (whole - least) for whole, least in pairs]
        sequences = max(rank.decodes + len(rank.prompts) for rank in ranks)
        host = self._step_s + self._sequence_s * sequences
        if len(device) == 1:
            return StepTime(device[0] + host, device[0] + host)
        return StepTime(sum(device) + host, max(max(device), host))

    def _times(self, ranks: Sequence[RankWork], *, prompts: bool) -> list[float]:
        """Device time of every stage [s]."""
        most = total = rows = 0
        for rank in ranks:
            tokens = rank.decodes * self._query
            sampled = rank.decodes
            if prompts:
                tokens += sum(new for new, _ in rank.prompts)
                sampled += len(rank.prompts)
            most, total, rows = max(most, tokens), total + tokens, max(rows, sampled)
        mean = total / len(ranks)
        return [
            stage.tokens(most)
            + stage.experts(mean)
            + stage.rows(rows)
            + max(_attention_s(stage, rank, prompts=prompts) for rank in ranks)
            for stage in self._stages
        ]


def _attention_s(stage: _Stage, rank: RankWork, *, prompts: bool) -> float:
    seconds = 0.0
    if rank.decodes:
        seconds = stage.decodes(rank.decodes, rank.tokens / rank.decodes)
    if prompts:
        for new, cached in rank.prompts:
            seconds += stage.prompts(new, cached)
    return seconds


# ------------------------------------------------------------------------------- pricing the grids

Share = Literal["tokens", "experts", "rows", "groups"]


class _Priced:
    """Prices shares of a deployment's operators, by pipeline stage.

    stages: of the pipeline.
    """

    def __init__(self, deployed: Deployment, parallelism: Parallelism) -> None:
        self.deployed = deployed
        self.stages = int(np.max(parallelism.pp))
        self._parallelism = parallelism
        self._pricer = Pricer(deployed.system, deployed.engine)
        self._shares = _shares(deployed, parallelism)

    def line(self, share: Share, nodes: Array) -> Array:
        """Seconds of a share in steps of so many tokens, one a sequence, [stages, nodes]."""
        return self._seconds(Group(nodes, 1.0, 1.0), share, len(nodes))

    def grid(self, rows: Array, columns: Array, group: Callable[[Array, Array], Group]) -> Array:
        """Seconds of the attention of a group at every node, [stages, rows, columns]."""
        first, second = (axis.ravel() for axis in np.meshgrid(rows, columns, indexing="ij"))
        seconds = self._seconds(group(first, second), "groups", first.size)
        return seconds.reshape(self.stages, len(rows), len(columns))

    def _seconds(self, group: Group, share: Share, size: int) -> Array:
        ranks = np.asarray(self._parallelism.dp, dtype=float)
        step = Step((replace(group, sequences=group.sequences * ranks),))
        graph = of_busiest_rank(self.deployed.graph(step, self._parallelism), self._parallelism)
        ops = tuple(op for op in graph.ops if self._shares[op.name, op.module] == share)
        if not ops:
            return np.zeros((self.stages, size))
        seconds = stack((self._pricer.expected_s(op) for op in ops), size)
        return stage_runs(replace(graph, ops=ops), self.stages) @ seconds


def _shares(deployed: Deployment, parallelism: Parallelism) -> dict[tuple[str, str], Share]:
    """What the time of each operator depends on, by name and module.

    Found by laying a step three ways: eight sequences of a token, one of eight, and eight with
    more in the cache.
    """
    ranks = np.asarray(parallelism.dp, dtype=float)
    apart, together, later = (
        deployed.graph(Step((Group(n * ranks, new, cached),)), parallelism).ops
        for n, new, cached in ((8.0, 1.0, 1000.0), (1.0, 8.0, 1000.0), (8.0, 1.0, 3000.0))
    )
    shares: dict[tuple[str, str], Share] = {}
    for one, other, more in zip(apart, together, later, strict=True):
        of_groups = one.operator_class in _OF_GROUPS or not _alike(one, more)
        of_experts = one.operator_class == "moe" or one.name.startswith("moe_")
        share: Share = "groups" if of_groups else "experts" if of_experts else "tokens"
        if share == "tokens" and not _alike(one, other):
            share = "rows"
        shares[one.name, one.module] = share
    return shares


def _alike(one: Op, other: Op) -> bool:
    figures = ("flops", "memory_bytes", "message_bytes")
    return all(np.all(getattr(one, name) == getattr(other, name)) for name in figures)
