"""What the operators of a step cost, by what their time depends on.

The graph of a few small steps shows which number each operator depends on; its seconds are then
priced for steps of any sizes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genz_core.common.memo import ByIdentity
from genz_core.compiled.lanes import Lanes, of_all_runs, repeated
from genz_core.compiled.pricing import operator_seconds
from genz_core.deployment import Deployment
from genz_core.graphs import Op, picked
from genz_core.steps.placed_graph import launches, of_busiest_rank, stage_runs
from genz_core.types import Array, Group, Parallelism, Places, Step, Workload
from genz_core.validity import columns, split_of

#: What the time of an operator depends on: tokens of the rank, tokens of all ranks, sampled
#: sequences, or the lengths of every group of sequences.
Share = Literal["tokens", "experts", "rows", "groups"]
_OF_GROUPS = ("attention", "ssm", "convolution")
#: (sequences, new tokens, cached tokens) of probe steps that show which share an operator belongs
#: to.
_PROBES = ((8.0, 1.0, 1000.0), (1.0, 8.0, 1000.0), (8.0, 1.0, 3000.0))


@dataclass(frozen=True, slots=True)
class StepShares:
    """Operators of steps with one group of sequences per rank, by what their time depends on.

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
    def of(cls, deployed: Deployment, parallelism: Parallelism, without: str) -> StepShares:
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
    runs on each pipeline stage, and the number that the host launches; see `StepShares`.
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
    if op.operator_class in _OF_GROUPS or not alike(apart, later):
        return "groups"
    if not np.any(apart.flops) and np.any(together.flops):
        return "groups"  # work for prompts only: an encoder of text, sound or images
    if of_all_ranks(op):
        return "experts"
    if alike(apart, together):
        return "tokens"
    # an exchange sends tokens of prompts otherwise than decoded ones
    return "groups" if op.operator_class == "collective" else "rows"


def of_all_ranks(op: Op) -> bool:
    """Whether an operator's time depends on the tokens of all attention ranks: experts, and what
    gathers tokens for them.  In an exchange the busiest sender decides.
    """
    gathers = op.operator_class == "collective" and op.kind != "all_to_all"
    return op.operator_class == "moe" or (gathers and op.name.startswith("moe_"))


def alike(one: Op, other: Op) -> bool:
    """Whether two operators have the same FLOPs and bytes."""
    figures = ("flops", "memory_bytes", "message_bytes")
    return all(np.all(getattr(one, name) == getattr(other, name)) for name in figures)
