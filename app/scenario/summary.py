"""An estimate as plain rows and facts: one wording for the command line, exports and pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from app.scenario import intervals
from app.scenario.inputs import sound_seconds
from app.scenario.reading import of_kind
from app.scenario.scenario import Resolved
from genz_core import Estimate
from genz_core.economics import joules_per_token, usd_per_million_tokens
from genz_core.model_kinds import generates, model_kind, prompt_tokens
from genz_core.step import StepEstimate
from genz_core.types import Num


def facts(resolved: Resolved, result: Estimate, config: int = 0) -> dict[str, Any]:
    """The figures of one configuration, SI units, as `ridgeline estimate --json` gives them."""
    rate, sequences = _rates(result, config)
    devices = at(result.devices, config)
    cost = usd_per_million_tokens(result.system, devices, rate)
    energy = joules_per_token(result.system, devices, rate)
    memory = result.memory
    latencies = {
        name: float(getattr(result, name)[config]) for name in ("ttft_s", "tpot_s", "e2e_s")
    }
    bounds = {name: float(b[config]) for name, b in intervals.bounds_of(result).items()}
    timed = intervals.beside(latencies, intervals.of_batch(result), bounds)
    served = {"output_tokens_per_s": rate, **intervals.of_throughput(rate, timed)}
    figures = {
        "model": resolved.model.name,
        "kind": model_kind(result.model),
        "system": result.system.slug,
        "engine": result.engine.name,
        "devices": int(devices),
        **{
            name: int(at(getattr(result.workload, name), config))
            for name in ("batch", "isl", "osl")
        },
        "status": str(result.status[config]),
        "message": "; ".join(filter(None, [result.message(config), *resolved.notes])),
        **timed,
        **served,
        "output_tokens_per_s_per_device": rate / devices,
        "profile": profile_words(result),
        "bound_ttft_s": float(result.bound_ttft_s[config]),
        "bound_tpot_s": float(result.bound_tpot_s[config]),
        **intervals.of_tokens("usd_per_million_tokens", _number(cost), served),
        **intervals.of_tokens("joules_per_token", _number(energy), served),
        "fits": bool(memory.fits[config]),
        "memory_bytes_per_device": float(memory.total_bytes[config]),
        "weights_bytes": float(memory.weights_bytes[config]),
        "kv_bytes": float(memory.kv_bytes[config]),
        "activations_bytes": float(memory.activations_bytes[config]),
        "reserve_bytes": float(memory.reserve_bytes[config]),
        "offloaded_bytes": 0.0
        if result.offload is None
        else float(result.offload.host_bytes[config] + result.offload.disk_bytes[config]),
        "usable_bytes": float(memory.usable_bytes),
    }
    return of_kind(result.model, figures, sequences) | _encoded(resolved, result, config)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _encoded(resolved: Resolved, result: Estimate, config: int) -> dict[str, Any]:
    """What images and sound come to, and the encoder's time in the first token's."""
    scenario, seconds = resolved.scenario, float(result.encoder_s[config])
    if not seconds > 0.0:
        return {}
    figures: dict[str, Any] = {"encoder_s": seconds}
    if heard := sound_seconds(result.model, scenario):
        batch = at(result.workload.batch, config)
        rate = batch * heard / float(result.e2e_s[config])
        figures |= {"audio_seconds": heard, "audio_seconds_per_s": rate}
    if scenario.images:
        whole = int(at(result.workload.isl, config))
        each = int(prompt_tokens(result.model, 0)) // scenario.images
        text = whole - each * scenario.images
        figures |= {"isl": text, "images": scenario.images, "image_tokens": each}
        figures |= {"prompt_tokens": whole}
    return figures


def _rates(result: Estimate, config: int) -> tuple[float, float]:
    """(tokens a second that are paid for, sequences a second): an encoder's are its input's."""
    sequences = float(result.sequences_per_s[config])
    if generates(result.model):
        return float(result.output_tokens_per_s[config]), sequences
    return sequences * at(result.workload.isl, config), sequences


def at(value: Num, config: int) -> float:
    """A number, or the value of an array over configurations in one of them."""
    values = np.atleast_1d(np.asarray(value, dtype=float))
    return float(values[config if values.size > 1 else 0])


def profile_words(result: Estimate) -> str:
    """Which latency profile applied, in words."""
    profile = result.system.latency
    return f"{profile.tier}: {profile.note}" if profile else "default: engine's own constants"


def operator_rows(step: StepEstimate, config: int = 0) -> list[dict[str, Any]]:
    """One row an operator that does something in this step, with its interval."""
    table = intervals.operator_table(step, config)
    names = list(table)
    rows = [dict(zip(names, values, strict=True)) for values in zip(*table.values(), strict=True)]
    return [row for row in rows if float(row["predicted_s"]) > 0.0]


def step_of(estimate: Estimate, phase: str) -> StepEstimate:
    """The step of "prefill" or "decode"."""
    return estimate.prefill if phase == "prefill" else estimate.decode


def beyond_bound(estimate: Estimate, phase: str) -> dict[str, float]:
    """What a prediction adds to the bound of its step [s], by cause; {} for a mixed step.

    The seconds sum to predicted minus bound; what the schedule adds to the sum of the operators'
    bounds counts as pipeline wait.
    """
    if phase not in ("prefill", "decode"):
        return {}
    step = step_of(estimate, phase)
    parts = parts_of(step)
    least = [parts.pop(name) for name in ("compute", "memory", "communication") if name in parts]
    beyond = sum(least) - float(step.bound_total_s[0])
    return {**parts, "pipeline": parts.get("pipeline", 0.0) + beyond}


def parts_of(step: StepEstimate, config: int = 0) -> dict[str, float]:
    """Seconds of a step by what takes them, host and pipeline among them; they sum to its total."""
    parts = {name: float(part[:, config].sum()) for name, part in step.parts().items()}
    parts |= {"host": float(step.host_s[config]), "pipeline": float(step.pipeline_s[config])}
    noise = 1e-9 * sum(parts.values())
    return {name: value if value > noise else 0.0 for name, value in parts.items()}
