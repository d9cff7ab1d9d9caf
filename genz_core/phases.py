"""Steps of a workload: its prefill, its mean decode step, one decode step, a mixed step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.models.diffusion import denoising
from genz_core.schedule import NODES, WEIGHTS, Batches, as_batches, context, scheduled
from genz_core.steps.step import price
from genz_core.steps.step_estimate import StepEstimate
from genz_core.symbolic.symbols import number
from genz_core.systems import System
from genz_core.types import Group, Num, Parallelism, Step, Workload
from genz_core.validity import spread_out


def prefill(
    model: Model,
    system: System,
    workload: Workload,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> StepEstimate:
    """Price the prefill of `batch` prompts of `isl` tokens, `cached` of them in a prefix cache.

    Args:
        workload, parallelism: numbers or arrays [configs] that can run, see `estimate`.
        engine: the generic one by default.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs; also raised by
            the functions below.
    """
    deployed = deploy(model, system, engine)
    return scheduled(deployed, prompts_of(model, workload, parallelism or Parallelism()))


def decode_step(
    model: Model,
    system: System,
    batch: Num,
    context: Num,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> StepEstimate:
    """Price one decode step of `batch` sequences with `context` cached tokens each."""
    split = parallelism or Parallelism()
    batches = as_batches(batch, 1.0, context, split, follows=True)
    return scheduled(deploy(model, system, engine), batches)


def decode(
    model: Model,
    system: System,
    workload: Workload,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> StepEstimate:
    """Price the mean decode step over the output, at contexts isl ... isl + osl - 2.

    The context is one more array axis: three nodes of a Gauss-Legendre rule, averaged.
    """
    deployed = deploy(model, system, engine)
    return scheduled(deployed, outputs_of(model, workload, parallelism or Parallelism()))


def mixed(
    model: Model,
    system: System,
    queries: Sequence[Group],
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> StepEstimate:
    """Price a step of unequal queries, each with its cached and new tokens (chunked prefill).

    All prompts share one attention kernel, see `genz_core.steps.shared_kernels`.
    """
    parallelism, deployed = parallelism or Parallelism(), deploy(model, system, engine)
    step = Step(tuple(queries))
    graph = deployed.graph(step, parallelism)
    return price(graph, step, system, parallelism, deployed.engine)


def both_steps(
    deployed: Deployment, workload: Workload, parallelism: Parallelism
) -> tuple[StepEstimate, StepEstimate]:
    """`prefill` and `decode` of a workload."""
    prompts = prompts_of(deployed.model, workload, parallelism)
    outputs = outputs_of(deployed.model, workload, parallelism)
    return scheduled(deployed, prompts), scheduled(deployed, outputs)


def prompts_of(model: Model, workload: Workload, parallelism: Parallelism) -> Batches:
    """The prompts of a workload, partly in a prefix cache; for a diffusion model a pass over prompt
    and answer.
    """
    isl, cached = np.asarray(workload.isl, dtype=float), workload.cached
    fresh = isl - cached
    if denoising(model):
        fresh, cached = isl + workload.osl, 0.0
    return as_batches(workload.batch, fresh, cached, parallelism, follows=False, prompt=isl)


def outputs_of(model: Model, workload: Workload, parallelism: Parallelism) -> Batches:
    """Decode steps (or diffusion passes) at the nodes of the output, [nodes, configs]."""
    sizes, split = spread_out(workload, parallelism)
    isl, osl = sizes["isl"], sizes["osl"]
    cached = number(context(isl, osl, NODES[:, None]))
    new = np.ones_like(cached)
    if denoising(model):
        new, cached = np.broadcast_to(isl + osl, cached.shape), np.zeros_like(cached)
    return Batches(sizes["batch"], new, cached, split, WEIGHTS, follows=True, prompt=isl)
