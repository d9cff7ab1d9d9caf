"""Work that runs while tokens are exchanged with experts on other devices.

    none            dispatch, experts and combine one after another
    shared_experts  the shared experts run while tokens are dispatched and combined
    two_batch       a step's tokens in two halves: one computes while the other is exchanged; each
                    half reads the weights

The time of an exchange becomes the part that the expected time of the concurrent work does not
cover. Its bound assumes that this work takes at most four times its own bound, so that no bound
lies above an exchange that slow kernels hide.
Source: SGLang, https://docs.sglang.ai/advanced_features/expert_parallelism.html; DeepSeek-V3
(arXiv:2412.19437), sec. 3.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from genz_core.graphs import Graph
from genz_core.latency.roofline import roofline
from genz_core.systems import System
from genz_core.types import Array, Parallelism
from genz_core.validity import stack

OVERLAPS = ("none", "shared_experts", "two_batch")
_LEAST_TOKENS = 2.0  # least tokens of a rank that are split into two halves
_SLOWEST = 4.0  # largest expected time over least time of the work that runs beside an exchange


def overlap(
    graph: Graph,
    parallelism: Parallelism,
    system: System,
    compute_s: Array,
    memory_s: Array,
    communication_s: Array,
    expected_s: Array | None = None,
) -> None:
    """Subtract hidden time from the exchanges, in place; does nothing where no overlap is
    requested.

    Two halves read weights twice: the second read is added to the memory time, and in proportion to
    the expected time.

    Args:
        parallelism: with `overlap`.
        compute_s, memory_s, communication_s, expected_s: of one run, [ops, configs].
    """
    if parallelism.overlap == "none":
        return
    halves = parallelism.overlap == "two_batch"
    for exchanges, beside in _layers(graph, halves):
        several = _splits(graph, exchanges, parallelism) if halves else np.ones(1, bool)
        if halves:
            _read_twice(graph, beside, several, system, compute_s, memory_s, expected_s)
        repeat = np.array([op.repeat for op in graph.ops])[:, None]
        slow = (repeat * np.maximum(compute_s, memory_s))[beside].sum(0) * _SLOWEST
        _hide(communication_s, exchanges, repeat, np.where(several, slow, 0.0))
        if expected_s is not None:
            hidden = (repeat * expected_s)[beside].sum(0)
            _hide(expected_s, exchanges, repeat, np.where(several, hidden, 0.0))
            expected_s[exchanges] = np.maximum(expected_s[exchanges], communication_s[exchanges])


def bound_s(graph: Graph, system: System, parallelism: Parallelism, size: int) -> Array:
    """Least time of one run of each operator [s], [ops, configs], with hidden time subtracted.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    least = [roofline(op, system) for op in graph.ops]
    if parallelism.overlap == "none":
        return stack((limit.bound_s for limit in least), size)
    compute = stack((limit.compute_s for limit in least), size)
    memory = stack((limit.memory_s for limit in least), size)
    communication = stack((limit.communication_s for limit in least), size)
    overlap(graph, parallelism, system, compute, memory, communication)
    return np.maximum(np.maximum(compute, memory), communication)


def _hide(time_s: Array, rows: list[int], repeat: Array, beside_s: Array) -> None:
    """Subtract the time of concurrent work from the exchanges `rows`, in place, the same
    from each.
    """
    whole = (repeat * time_s)[rows].sum(0)
    time_s[rows] *= np.maximum(1.0 - beside_s / np.maximum(whole, 1e-30), 0.0)


def _layers(graph: Graph, halves: bool) -> Iterator[tuple[list[int], list[int]]]:
    """Rows of the exchanges in each set of equal layers, and rows of the work that overlaps with
    them.
    """
    by_layers: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for at, op in enumerate(graph.ops):
        if op.layers:
            by_layers[op.layers].append(at)
    for rows in by_layers.values():
        collectives = [at for at in rows if graph.ops[at].operator_class == "collective"]
        exchanges = [at for at in collectives if graph.ops[at].module.endswith("moe")]
        beside = [at for at in rows if at not in collectives]
        if not halves:
            beside = [at for at in beside if graph.ops[at].module.endswith("moe.shared")]
        if exchanges and beside:
            yield exchanges, beside


def _splits(graph: Graph, exchanges: list[int], parallelism: Parallelism) -> Array:
    """Whether a rank has enough tokens for two halves, and sends any, [configs]."""
    layers = graph.ops[exchanges[0]].layers
    tokens = [
        np.asarray(op.dims["tokens"]) / parallelism.dp
        for op in graph.ops
        if op.kind == "moe" and op.layers == layers
    ]
    sent = sum((np.asarray(graph.ops[at].message_bytes) for at in exchanges), np.zeros(()))
    enough = np.asarray(tokens[0] if tokens else 0.0) >= _LEAST_TOKENS
    return np.atleast_1d(enough & (sent > 0))


def _read_twice(
    graph: Graph,
    rows: list[int],
    several: Array,
    system: System,
    compute_s: Array,
    memory_s: Array,
    expected_s: Array | None,
) -> None:
    """Add the second read of the weights of `rows` to their times, in place."""
    for at in rows:
        again = np.where(several, graph.ops[at].weight_bytes / system.memory_bytes_per_s, 0.0)
        before = np.maximum(compute_s[at], memory_s[at])
        memory_s[at] += again
        if expected_s is not None:
            after = np.maximum(compute_s[at], memory_s[at])
            expected_s[at] *= np.where(before > 0, after / np.maximum(before, 1e-30), 1.0)
