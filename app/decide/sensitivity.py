"""Sensitivity of a deployment's figures to resources, its ridges, and the hardware it needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hardware_db
from app.answers.column import Column
from app.answers.columns import COLUMNS
from app.planning.targets import Target, judged
from app.question.validity import has_pool
from app.scenario.pools import with_systems
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.served_rows import prefill_pool, served
from genz_core.common.memo import ByIdentity
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.latency.roofline import fastest_of
from genz_core.models.model_kinds import check_generates
from genz_core.sensitivity import crossing, elasticity, least_factor
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
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
_MOST = 64.0
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
        return with_systems(resolved, lambda system: _what_if(system, resource, factor))
    if not (math.isfinite(factor) and factor > 0.0):
        raise InvalidValue(f"host is {factor}; give a positive number")
    engine, profile = (_faster(one, factor) for one in (resolved.engine, resolved.profile))
    return replace(resolved, engine=engine, profile=profile)


def _what_if(system: System, resource: str, factor: float) -> System:
    """A system with one of its resources multiplied."""
    return hardware_db.what_if(system, **{resource: factor})


def _faster(engine: EngineProfile, factor: float) -> EngineProfile:
    """An engine on a faster host; the same object again, as `hardware_db.what_if`."""
    times: dict[str, Any] = {name: getattr(engine, name) / factor for name in _HOST_TIMES}
    return _FASTER.get(lambda: replace(engine, **times), engine, values=factor)


_FASTER: ByIdentity[EngineProfile] = ByIdentity()


def _reader(resolved: Resolved) -> Resolved:
    """The deployment that prefills: the prefill pool, or the deployment itself."""
    return prefill_pool(resolved).resolved if has_pool(resolved.scenario) else resolved


def figures(resolved: Resolved) -> Figures:
    """TTFT, TPOT [s] and output per device [tok/s] of a deployment, sequences that run at once, and
    whether it fits (1 or 0).

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
            "running": float(found.running[0]),
            "fits": float(found.status[0] != OUT_OF_MEMORY),
        }
    priced = estimate_resolved(resolved)
    rate = float(priced.output_tokens_per_s[0]) / float(priced.devices)
    return {
        "ttft_s": float(priced.ttft_s[0]),
        "tpot_s": float(priced.tpot_s[0]),
        "output_tokens_per_s_per_device": rate,
        "running": float(resolved.scenario.batch),
        "fits": float(bool(priced.memory.fits[0])),
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
    reader = _reader(resolved)
    prompts = estimate_resolved(
        replace(reader, scenario=replace(reader.scenario, batch=1)), isl=_ISLS
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


# ------------------------------------------------------------------------------- requirements


@dataclass(frozen=True, slots=True)
class Requirement:
    """Hardware that would meet targets.

    factors: of each resource by itself, all else unchanged; "together": of all speeds at once; None
    where even 64 times is not enough.  least: lower limits for any device, whatever its other
    resources: capacity_bytes, bytes_per_s, flops_per_s, link_bytes_per_s, each per device and NaN
    where no target requires it; arithmetic in the formats that the model runs in.
    has: the system's value of each; for arithmetic the peak of those formats.
    """

    factors: Mapping[str, float | None]
    least: Mapping[str, float]
    has: Mapping[str, float]


def requirement(resolved: Resolved, targets: tuple[Target, ...]) -> Requirement:
    """The smallest amount of each resource that meets targets on mean TTFT and TPOT, and fits.

    Raises:
        InvalidValue: no target, or one on another figure.
    """
    known = {target.figure.column for target in targets}
    if not targets or not known <= {"ttft_s", "tpot_s"}:
        raise InvalidValue('give targets on mean latencies, as "ttft < 500ms, tpot < 20ms"')

    now, targets = figures(resolved), judged(targets, resolved.scenario.osl)

    def met(changed: Resolved) -> bool:
        found = now if changed is resolved else figures(changed)
        good = all(found[target.figure.column] <= target.value for target in targets)
        return good and found["fits"] > 0

    def least(*resources: str) -> float | None:
        def enough(factor: float) -> bool:
            changed = resolved
            for resource in resources if factor != 1.0 else ():
                changed = scaled(changed, resource, factor)
            return met(changed)

        return least_factor(enough, _MOST)

    factors = {resource: least(resource) for resource in RESOURCES}
    factors["together"] = least(*RESOURCES)
    limits = {target.figure.column: target.value for target in targets}
    return Requirement(factors, *_least(resolved, now["running"], limits))


def _as_batch(resolved: Resolved, running: float) -> Resolved:
    """A replica with a static batch of the sequences that run on it under the load, of `running`
    on all.
    """
    s = resolved.scenario
    if s.kind == "batch":
        return resolved
    batch = max(round(running / s.replicas), 1)
    load: dict[str, Any] = {"batch": batch, "concurrency": None, "rate": None}
    return replace(resolved, scenario=replace(s, **load))


def _least(
    resolved: Resolved, running: float, limits: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The least value of each resource if all others were unlimited, and its current value.

    Arithmetic is counted at the rated peak of the format that most of it runs in; running:
    sequences at once.
    """
    priced, system = estimate_resolved(_as_batch(resolved, running)), resolved.system
    prompts = priced.prefill
    if has_pool(resolved.scenario):
        prompts = estimate_resolved(_reader(resolved), batch=[1.0]).prefill
    steps = {"ttft_s": prompts, "tpot_s": priced.decode}
    link = system.links[0].bytes_per_s if system.links else math.nan
    has = {
        "capacity_bytes": system.memory_bytes,
        "bytes_per_s": system.memory_bytes_per_s,
        "flops_per_s": math.nan,
        "link_bytes_per_s": link,
    }
    needed = {**dict.fromkeys(has, math.nan), "capacity_bytes": float(priced.memory.total_bytes[0])}
    for column, step in steps.items():
        if column not in limits:
            continue
        busy = {
            name: float((getattr(step, name)[:, 0] * step.runs).sum())
            for name in ("compute_s", "memory_s", "communication_s")
        }
        peak = _rated_peak(step, system)
        amounts = {
            "bytes_per_s": busy["memory_s"] * system.memory_bytes_per_s,
            "flops_per_s": busy["compute_s"] * peak,
            "link_bytes_per_s": busy["communication_s"] * link,
        }
        for name, amount in amounts.items():
            needed[name] = float(np.fmax(needed[name], amount / limits[column]))
        has["flops_per_s"] = float(np.fmax(has["flops_per_s"], peak))
    return needed, has


def _rated_peak(step: StepEstimate, system: System) -> float:
    """The rated peak of the format in which most of a step's arithmetic runs [FLOP/s]."""
    most = int(np.argmax(step.flops[:, 0] * step.runs))
    return system.peak_flops_per_s[fastest_of(step.graph.ops[most], system)]
