"""Boosted residual of measured kernels: a correction of a class's equations on one device.

Trees over the sizes of a kernel and over the time that its equation gives, stored as arrays.  The
trees are monotonic: they never fall where a size of the load grows, so neither does the time.  They
are fitted by `python -m hardware_db.fit.residuals` and apply to kernels that run alone, as in the
benchmarks that they are fitted on.

    ln t = backbone ln p + sum of leaves    within the range [low, high] of p, the equation's time
    t    = p x (the factor at the range's end)    beyond it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Largest factor by which a kernel's corrected time may differ from its equation.
MOST = 4.0
_CHUNK = 4096


class Shapes(NamedTuple):
    """Shapes of operators of one kind, and the compute units of the device that runs them."""

    kind: str
    dims: Mapping[str, float | Array]
    units: float


class Feature(NamedTuple):
    """A feature that trees split on: ln of a size or a count, [shapes]; `grows`: it grows with the
    load.
    """

    values: Array
    grows: bool


@dataclass(frozen=True, slots=True, eq=False)
class Residual:
    """Trees as arrays [trees, nodes]; node 0 is the root, and a leaf is its own child.

    feature: index of the feature that a node splits on.  threshold: values up to it go left.
    left, right: nodes.  value: ln of seconds, of leaves.  backbone, low_s, high_s: see the module's
    docstring.
    """

    feature: NDArray[np.intp]
    threshold: Array
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    value: Array
    backbone: float
    low_s: float
    high_s: float
    depth: int

    def corrected_s(self, predicted_s: Array, shapes: Shapes) -> Array:
        """Corrected time of a kernel whose equation gives `predicted_s` [s], [shapes]."""
        shape = np.shape(predicted_s)
        flat = np.atleast_1d(np.asarray(predicted_s, np.float64)).reshape(-1)
        busy = np.maximum(flat, 1e-12)
        columns = [np.broadcast_to(f.values, shape).reshape(-1) for f in features(shapes)]
        table = np.stack([np.log(busy), *columns], axis=1)
        inside = np.log(np.clip(busy, self.low_s, self.high_s))
        factor = self._leaves(table) + (self.backbone - 1.0) * inside
        limit = np.log(MOST)
        corrected = flat * np.exp(np.clip(factor, -limit, limit))
        return np.where(flat > 0, corrected, 0.0).reshape(shape)

    def _leaves(self, table: Array) -> Array:
        """Sum of the leaves that rows of features reach, [rows]."""
        return np.concatenate(
            [self._some(table[at : at + _CHUNK]) for at in range(0, len(table), _CHUNK)]
        )

    def _some(self, table: Array) -> Array:
        trees, rows = np.arange(len(self.feature))[None, :], np.arange(len(table))[:, None]
        node = np.zeros((len(table), len(self.feature)), dtype=np.intp)
        for _ in range(self.depth):
            goes_left = table[rows, self.feature[trees, node]] <= self.threshold[trees, node]
            node = np.where(goes_left, self.left[trees, node], self.right[trees, node])
        return np.asarray(self.value[trees, node].sum(axis=1))


def features(shapes: Shapes) -> list[Feature]:
    """Features of an operator's class, beside the equation's time, in the order of the trees.

    Raises:
        KeyError: the class has none.
    """
    dims = {name: np.asarray(values, np.float64) for name, values in shapes.dims.items()}
    return _FEATURES[shapes.kind](dims, shapes.units)


def has_features(kind: str) -> bool:
    """Whether trees can be fitted to operators of this kind."""
    return kind in _FEATURES


def _grow(*sizes: Array) -> list[Feature]:
    return [Feature(np.log(np.maximum(size, 1e-9)), True) for size in sizes]


def _product(d: Mapping[str, Array], units: float) -> list[Feature]:
    """Sizes, their products, arithmetic intensity, and waves of tiles."""
    m, n, k = d["m"], d["n"], d["k"]
    intensity = 1.0 / (1.0 / m + 1.0 / n + 1.0 / k)
    tiles = ((64, 64), (128, 128), (128, 256), (256, 128), (64, 256))
    waves = [np.ceil(np.ceil(m / rows) * np.ceil(n / columns) / units) for rows, columns in tiles]
    return _grow(m, n, k, m * n, n * k, m * k, m * n * k, intensity, *waves)


def _attention(d: Mapping[str, Array], units: float) -> list[Feature]:
    """Sizes, streams of keys, blocks of queries, and the kind of kernel that the heads need."""
    sequences, new, heads, kv_heads = (
        d[name] for name in ("sequences", "new_tokens", "heads", "kv_heads")
    )
    keys = d["cached_tokens"] + new
    window = d.get("window", np.zeros(()))
    seen = np.where(window > 0, np.minimum(keys, window), keys)
    streams, rows = sequences * kv_heads, sequences * heads
    growing = _grow(
        sequences, new, keys, heads, rows, streams, streams * seen, seen, rows * new,
        rows * new * seen, np.ceil(streams / units), np.ceil(rows * np.ceil(new / 128.0) / units),
    )  # fmt: skip
    kinds = (d["head_dim"], heads / kv_heads, np.where(window > 0, 1.0, 0.0))
    return [*growing, *(Feature(np.asarray(kind), False) for kind in kinds)]


def _experts(d: Mapping[str, Array], _units: float) -> list[Feature]:
    """Tokens, routed rows, and sizes of an expert and of all experts."""
    tokens, rows, active = d["tokens"], d["rows"], d["active_experts"]
    size = d["hidden"] * d["intermediate"]
    growing = _grow(
        tokens, rows, d["hidden"], d["intermediate"], size, active * size, rows * size,
        rows / d["experts"],
    )  # fmt: skip
    bank = (d["experts"], d["experts_total"], d["top_k"])
    return [*growing, *(Feature(np.asarray(kind), False) for kind in bank)]


def _recurrence(d: Mapping[str, Array], _units: float) -> list[Feature]:
    sequences, new, heads = d["sequences"], d["new_tokens"], d["heads"]
    rows = sequences * heads
    return _grow(sequences, new, heads, rows * new, rows, sequences * new)


_FEATURES: Mapping[str, Callable[[Mapping[str, Array], float], list[Feature]]] = {
    "gemm": _product,
    "attention": _attention,
    "mla_attention": _attention,
    "moe": _experts,
    "linear_attention": _recurrence,
}
