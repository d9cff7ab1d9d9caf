"""The program of a predicted step: its operators in the order in which they run, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genz_core.graphs import Op
from genz_core.steps.step_estimate import StepEstimate


@dataclass(frozen=True, slots=True)
class Planned:
    """The part of a predicted operator that joining needs.

    module: path in the model.  layers: indices of the layers that have it, () outside of layers.
    first: it runs before all layers.  n, k: of a matrix product x[m, k] @ w[k, n], else 0.
    """

    name: str
    kind: str
    operator_class: str
    module: str = ""
    layers: tuple[int, ...] = ()
    first: bool = False
    n: int = 0
    k: int = 0


def planned(step: StepEstimate, config: int = 0) -> tuple[Planned, ...]:
    """The operators of a step, one entry a row of `StepEstimate.table`."""
    return tuple(_of_op(step.op(row, config)) for row in range(len(step.outline.ops)))


def _of_op(op: Op) -> Planned:
    batch = _whole(op.dims.get("batch", 1))
    sizes = [_whole(op.dims.get(name, 0)) // (batch if name == "n" else 1) for name in "nk"]
    is_product = op.operator_class == "gemm"
    return Planned(
        op.name,
        op.kind,
        op.operator_class,
        op.module,
        op.layers,
        op.stage == "first" and not op.layers,
        *(sizes if is_product else (0, 0)),
    )


def _whole(value: Any) -> int:
    number = float(np.ravel(value)[0])
    return int(number) if 0 < number < 2**62 else 0


def planned_of_table(operators: Mapping[str, Sequence[Any]]) -> tuple[Planned, ...]:
    """The operators of a step from a table alone: an operator that runs L times has L layers."""
    rows = zip(operators["name"], operators["class"], operators["runs"], strict=True)
    kinds = operators.get("kind") or operators["class"]
    return tuple(
        Planned(
            str(name), str(kind), str(operator_class),
            layers=tuple(range(round(float(runs)))) if runs > 1 else (),
            first=operator_class == "embedding",
        )
        for (name, operator_class, runs), kind in zip(rows, kinds, strict=True)
    )  # fmt: skip


def order_of_runs(operators: Sequence[Planned], rows: Sequence[int]) -> list[int]:
    """The rows in the order in which they run, each once per layer that has it.

    rows: of `operators`, in the order of the graph.
    """
    places = []
    for row in rows:
        operator = operators[row]
        if operator.layers:
            places += [(1, layer, row) for layer in operator.layers]
        else:
            places.append((0 if operator.first else 2, 0, row))
    return [row for *_, row in sorted(places)]
