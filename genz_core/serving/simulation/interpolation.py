"""Piecewise-linear functions of one and of two numbers, fast for single values."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from genz_core.types import Array


class Curve:
    """A function of one number, linear between nodes and beyond the last one; 0 at and below 0."""

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
            value = self._kept[at] = between(self._nodes, self._values, at)
        return value


class Surface:
    """A function of two numbers, linear between nodes in each; 0 where the first is 0."""

    __slots__ = ("_rows", "_rows_at", "_values", "columns")

    def __init__(self, rows: Array, columns: Array, values: Array) -> None:
        self._rows = [float(row) for row in rows]
        self.columns = [float(column) for column in columns]
        self._values = np.asarray(values, dtype=float)
        self._rows_at: dict[float, list[float]] = {}

    def __call__(self, row: float, column: float) -> float:
        if row <= 0:
            return 0.0
        return between(self.columns, self._rows_at.get(row) or self.line(row), column)

    def line(self, row: float) -> list[float]:
        """The values of a row at the columns."""
        if len(self._rows_at) > 20_000:
            self._rows_at.clear()
        at, share = _cell(self._rows, row)
        mixed = self._values[at] * (1.0 - share) + self._values[at + 1] * share
        line: list[float] = mixed.tolist()
        self._rows_at[row] = line
        return line


def _cell(nodes: list[float], at: float) -> tuple[int, float]:
    """The interval of sorted nodes that contains a number or is nearest to it, and the position in
    it.
    """
    left = bisect_right(nodes, at, 1, len(nodes) - 1) - 1
    low = nodes[left]
    return left, (at - low) / (nodes[left + 1] - low) if at > low else 0.0


def between(nodes: list[float], values: list[float], at: float) -> float:
    """The value at a number, linear between nodes and beyond the last one."""
    left = bisect_right(nodes, at, 1, len(nodes) - 1) - 1
    start, low = nodes[left], values[left]
    if at <= start:
        return low
    return low + (at - start) / (nodes[left + 1] - start) * (values[left + 1] - low)
