"""Which operators of a graph run on the busiest expert rank and on each pipeline stage, and which
the host launches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from genz_core.graphs import Graph, Op
from genz_core.operators import on_the_busiest_rank, to_the_busiest_rank
from genz_core.types import Array, Num, Parallelism

#: {kind: function from an operator to the same operator on the busiest expert-parallel rank}.
_BUSIEST: Mapping[str, Callable[[Op, Num], Op]] = {
    "moe": on_the_busiest_rank,
    "all_to_all": to_the_busiest_rank,
}


def of_busiest_rank(graph: Graph, parallelism: Parallelism) -> Graph:
    """The graph of the busiest expert rank, which the other devices wait for."""
    imbalance = parallelism.expert_imbalance
    if np.all(np.asarray(imbalance) == 1.0):
        return graph
    ops = (_BUSIEST[op.kind](op, imbalance) if op.kind in _BUSIEST else op for op in graph.ops)
    return replace(graph, ops=tuple(ops))


def launches(graph: Graph, runs: Array) -> Array:
    """Number of operators that the host launches, without collectives, by their runs [..., ops]."""
    launched: Array = np.array([op.operator_class != "collective" for op in graph.ops], dtype=float)
    return np.asarray(runs @ launched)


def stage_runs(graph: Graph, stages: int) -> Array:
    """Runs of each operator on each pipeline stage, [stages, ops].

    Layer l of L is on stage floor(l * stages / L); operators outside the layers are on the first or
    last stage.  Each stage but the last sends one message.
    """
    if stages == 1:
        return np.array([[0.0 if op.kind == "send_recv" else op.count for op in graph.ops]])
    runs = np.zeros((stages, len(graph.ops)))
    for column, op in enumerate(graph.ops):
        if op.layers:
            at = np.asarray(op.layers) * stages // max(graph.layers, 1)
            np.add.at(runs[:, column], at, op.repeat)
        elif op.kind == "send_recv":
            runs[:-1, column] = op.repeat / max(stages - 1, 1)
        else:
            runs[0 if op.stage == "first" else -1, column] = op.repeat
    return runs


def slowest_stage(graph: Graph, stages: Array, per_run: Array) -> Array:
    """The largest sum of `per_run` [ops, configs] over a pipeline stage, [configs].

    For times it is the slowest stage, for bytes the fullest.  stages: degrees, [configs].
    """
    if np.all(stages == stages[0]):
        return np.asarray((stage_runs(graph, int(stages[0])) @ per_run).max(0))
    result = np.zeros(per_run.shape[1])
    for degree in np.unique(stages):
        chosen = stages == degree
        result[chosen] = (stage_runs(graph, int(degree)) @ per_run[:, chosen]).max(0)
    return result
