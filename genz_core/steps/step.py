"""Price of one step: graph x system x engine -> `StepEstimate`.

`genz_core.alone` prices a single configuration on plain floats, by the same formulas.
"""

from __future__ import annotations

from functools import partial, reduce

import numpy as np

from genz_core.engine import EngineProfile
from genz_core.graphs import Graph
from genz_core.latency import Pricer
from genz_core.latency.roofline import roofline
from genz_core.steps.overlap import overlap
from genz_core.steps.placed_graph import launches, of_busiest_rank, slowest_stage
from genz_core.steps.shared_kernels import share_kernels
from genz_core.steps.step_estimate import Figures, Laid, StepEstimate
from genz_core.systems import System
from genz_core.types import DEGREES, Array, Num, Parallelism, Step
from genz_core.validity import length, spread, stack


def price(
    graph: Graph,
    step: Step,
    system: System,
    parallelism: Parallelism,
    engine: EngineProfile,
    *,
    alone: bool = True,
) -> StepEstimate:
    """Price the operators of one step with one micro-batch; `genz_core.schedule` combines several.

    Args:
        graph: the operators, as the engine executes them.
        step: its groups.  parallelism: degrees; numbers or arrays [configs], as in `graph`.
        alone: the device waits for the launches of this step; if not, the caller adds the wait of
            several steps, whose launches run ahead together.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    size = _configurations(step, parallelism)
    graph = of_busiest_rank(graph, parallelism)
    several = len(step.groups) > 1
    expected, compute, memory, communication = _run_times(
        graph, parallelism, Pricer(system, engine), size, several=several
    )
    bound = np.maximum(np.maximum(compute, memory), communication)
    runs = np.array([op.count for op in graph.ops], dtype=float)
    stages = spread(np.asarray(parallelism.pp, dtype=float), size)
    # Each attention rank has a scheduler and a host of its own, and the fullest is waited for.
    sequences = sum((g.of_rank(parallelism.dp) for g in step.groups), start=np.float64(0.0))
    host: Num = engine.host_step_s + engine.sampling_s + engine.host_sequence_s * sequences
    reads = reduce(np.logical_or, (~g.generates for g in step.groups))
    if alone and (engine.launches_decodes or np.any(reads)):
        tokens = sum(g.of_rank(parallelism.dp) * g.new_tokens for g in step.groups)
        captured = engine.captured_tokens(
            1.0 + reduce(np.maximum, (g.drafted for g in step.groups))
        )
        launched = launches(graph, runs)
        host = host + engine.launching_s(launched, runs @ expected, tokens, reads, captured)
    flops = stack((op.flops for op in graph.ops), size)
    moved = stack((op.memory_bytes for op in graph.ops), size)
    figures = (compute, memory, communication, flops, moved)
    return StepEstimate(
        laid=Laid(graph),
        system=system,
        engine=engine,
        figures=Figures(partial(np.stack, figures)),
        runs=runs,
        expected_s=expected,
        stage_s=slowest_stage(graph, stages, expected),
        wait_s=np.zeros(size),
        least_s=runs @ bound,
        stages=stages,
        micro_batches=np.ones(size),
        host_s=spread(np.asarray(host, dtype=float), size),
        learned_s=np.zeros(size),
    )


def operators_s(graph: Graph, parallelism: Parallelism, pricer: Pricer, size: int) -> Array:
    """Expected time of one run of each operator of a step of one group [s], [ops, configs], hidden
    time subtracted.

    graph: of the busiest rank.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    return _run_times(graph, parallelism, pricer, size)[0]


def _run_times(
    graph: Graph, parallelism: Parallelism, pricer: Pricer, size: int, *, several: bool = False
) -> tuple[Array, Array, Array, Array]:
    """Of one run of each operator, expected and least time of compute, memory and exchange [s],
    [ops, configs], hidden time subtracted.

    several: whether the step has several groups.
    """
    system = pricer.system
    least = [roofline(op, system) for op in graph.ops]
    compute = stack((limit.compute_s for limit in least), size)
    memory = stack((limit.memory_s for limit in least), size)
    communication = stack((limit.communication_s for limit in least), size)
    expected = stack(pricer.expected_of(graph.ops, least), size)
    if several:
        share_kernels(graph.ops, pricer, expected)
    overlap(graph, parallelism, system, compute, memory, communication, expected)
    return expected, compute, memory, communication


def _configurations(step: Step, parallelism: Parallelism) -> int:
    """Number of configurations that sizes and degrees describe together."""
    fields = [getattr(parallelism, name) for name in DEGREES]
    fields += [parallelism.expert_imbalance, parallelism.redundant_experts]
    fields += [1.0 if parallelism.moe_tp is None else parallelism.moe_tp]
    for group in step.groups:
        fields += [group.sequences, group.new_tokens, group.cached_tokens]
        fields += [group.drafted, group.sampled]
    return length(*fields)
