"""Piecewise-linear functions through values at nodes, of one configuration or of many.

Every function of the same nodes takes the same places, which are found once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from genz_core.types import Array, Mask, Places


class Line(Protocol):
    """A function of places, [stages, ..., configs]: 0 up to 0, constant up to the first node, and
    beyond the last one as in the last interval.
    """

    def __call__(self, place: Any, /) -> Array: ...


class Nodes(Protocol):
    """Nodes of configurations."""

    def place(self, at: Array) -> Any:
        """The places of numbers [..., configs]."""
        ...

    def line(self, values: Array) -> Line:
        """The function through values at the nodes, [stages, nodes, configs]."""
        ...


def nodes_of(nodes: Array) -> Nodes:
    """Nodes [nodes, configs], in order."""
    return _OneNodes(nodes) if nodes.shape[1] == 1 else _ManyNodes(nodes)


# ------------------------------------------------------------------------------- one configuration


class _OneLine:
    """A `Line` of a single configuration.  nodes: [nodes].  values: [stages, nodes]."""

    _FAR, _ABOVE_ZERO = 1e15, 5e-324  # a number beyond all others, and the smallest one

    def __init__(self, nodes: Array, values: Array) -> None:
        gap = nodes[-1] - nodes[-2]
        slope = (values[:, -1] - values[:, -2]) / (gap if gap > 0 else np.inf)
        far = values[:, -1] + slope * (self._FAR - nodes[-1])
        zero = np.zeros(len(values))
        self._nodes = np.array([0.0, self._ABOVE_ZERO, *nodes, self._FAR])
        self._values = np.column_stack([zero, values[:, 0], values, far])

    def __call__(self, at: Array) -> Array:
        """Values at numbers [..., 1], [stages, ..., 1]."""
        if len(self._values) == 1:
            alone: Array = np.interp(at, self._nodes, self._values[0])[None]
            return alone
        return np.stack([np.interp(at, self._nodes, values) for values in self._values])


class _OneNodes:
    """Nodes [nodes, 1] of a single configuration, for which NumPy interpolates."""

    def __init__(self, nodes: Array) -> None:
        self._nodes = nodes[:, 0]

    def place(self, at: Array) -> Array:
        """The numbers themselves."""
        return at

    def line(self, values: Array) -> _OneLine:
        """The function through values [stages, nodes, 1]."""
        return _OneLine(self._nodes, values[:, :, 0])


# ------------------------------------------------------------------------------- several


@dataclass(frozen=True, slots=True)
class _Place:
    """Positions of numbers among nodes, [..., configs]: index of the node to the left, distance
    beyond it (0 below the first node), and whether the number is above zero.
    """

    left: Places
    beyond: Array
    some: Mask


class _ManyNodes:
    """Nodes [nodes, configs] of several configurations."""

    def __init__(self, nodes: Array) -> None:
        self.nodes, self._flat = nodes, np.ascontiguousarray(nodes).reshape(-1)
        gap = np.diff(nodes, axis=0)
        self._gap = np.where(gap > 0, gap, np.inf)

    def place(self, at: Array) -> _Place:
        """Positions of numbers [..., configs]; beyond the last node the last line is extended."""
        last, configs = len(self.nodes) - 2, self.nodes.shape[1]
        beside = self.nodes.reshape(len(self.nodes), *(1,) * (at.ndim - 1), -1)
        passed = (beside <= at).view(np.int8)  # there are about forty nodes
        left = np.add.reduce(passed, axis=0, dtype=np.int8).astype(np.intp) - 1
        left = np.minimum(np.maximum(left, 0), last) * configs + np.arange(configs)
        return _Place(left, np.maximum(at - self._flat.take(left), 0.0), at > 0)

    def line(self, values: Array) -> _ManyLines:
        """The function through values [stages, nodes, configs]."""
        slopes = np.diff(values, axis=1) / self._gap
        return _ManyLines(values.reshape(len(values), -1), slopes.reshape(len(values), -1))


@dataclass(frozen=True, slots=True)
class _ManyLines:
    """Values and slopes at nodes, [stages, nodes x configs]."""

    values: Array
    slopes: Array

    def __call__(self, place: _Place) -> Array:
        """Values at positions, [stages, ..., configs]; 0 where the number is zero."""
        found = self.slopes.take(place.left, axis=1)
        found *= place.beyond
        found += self.values.take(place.left, axis=1)
        found *= place.some
        return found
