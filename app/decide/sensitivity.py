"""Sensitivity of a deployment's figures to resources, and its ridges."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hardware_db
from app.answers.column import Column
from app.answers.columns import COLUMNS
from app.question.validity import has_pool
from app.scenario.pools import with_systems
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.served_rows import prefill_pool, served
from genz_core.common.memo import ByIdentity
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.models.model_kinds import check_generates
from genz_core.sensitivity import crossing, elasticity
from genz_core.steps.step_estimate import StepEstimate
from genz_core.types import Array
from genz_core.workload import OUT_OF_MEMORY

#: Resources that a factor multiplies, in words. "host": the speed of launches and of the host.
RESOURCES: Mapping[str, str] = {
    "bandwidth": "Memory bandwidth",
    "peak": "Peak arithmetic",
    "link": "Link bandwidth",
    "capacity": "Memory capacity",
    "host": "Host and launch speed",
}
#: Figures whose sensitivity is computed.
FIGURES: Mapping[str, Column] = {
    name: COLUMNS[name] for name in ("ttft_s", "tpot_s", "output_tokens_per_s_per_device")
}
_HOST_TIMES = (
    "kernel_floor_s", "launch_s", "moe_floor_s", "expert_s", "host_step_s", "host_sequence_s",
    "host_request_s", "host_token_s", "prompt_launch_s", "sampling_s",
)  # fmt: skip
_BATCHES: Array = np.unique(np.round(np.exp2(np.arange(0.0, 13.01, 0.25))))
_ISLS: Array = np.unique(np.round(np.exp2(np.arange(0.0, 14.01, 0.25))))

Figures = dict[str, float]


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Sensitivity of figures to one resource.

    less, more: figures with the resource divided and multiplied by the factor; elasticity: of
    each figure.
    """

    resource: str
    less: Figures
    more: Figures
    elasticity: Figures


def scaled(resolved: Resolved, resource: str, factor: float) -> Resolved:
    """A deployment with a resource multiplied, as a question with that factor answers.

    More memory may change what a server chooses by it, such as SGLang's share of memory and budget
    of a step, so that a figure need not change steadily with capacity.

    Raises:
        InvalidValue: an unknown resource, or a factor that is not above 0.
    """
    if resource not in RESOURCES:
        raise InvalidValue(f"resource {resource!r}: choose {', '.join(RESOURCES)}")
    if resource != "host":
        return with_systems(resolved, lambda one: hardware_db.what_if(one, **{resource: factor}))
    if not (math.isfinite(factor) and factor > 0.0):
        raise InvalidValue(f"host is {factor}; give a positive number")
    engine, profile = (_faster(one, factor) for one in (resolved.engine, resolved.profile))
    return replace(resolved, engine=engine, profile=profile)


def _faster(engine: EngineProfile, factor: float) -> EngineProfile:
    """An engine on a faster host; the same object again, as `hardware_db.what_if`."""
    times: dict[str, Any] = {name: getattr(engine, name) / factor for name in _HOST_TIMES}
    return _FASTER.get(lambda: replace(engine, **times), engine, values=factor)


_FASTER: ByIdentity[EngineProfile] = ByIdentity()


def reader(resolved: Resolved) -> Resolved:
    """The deployment that prefills: the prefill pool, or the deployment itself."""
    return prefill_pool(resolved).resolved if has_pool(resolved.scenario) else resolved


def figures(resolved: Resolved) -> Figures:
    """TTFT, TPOT [s] and output per device [tok/s] of a deployment, and whether it fits (1 or 0).

    For a static batch, or under the question's load, where requests that the cache cannot hold
    wait.

    Raises:
        RidgelineError: a scenario that cannot be priced.
    """
    check_generates(resolved.model, "a sensitivity of TTFT and TPOT")
    if resolved.scenario.kind != "batch":
        found = served(resolved)
        return {
            "ttft_s": float(found.ttft_s[0]),
            "tpot_s": float(found.tpot_s[0]),
            "output_tokens_per_s_per_device": float(found.output_tokens_per_s_per_device[0]),
            "fits": float(found.status[0] != OUT_OF_MEMORY),
        }
    priced = estimate_resolved(resolved)
    rate = float(priced.output_tokens_per_s[0]) / float(priced.devices)
    return {
        "ttft_s": float(priced.ttft_s[0]),
        "tpot_s": float(priced.tpot_s[0]),
        "output_tokens_per_s_per_device": rate,
        "fits": float(bool(priced.fits[0])),
    }


def sensitivities(resolved: Resolved) -> tuple[Figures, list[Sensitivity]]:
    """The current figures, and their sensitivity to each resource in both directions.

    The question's `change` is 10 for 10 % more, and equally less (the resource over 1.1).

    Raises:
        RidgelineError: as `figures`.
    """
    base, factor = figures(resolved), 1.0 + resolved.scenario.change / 100.0
    found = []
    for resource in RESOURCES:
        less, more = (figures(scaled(resolved, resource, by)) for by in (1.0 / factor, factor))
        answers = {name: float(elasticity(less[name], more[name], factor)) for name in FIGURES}
        found.append(Sensitivity(resource, less, more, answers))
    return base, found


# ------------------------------------------------------------------------------- ridges


@dataclass(frozen=True, slots=True)
class Ridge:
    """Least times of a phase's operators over a size, and where arithmetic overtakes memory.

    at: batches of decode, prompt tokens of prefill, [points].  compute_s, memory_s: sums over the
    operators, [points].  crossings: place by operator class, "all" for the whole step; None where
    memory limits it up to the largest size, 1 where arithmetic does from the start.
    """

    phase: str
    at: Array
    compute_s: Array
    memory_s: Array
    crossings: Mapping[str, float | None]


def ridges(resolved: Resolved) -> tuple[Ridge, Ridge]:
    """Decode over the batch and prefill over the prompt, with all else as in the scenario.

    Raises:
        RidgelineError: a scenario that cannot be priced.
    """
    decode = estimate_resolved(resolved, batch=_BATCHES).decode
    first = reader(resolved)
    prompts = estimate_resolved(
        replace(first, scenario=replace(first.scenario, batch=1)), isl=_ISLS
    ).prefill
    return _ridge("decode", decode, _BATCHES), _ridge("prefill", prompts, _ISLS)


def _ridge(phase: str, step: StepEstimate, at: Array) -> Ridge:
    compute, memory = (part * step.runs[:, None] for part in (step.compute_s, step.memory_s))
    classes = np.array([op.operator_class for op in step.graph.ops])
    crossings: dict[str, float | None] = {"all": crossing(at, compute.sum(0), memory.sum(0))}
    for name in ("gemm", "moe", "attention"):
        mine = classes == name
        if mine.any() and compute[mine].sum() > 0:
            crossings[name] = crossing(at, compute[mine].sum(0), memory[mine].sum(0))
    return Ridge(phase, at, compute.sum(0), memory.sum(0), crossings)
