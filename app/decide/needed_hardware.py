"""The hardware that meets targets: how much of a resource suffices, and the least of it that any
device needs.

An amount suffices if the prediction with it meets the targets, serves the load and fits.  The least
follows from the bounds of a prompt alone, and of a decode step with the fewest sequences by which
the load is served within the targets; nothing below it suffices.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from app.decide.sensitivity import RESOURCES, figures, reader, scaled
from app.planning import demand
from app.planning.targets import Target, judged
from app.question.question import Question
from app.question.validity import has_pool
from app.scenario import sharing
from app.scenario.scenario import Resolved, estimate_resolved
from genz_core.errors import InvalidValue
from genz_core.latency.roofline import fastest_of
from genz_core.sensitivity import least_factor
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
from genz_core.workload import Estimate

_MOST = 64.0
#: Part of a step's time that each resource takes.
_PARTS: Mapping[str, str] = {
    "bytes_per_s": "memory_s",
    "flops_per_s": "compute_s",
    "link_bytes_per_s": "communication_s",
}


@dataclass(frozen=True, slots=True)
class Requirement:
    """Hardware that would meet targets.

    factors: of each resource by itself, all else unchanged; "together": of all speeds at once; None
    where even 64 times is not enough.  least: lower limits for any device, whatever its other
    resources: capacity_bytes, bytes_per_s, flops_per_s, link_bytes_per_s, each per device and NaN
    where no target requires it; arithmetic in the formats that the model runs in.
    has: the value of each of the system whose step needs it; for arithmetic the rated peak of the
    format in which most of that step runs.
    """

    factors: Mapping[str, float | None]
    least: Mapping[str, float]
    has: Mapping[str, float]


def requirement(resolved: Resolved, targets: tuple[Target, ...]) -> Requirement:
    """The smallest amount of each resource that meets targets on mean TTFT and TPOT, serves the
    load, and fits.

    Raises:
        InvalidValue: no target, or one on another figure.
    """
    known = {target.figure.column for target in targets}
    if not targets or not known <= {"ttft_s", "tpot_s"}:
        raise InvalidValue('give targets on mean latencies, as "ttft < 500ms, tpot < 20ms"')
    targets = judged(targets, resolved.scenario.osl)
    enough = _Enough(resolved, targets)
    factors = {resource: enough.least(resource) for resource in RESOURCES}
    factors["together"] = enough.least(*RESOURCES)
    limits = {target.figure.column: target.value for target in targets}
    return Requirement(factors, *_least(resolved, limits))


@dataclass(frozen=True)
class _Enough:
    """Whether a deployment meets targets with more of some resources."""

    resolved: Resolved
    targets: tuple[Target, ...]

    def least(self, *resources: str) -> float | None:
        """The smallest factor on resources that suffices, None if 64 does not."""
        return least_factor(lambda factor: self._holds(resources, factor), _MOST)

    def _holds(self, resources: tuple[str, ...], factor: float) -> bool:
        if factor == 1.0:
            return self._today
        changed = self.resolved
        for resource in resources:
            changed = scaled(changed, resource, factor)
        return self._meets(changed)

    @cached_property
    def _today(self) -> bool:
        return self._meets(self.resolved)

    def _meets(self, resolved: Resolved) -> bool:
        found = figures(resolved)
        good = all(found[target.figure.column] <= target.value for target in self.targets)
        return good and found["fits"] > 0 and math.isfinite(found["ttft_s"])


def _least(
    resolved: Resolved, limits: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The least value of each resource for any device, and the current value.

    limits: {"ttft_s": seconds, "tpot_s": seconds} of the targets.
    """
    q, first = resolved.scenario, reader(resolved)
    sizes = _requests(q)

    @cache
    def priced(pooled: bool, batch: int) -> Estimate:
        return estimate_resolved(first if pooled else resolved, **sizes, batch=[batch])

    prompts = q.batch if q.kind == "batch" and not has_pool(q) else 1
    held = q.batch if q.kind == "batch" else 1  # a fast device keeps no more in its memory
    reading, answering = priced(has_pool(q), prompts), priced(False, _fewest(q, limits))
    has = {
        "capacity_bytes": resolved.system.memory_bytes,
        "bytes_per_s": resolved.system.memory_bytes_per_s,
        "flops_per_s": math.nan,
        "link_bytes_per_s": _link(resolved.system),
    }
    least = dict.fromkeys(has, math.nan)
    if not q.offload:
        memory = priced(False, held).memory
        least["capacity_bytes"] = float((memory.weights_bytes + memory.kv_bytes)[0])
    steps = {
        "ttft_s": (first.system, reading.prefill, reading.bound_ttft_s),
        "tpot_s": (resolved.system, answering.decode, answering.bound_tpot_s),
    }
    most = dict.fromkeys(_PARTS, 0.0)
    for column, limit in limits.items():
        system, step, bound_s = steps[column]
        passes = float((bound_s / step.bound_total_s)[0])
        amounts = _amounts(step, system)
        for name, part in _PARTS.items():
            busy_s = float((getattr(step, part)[:, 0] * step.runs).sum()) * passes
            if busy_s / limit >= most[name]:
                most[name] = busy_s / limit
                least[name], has[name] = most[name] * amounts[name], amounts[name]
    return least, has


def _fewest(question: Question, limits: Mapping[str, float]) -> int:
    """The fewest sequences that generate at once on a replica, on average, if the load is served
    within the limits: completed requests per second times the time that each generates (Little's
    law), at least one; those of a static batch.
    """
    if question.kind == "batch":
        return question.batch
    generating_s = (demand.lengths(question).output - 1.0) * limits.get("tpot_s", 0.0)
    rate = demand.amount(question)
    if demand.is_closed(question):
        waiting_s = limits.get("ttft_s", math.inf) + sharing.pause_s(question)
        rate /= waiting_s + generating_s
    return max(int(rate * generating_s / question.replicas), 1)


def _requests(question: Question) -> dict[str, list[int]]:
    """The mean request of a load, without what it finds in the cache, for `estimate_resolved`;
    nothing for a static batch, whose sizes are the question's.
    """
    if question.kind == "batch":
        return {}
    mean = demand.lengths(question)
    sizes = {"isl": mean.prompt, "osl": mean.output, "length_ratio": 1.0}
    cached = min(mean.cached, mean.prompt - 1.0)
    return {name: [round(value)] for name, value in {**sizes, "cached": cached}.items()}


def _amounts(step: StepEstimate, system: System) -> dict[str, float]:
    """What a system has of the resources that a step uses; of arithmetic the rated peak of the
    format in which most of it runs [FLOP/s].
    """
    most = int(np.argmax(step.flops[:, 0] * step.runs))
    return {
        "bytes_per_s": system.memory_bytes_per_s,
        "flops_per_s": float(system.peak_flops_per_s[fastest_of(step.graph.ops[most], system)]),
        "link_bytes_per_s": _link(system),
    }


def _link(system: System) -> float:
    return system.links[0].bytes_per_s if system.links else math.nan
