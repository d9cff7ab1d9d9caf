"""Arithmetic that the latency models share: partial overlap, chunked evaluation, warm caches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from math import prod

import numpy as np

from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

_LEAST = 1e-290  # smallest divisor in seconds; no real work takes less


def p_norm(p: float, *times: Num) -> Array:
    """Time of stages that overlap partially, (sum t_i^p)^(1/p) [unit of `times`].

    The sum at p = 1 (no overlap), the maximum as p grows (perfect overlap).  Terms are scaled by
    the largest, so that no power over- or underflows.
    """
    arrays = [number(time) for time in times]
    peak = reduce(np.maximum, arrays)
    safe = np.maximum(peak, _LEAST)

    def power(time: Array) -> Array:
        ratio = time / safe
        ratio **= p
        return ratio

    if len(arrays) == 2:  # the ratio of the larger one to itself is one
        total = power(np.minimum(*arrays))
        total += 1.0
    else:
        total = power(arrays[0])
        for time in arrays[1:]:
            total += power(time)
    total **= 1.0 / p
    total *= peak
    return number(total)


def chunked(function: Callable[..., Array], *axes: Num, chunk: int = 2048) -> Array:
    """`function(*axes)` over broadcast axes, `chunk` elements at a time.

    A kernel model tries dozens of tilings per shape: the candidates of 2,048 shapes fit in the
    second-level cache, those of 100,000 do not.

    Args:
        function: flat arrays of one length -> array of that length.
        axes: numbers or arrays that broadcast.

    Returns:
        The values in the shape that the axes broadcast to.
    """
    shape = common_shape([np.shape(axis) for axis in axes])
    size = prod(shape)
    flat = [flattened(axis, shape) for axis in axes]
    if size <= chunk:
        whole = function(*flat)
        return whole if whole.shape == shape else whole.reshape(shape)
    out = np.empty(size)
    for start in range(0, size, chunk):
        part = slice(start, start + chunk)
        out[part] = function(*(axis[part] for axis in flat))
    return out.reshape(shape)


def common_shape(shapes: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that shapes broadcast to; faster than `np.broadcast_shapes` for the usual cases."""
    others = set(shapes) - {()}
    if not others:
        return ()
    return others.pop() if len(others) == 1 else np.broadcast_shapes(*others)


def flattened(axis: Num, shape: tuple[int, ...]) -> Array:
    """An axis broadcast to `shape` and flattened; faster than `np.broadcast_to` for the usual
    cases.
    """
    values = np.asarray(axis, dtype=np.float64)
    if values.shape == shape:
        return values.reshape(-1)
    if values.size == 1:
        return np.full(prod(shape), values.reshape(()))
    return np.broadcast_to(values, shape).reshape(-1)


def distinct(function: Callable[[Array], Array], values: Array) -> Array:
    """`function` of an array, evaluated once for each distinct value (token counts repeat in
    sweeps).
    """
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    if flat.size < 256:
        return function(flat).reshape(np.shape(values))
    unique, where = np.unique(flat, return_inverse=True)
    return function(unique)[where].reshape(np.shape(values))


def warm_share(moved_bytes: Num, cache_bytes: float) -> Array:
    """Share of a working set that stays in a last-level cache between two runs.

    1 for sets much smaller than the cache, 0 for much larger ones; fitted: the fourth power of
    0.8 cache / set.
    """
    ratio = 0.8 * cache_bytes / np.maximum(number(moved_bytes), 1.0)
    return number(1.0 - 1.0 / (1.0 + ratio**4))
