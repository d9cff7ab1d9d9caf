"""Facts of a model's graph that can be compared with a report: widths, layers, shapes of
products.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from genz_core.graphs import Model, Op
from genz_core.types import Parallelism, Step


@dataclass(frozen=True, slots=True)
class ModelShape:
    """hidden, layers: of the model, 0 where unknown.  widths: inner sizes of its products.
    runs: how often each of its products runs in a step.
    """

    hidden: int
    layers: int
    widths: frozenset[int]
    runs: frozenset[int]

    @classmethod
    def of(cls, model: Model) -> ModelShape:
        """The facts of a model, from its graph, whether that was built or traced."""
        products = [op for op in _ops(model, Parallelism()) if {"n", "k"} <= set(op.dims)]
        widths = {_int(op.dims["k"]) for op in products} | {_int(op.dims["n"]) for op in products}
        runs: dict[str, int] = {}
        for op in products:
            runs[op.name] = runs.get(op.name, 0) + _int(op.count)
        spec = getattr(model, "spec", None)
        head = next((_int(op.dims["k"]) for op in reversed(products)), 0)
        layers = len(spec.layers) if spec is not None else max(runs.values(), default=0)
        return cls(
            int(spec.hidden) if spec is not None else head,
            layers,
            frozenset(widths),
            frozenset({*runs.values(), layers}),
        )

    def may_run(self, layers: int, exact: bool) -> bool:
        """Whether a step of the model may repeat its kernels this often.

        exact: the number comes from products; otherwise from kernels of one name, which a layer may
        run several times, or only some layers run.
        """
        repeated = [runs for runs in self.runs if runs > 1] or [1]
        if exact:
            return layers in self.runs
        return any(layers % runs == 0 or runs % layers == 0 for runs in repeated)


def degree_by_products(
    model: Model, ranks: int, products: Sequence[tuple[int, int]], *, every: bool = False
) -> int:
    """The tensor parallel degree, among the divisors of the number of ranks, that fits the most
    products.

    products: (n, k) of what ran; q, k and v or gate and up may be separate.  0 where none fits.
    every: a degree must fit all products.
    """
    best, most = 0, len(products) - 1 if every else 0
    for degree in (d for d in range(ranks, 0, -1) if ranks % d == 0):
        predicted = _shapes(model, degree)
        fitting = sum(_fits(pair, predicted) for pair in products)
        if fitting > most:
            best, most = degree, fitting
    return best


def unseen_products(model: Model, degree: int, products: Sequence[tuple[int, int]]) -> int:
    """Number of products of a model, split by a degree, that are not among the (n, k) that ran."""
    ran = set(products)
    shapes = _shapes(model, degree)
    return sum(not any(_fits(pair, [shape]) for pair in ran) for shape in shapes)


def _shapes(model: Model, degree: int) -> set[tuple[int, int]]:
    ops = _ops(model, Parallelism(tp=degree))
    return {(_int(op.dims["n"]), _int(op.dims["k"])) for op in ops if {"n", "k"} <= set(op.dims)}


def _fits(pair: tuple[int, int], predicted: Iterable[tuple[int, int]]) -> bool:
    """Whether a product equals a predicted one, or half of one (gate or up)."""
    n, k = pair
    return any(k == width and n in (columns, columns // 2) for columns, width in predicted)


def _ops(model: Model, split: Parallelism) -> Sequence[Op]:
    return model.graph(Step.prefill(1.0, 128.0), split).ops


def _int(value: object) -> int:
    return int(np.max(np.asarray(value, dtype=float)))
