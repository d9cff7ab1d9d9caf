"""Savings by single changes, each of which is priced anew."""

from dataclasses import replace

import numpy as np

import hardware_db
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.setup import Setup
from genz_core import Estimate
from genz_core.common.memo import ByIdentity
from genz_core.engine import EngineProfile

PHASES = ("prefill", "decode")
_HOST_TIMES = (
    "kernel_floor_s", "host_step_s", "host_sequence_s", "host_request_s", "host_token_s",
    "prompt_launch_s", "sampling_s",
)  # fmt: skip
_LIGHTER: ByIdentity[EngineProfile] = ByIdentity(16)


def phases_of(estimate: Estimate) -> tuple[str, ...]:
    """The phases of a static batch: prefill alone where an answer has one token, or none."""
    return PHASES if np.any(np.asarray(estimate.workload.osl) > 1) else PHASES[:1]


def levers(
    resolved: Resolved, base: Estimate, in_eight_bits: Resolved | None = None
) -> dict[str, list[tuple[str, float]]]:
    """Share of each phase's latency saved by each change, largest first: {phase: [(change,
    share)]}.

    The changes: twice a resource of the system, half the launch and host time, 8-bit weights.

    base: the estimate of `resolved`.  in_eight_bits: the same scenario with 8-bit weights, see
    `with_eight_bits`.
    """
    changes = [
        (
            f"twice the {words}",
            replace(resolved, system=hardware_db.what_if(resolved.system, **change)),
        )
        for words, change in (
            ("memory bandwidth", {"bandwidth": 2.0}),
            ("peak arithmetic", {"peak": 2.0}),
            ("link bandwidth", {"link": 2.0}),
        )
    ]
    engine = _LIGHTER.get(lambda: _with_half_the_host_times(resolved.engine), resolved.engine)
    changes.append(("half the launch and host time", replace(resolved, engine=engine)))
    if in_eight_bits is not None:
        changes.append(("fp8 weights", in_eight_bits))
    phases = phases_of(base)
    saved: dict[str, list[tuple[str, float]]] = {phase: [] for phase in phases}
    for words, changed in changes:
        after = estimate_resolved(changed)
        for phase in phases:
            share = 1.0 - _latency_s(after, phase) / _latency_s(base, phase)
            saved[phase].append((words, share))
    return {phase: sorted(rows, key=lambda row: -row[1]) for phase, rows in saved.items()}


def with_eight_bits(setup: Setup, resolved: Resolved) -> Setup | None:
    """The setup with 8-bit weights, if the checkpoint's 16 bits are used now; otherwise None."""
    formats = set(resolved.model.precision.weights.values())
    if setup.scenario.weights or not formats <= {"bf16", "fp16"}:
        return None
    return replace(setup, scenario=replace(setup.scenario, weights="fp8"))


def _latency_s(estimate: Estimate, phase: str) -> float:
    return float((estimate.ttft_s if phase == "prefill" else estimate.tpot_s)[0])


def _with_half_the_host_times(engine: EngineProfile) -> EngineProfile:
    return replace(engine, **{name: getattr(engine, name) / 2.0 for name in _HOST_TIMES})
