"""Many steps together: their sizes, pieces that fit in a cache, and sums over their nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.types import DEGREES, Array, Group, Parallelism, Places

#: A selection of lanes: all of them, a slice, or indices.
Some = Places | slice
#: Fields of a split that determine a graph.
OF_GRAPH = (*DEGREES, "moe_tp", "expert_imbalance", "redundant_experts")
#: Fields of a split that may differ from lane to lane.
SPLIT = (*OF_GRAPH, "micro_batches")
_PIECE = 4096  # lanes at a time, so that their intermediate results fit in a second-level cache


@dataclass(frozen=True, slots=True)
class Lanes:
    """Steps of one group of sequences, priced together.

    sequences, new, cached, prompt: as in `Group`, [nodes, lanes], or [1, lanes] where all nodes
    have the same.  fullest: likewise, or None.  split: degrees, numbers or [lanes].
    drafted, sampled: as in `Group`, the same for all.
    """

    sequences: Array
    new: Array
    cached: Array
    prompt: Array
    split: Parallelism
    fullest: Array | None = None
    drafted: float = 0.0
    sampled: float = 1.0

    @classmethod
    def of(cls, group: Group, split: Parallelism) -> Lanes:
        """Lanes with one node each; the group's numbers are arrays [lanes] or numbers."""
        sizes = (group.sequences, group.new_tokens, group.cached_tokens, group.prompt)
        every = [np.array(size, dtype=float, ndmin=1) for size in sizes]
        if len({size.size for size in every}) > 1:
            every = list(np.broadcast_arrays(*every))
        sequences, new, cached, prompt = (size[None] for size in every)
        drafted, sampled = float(group.drafted), float(group.sampled)
        return cls(sequences, new, cached, prompt, split, drafted=drafted, sampled=sampled)

    @property
    def nodes(self) -> int:
        """Steps of each lane."""
        return max(len(self.sequences), len(self.new), len(self.cached))

    @property
    def size(self) -> int:
        """Number of lanes."""
        return int(self.cached.shape[1])

    @property
    def sizes(self) -> dict[str, Array]:
        """The sizes by name."""
        named = {
            "sequences": self.sequences,
            "new": self.new,
            "cached": self.cached,
            "prompt": self.prompt,
        }
        return named if self.fullest is None else named | {"fullest": self.fullest}

    def pieces(self, lanes: int = _PIECE) -> Iterator[tuple[slice, dict[str, Array]]]:
        """Slices of the lanes, each with its sizes by name."""
        sizes = self.sizes
        for at in pieces(self.size, lanes):
            yield at, {name: values[:, at] for name, values in sizes.items()}

    def picked(self, at: Some) -> Lanes:
        """A selection of the lanes; the split is that of all."""
        sizes: dict[str, Any] = {name: values[:, at] for name, values in self.sizes.items()}
        return replace(self, **sizes)

    def of_rank(self) -> Array:
        """Sequences of the fullest attention rank, [nodes or 1, lanes]."""
        return Group(self.sequences, self.new, self.cached, fullest=self.fullest).of_rank(
            self.split.dp
        )

    def flat(self) -> tuple[Group, Parallelism]:
        """One group of all steps, and their degrees, [nodes x lanes]."""
        shape = (self.nodes, self.size)
        sizes = {name: np.broadcast_to(v, shape).ravel() for name, v in self.sizes.items()}
        group = Group(
            sizes["sequences"],
            sizes["new"],
            sizes["cached"],
            self.drafted,
            self.sampled,
            sizes["prompt"],
            sizes.get("fullest"),
        )
        return group, repeated(self.split, self.nodes)


def repeated(split: Parallelism, times: int) -> Parallelism:
    """Degrees repeated for several steps, [times x lanes]; plain numbers stay numbers."""
    degrees: dict[str, Any] = {
        name: np.tile(column, times) for name in SPLIT if np.ndim(column := getattr(split, name))
    }
    return replace(split, **degrees) if degrees else split


def pieces(lanes: int, of: int = _PIECE) -> Iterator[slice]:
    """Slices of lanes, each of at most `of`."""
    for start in range(0, lanes, of):
        yield slice(start, min(start + of, lanes))


def of_lanes(values: Array, at: slice, lanes: int) -> Array:
    """Values [rows, nodes x lanes] of some of the lanes, likewise."""
    return values.reshape(len(values), -1, lanes)[:, :, at].reshape(len(values), -1)


def sum_nodes(values: Array, weights: Array) -> Array:
    """Values [..., nodes x lanes] summed with weights [nodes, lanes], [..., lanes]."""
    split = values.reshape(*values.shape[:-1], *weights.shape)
    total: Array = split[..., 0, :] * weights[0]
    for node in range(1, len(weights)):
        total += split[..., node, :] * weights[node]
    return total


def of_all_runs(runs: Array, values: Array) -> Array:
    """Sums over operators of their numbers of runs times values of one run, [stages, lanes].

    A product of matrices would wake a thread on every core.

    runs: [stages, ops].  values: [ops, lanes].
    """
    total: Array = np.einsum("so,ol->sl", runs, values)
    return total


def sum_broadcast(values: Array, weights: Array) -> Array:
    """Values [nodes or 1, lanes] summed with weights [nodes, lanes], [lanes]."""
    total: Array = values[0]
    if len(weights) > 1:
        total = np.einsum("kc,kc->c", np.broadcast_to(values, weights.shape), weights)
    return total
