"""The step model on grids: the sizes that each operator's time depends on, and its time at the
nodes.

An operator's time depends on the tokens of a rank, on those of all ranks (experts), on the sampled
tokens, or on the distribution of tokens over sequences and contexts (attention, recurrences).
Nodes are placed where the step model jumps, so that it is nearly linear between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Literal

import numpy as np

from genz_core.deployment import Deployment
from genz_core.graphs import Graph, Op
from genz_core.latency import Pricer
from genz_core.serving.model_times import PROMPTS_OF_A_KERNEL
from genz_core.serving.step_shares import alike, of_all_ranks
from genz_core.steps.placed_graph import launches, of_busiest_rank, stage_runs
from genz_core.steps.step import operators_s
from genz_core.types import Array, Group, Parallelism, Step
from genz_core.validity import stack

Share = Literal["tokens", "experts", "rows", "groups", "joined", "whole"]
#: Classes whose time depends on how a step's tokens are distributed over sequences.
_OF_GROUPS = ("attention", "ssm", "convolution")
#: Shares with work beside an exchange; that of attention is not counted.
_OVERLAPPING = ("tokens", "experts", "rows")

# ------------------------------------------------------------------------------- nodes


def nodes(most: float, ratio: float, least: float = 1.0) -> Array:
    """Whole numbers from `least` to at least `most`, each at most `ratio` times the one before."""
    steps = int(np.ceil(np.log(max(most, 2.0 * least) / least) / np.log(ratio)))
    return np.unique(np.round(least * ratio ** np.arange(steps + 1)))


def edges(step: float, start: float, most: float) -> Array:
    """The multiples of `step` from `start` to at least `most`, with both neighbours."""
    whole = np.round(step * np.arange(np.ceil(start / step), np.ceil(most / step) + 1.0))
    return np.concatenate([whole - 1.0, whole, whole + 1.0])


def _sorted(*parts: Array | Sequence[float]) -> Array:
    together = np.unique(np.concatenate(parts))
    return together[together >= 0.0]


def token_nodes(most: float) -> Array:
    """Tokens of a step: times of products jump where a tile of 8 or 64 rows begins."""
    small, large = min(most, 256.0), min(most, 16384.0)
    parts = [np.arange(1.0, 65.0), edges(8, 64, small), edges(64, 256, large)]
    return _sorted(*parts, edges(1024, large, most))


def prompt_nodes(most: float) -> Array:
    """New tokens of a piece: times of attention jump where a block of 16 or 128 rows begins."""
    small, large = min(most, 2048.0), min(most, 8192.0)
    parts = [np.array([1.0, 2.0]), edges(16, 16, min(most, 128.0)), edges(64, 128, small)]
    longer = 512.0 * np.round(nodes(most, 2**0.25, least=large) / 512.0) + 512.0
    return _sorted(*parts, edges(512, small, large), longer)[1:]


def cached_nodes(most: float) -> Array:
    """Nodes for the cached tokens before a piece of a prompt."""
    whole = 128.0 * np.round(nodes(most, 2**0.5, least=128.0) / 128.0)
    return _sorted([0.0, 1.0], whole, whole + 1.0)


# ------------------------------------------------------------------------------- pricing


class PricedShares:
    """Prices shares of a deployment's operators, by pipeline stage.

    without: module whose operators are left out.  stages: of the pipeline.
    joined: (name, module) of operators whose time depends on the distribution of tokens but that
    run once for all groups of a step.  whole: of attentions that do, whose time depends on all new
    and all cached tokens of the step.
    """

    def __init__(self, deployed: Deployment, parallelism: Parallelism, without: str = "") -> None:
        self.stages = int(np.max(parallelism.pp))
        self._deployed = deployed
        self._parallelism = parallelism
        self._without = without
        self._pricer = Pricer(deployed.system, deployed.engine)
        self._shares = self._classified()
        self.joined, self.whole = (
            [place for place, share in self._shares.items() if share == of_step]
            for of_step in ("joined", "whole")
        )

    def uneven_s(self, tokens: float) -> Array:
        """Seconds of the experts for each token that a rank has beyond the mean of all ranks,
        [stages]: of a prompt that only one rank reads; see `genz_core.serving.model_times`.
        """
        ranks = float(np.max(self._parallelism.dp))
        mean = np.atleast_1d(tokens / ranks)
        even = self.line("experts", mean)[:, 0]
        alone = self._seconds(Group(1.0 / ranks, tokens, 1.0), 1, "experts")[:, 0]
        uneven: Array = np.maximum(alone - even, 0.0) / max(tokens - float(mean[0]), 1.0)
        return uneven

    def launches(self) -> Array:
        """Number of operators that the host launches for each stage, [stages]."""
        graph = of_busiest_rank(self._graph(Group(1.0, 512.0, 512.0)), self._parallelism)
        return launches(graph, stage_runs(graph, self.stages))

    def line(self, share: Share, at: Array) -> Array:
        """Seconds of a share in steps of this many tokens, one per sequence, [stages, nodes]."""
        return self._seconds(Group(at, 1.0, 1.0), len(at), share)

    def grid(
        self,
        rows: Array,
        columns: Array,
        group: Callable[[Array, Array], Group],
        joined: tuple[str, str] | None = None,
    ) -> Array:
        """Seconds of the operators of a group at every node, [stages, rows, columns].

        joined: one of the operators that groups share; None for those of each group.
        """
        first, second = (axis.ravel() for axis in np.meshgrid(rows, columns, indexing="ij"))
        seconds = self._seconds(group(first, second), first.size, "groups", joined)
        return seconds.reshape(self.stages, len(rows), len(columns))

    def further_prompts(self, news: Array, cached: Array) -> tuple[Array, Array]:
        """Seconds that a piece of a prompt adds to kernels of many, [stages, rows, columns], and
        what they pay once, [stages]; see `genz_core.steps.shared_kernels`.
        """
        number, further = PROMPTS_OF_A_KERNEL[1:]
        many, more = (
            self.grid(news, cached, partial(Group, sequences)) for sequences in (number, further)
        )
        each = (more - many) / (further - number)
        least = np.maximum(many - number * each, 0.0).max(axis=(1, 2), initial=0.0)
        return each, least

    def expert_nodes(self, most: float) -> Array:
        """Mean tokens of a rank in a step, spaced so closely that the expected number of expert
        tiles is nearly linear between.
        """
        ops = self._graph(Group(8.0, 1.0, 1000.0)).ops
        shapes = [op.dims for op in ops if op.operator_class == "moe" and "top_k" in op.dims]
        ratios = {float(np.max(np.asarray(d["experts_total"]) / d["top_k"])) for d in shapes}
        parts = [
            np.round(np.arange(1.0, min(most, upto * ratio) / step / ratio) * step * ratio)
            for ratio in ratios
            for step, upto in ((4.0, 256.0), (16.0, 1024.0))  # rows of an expert
        ]
        ranks = int(np.max(self._parallelism.dp))
        fewer = np.arange(1.0, ranks) / ranks  # sequences than ranks
        return _sorted(token_nodes(most), fewer, *parts)

    def _seconds(
        self, group: Group, size: int, share: Share, joined: tuple[str, str] | None = None
    ) -> Array:
        graph = of_busiest_rank(self._graph(group), self._parallelism)
        chosen = [self._chosen(op, share, joined) for op in graph.ops]
        ops = tuple(compress(graph.ops, chosen))
        if not ops:
            return np.zeros((self.stages, size))
        if self._parallelism.overlap != "none" and share in _OVERLAPPING:
            seconds = operators_s(graph, self._parallelism, self._pricer, size)[chosen]
        else:
            seconds = stack((self._pricer.expected_s(op) for op in ops), size)
        return stage_runs(replace(graph, ops=ops), self.stages) @ seconds

    def _chosen(self, op: Op, share: Share, joined: tuple[str, str] | None) -> bool:
        place = (op.name, op.module)
        if self._without and op.module == self._without:
            return False
        return place == joined if joined else self._shares[place] == share

    def _graph(self, *groups: Group) -> Graph:
        """Graph of a step with these groups on every rank."""
        ranks = np.asarray(self._parallelism.dp, dtype=float)
        step = Step(tuple(replace(one, sequences=one.sequences * ranks) for one in groups))
        return self._deployed.graph(step, self._parallelism)

    def _classified(self) -> dict[tuple[str, str], Share]:
        """What the time of each operator depends on, by name and module.

        Found with probes that distribute 512 tokens differently: as many sequences or one, all
        sampled or only the last, with few or more cached tokens.  Operators of a group are numbered
        where a step has two groups; joined ones are not.
        """
        ways = [(512.0, 1.0, 1.0), (1.0, 512.0, 512.0), (1.0, 512.0, 1.0)]
        first, *others = (
            self._graph(Group(n, new, cached, sampled=sampled)).ops
            for cached in (1000.0, 3000.0)
            for n, new, sampled in ways
        )
        two = self._graph(Group(512.0, 1.0, 1000.0), Group(1.0, 512.0, 1000.0)).ops
        alone, beside = (Counter((op.name, op.module) for op in ops) for ops in (first, two))
        shares: dict[tuple[str, str], Share] = {}
        for at, op in enumerate(first):
            place = (op.name, op.module)
            all_sampled, read, later, *later_ones = (alike(op, ops[at]) for ops in others)
            share: Share = "joined" if beside[place] == alone[place] else "groups"
            if share == "joined" and op.operator_class == "attention":
                share = "whole"
            if op.operator_class not in _OF_GROUPS and all_sampled and later and later_ones[0]:
                share = "rows" if not read else "experts" if of_all_ranks(op) else "tokens"
            shares[place] = share
        return shares
