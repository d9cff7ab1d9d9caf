"""Which weights and cache lie in the second memory, and what a step reads from each memory.

See `genz_core.devices.memory_levels`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genz_core.capacity.memory import Memory, end_of
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph, Model, Op
from genz_core.steps.placed_graph import stage_runs
from genz_core.types import Array, Num, Parallelism, Step, Workload
from genz_core.validity import spread_out, stack


@dataclass(frozen=True, slots=True)
class Placement:
    """Share of each operator's data in the second memory, on the fullest pipeline stage.

    far_weights: share of each operator's weights there, [ops, configs].  near_kv_bytes: cache of
    one run that fits in the first memory at the end of the workload, holding the first tokens,
    [ops, configs].  batch: sequences of the workload, [configs].
    far_kv_bytes: cache in the second memory at the end of the workload, [configs].
    """

    far_weights: Array
    near_kv_bytes: Array
    batch: Array
    far_kv_bytes: Array

    def on(self, graph: Graph, step: Step) -> Graph:
        """The graph, with the share of each operator that lies in the second memory.

        graph: of the same model and one group of sequences; its configurations may be repeated.
        """
        (group,) = step.groups
        columns = max(map(np.size, (group.sequences, group.new_tokens, group.cached_tokens)))
        times = max(columns // self.batch.size, 1)
        sequences = np.minimum(group.sequences / np.tile(self.batch, times), 1.0)
        ops = (
            _placed(op, np.tile(weights, times), np.tile(cache, times) * sequences)
            for op, weights, cache in zip(
                graph.ops, self.far_weights, self.near_kv_bytes, strict=True
            )
        )
        return replace(graph, ops=tuple(ops))


def _placed(op: Op, weights: Array, near_kv: Array) -> Op:
    """The operator with its shares; near_kv: bytes of its cache in the first memory, [configs]."""
    if not (np.any(weights) or np.any(op.held_kv_bytes)):
        return op
    held = np.asarray(op.held_kv_bytes, dtype=float)
    cache = np.clip(1.0 - near_kv / np.maximum(held, 1.0), 0.0, 1.0)
    return replace(op, far_weights=weights, far_kv=np.where(held > 0, cache, 0.0))


def placed(
    model: Model,
    memory: Memory,
    workload: Workload,
    parallelism: Parallelism,
    engine: EngineProfile,
) -> Placement:
    """Placement of a workload's weights and cache: bytes that do not fit in the first memory go to
    the second, those that the last decode step reads least often first.

    model: as it is executed.  memory: of the same workload, with its second memory.
    """
    sizes, lanes = spread_out(workload, parallelism)
    size = memory.total_bytes.size
    graph = model.graph(Step((end_of(sizes, engine),)), lanes)
    runs = _fullest_runs(graph, np.asarray(lanes.pp, dtype=float), size)
    rows = _rows(graph, size)
    mean = (sizes["isl"] + sizes["osl"] / 2.0) / (sizes["isl"] + sizes["osl"])
    may = () if memory.second is None else memory.second.holds
    held = np.concatenate([rows["held_kv_bytes"] * runs, rows["held_weight_bytes"] * runs])
    read = np.concatenate([rows["kv_read_bytes"] * runs * mean, rows["weight_bytes"] * runs])
    kinds = np.repeat(["cache" in may, "weights" in may], len(graph.ops))
    far = _least_read_first(held * kinds[:, None], read, memory.second_bytes)
    cache, weights = far[: len(graph.ops)], far[len(graph.ops) :]
    share = weights / np.maximum(rows["held_weight_bytes"] * runs, 1.0)
    near = rows["held_kv_bytes"] - cache / np.maximum(runs, 1e-30)
    near = np.where(runs > 0, near, np.inf)
    return Placement(share, near, np.asarray(sizes["batch"], dtype=float), cache.sum(0))


def _least_read_first(held: Array, read: Array, over: Array) -> Array:
    """Bytes of each item to move, `over` in total, those that are read least often per byte first.

    held, read: bytes that may be moved, and bytes that a step reads of them, [items, configs].
    over: [configs].
    """
    order = np.argsort(read / np.maximum(held, 1.0), axis=0, kind="stable")
    ordered = np.take_along_axis(held, order, axis=0)
    before = np.cumsum(ordered, axis=0) - ordered
    far = np.zeros_like(held)
    np.put_along_axis(far, order, np.clip(over - before, 0.0, ordered), axis=0)
    return far


def _rows(graph: Graph, size: int) -> dict[str, Array]:
    """Figures of every operator, [ops, configs] each."""
    names = ("held_weight_bytes", "held_kv_bytes", "weight_bytes", "kv_read_bytes")

    def column(op: Op, name: str) -> Num:
        return np.asarray(getattr(op, name), dtype=float)

    return {name: stack((column(op, name) for op in graph.ops), size) for name in names}


def _fullest_runs(graph: Graph, stages: Array, size: int) -> Array:
    """Runs of each operator on the fullest pipeline stage, [ops, configs]."""
    rows = _rows(graph, size)
    held = rows["held_weight_bytes"] + rows["held_kv_bytes"]
    stages = np.broadcast_to(stages, (size,))
    runs = np.empty((len(graph.ops), size))
    for degree in np.unique(stages):
        chosen = stages == degree
        by_stage = stage_runs(graph, int(degree))
        fullest = np.argmax(by_stage @ held[:, chosen], axis=0)
        runs[:, chosen] = by_stage[fullest].T
    return runs
