"""A run over prompts: TTFT and TPOT of each with its prediction."""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import genz_core
from app.measuring.outcome import AGAIN, Outcome, of_steps, settings_of
from app.measuring.prediction import RunContext, interval_figures
from app.measuring.threads import ready_threads
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from genz_core.types import Workload
from profilers import PhaseTiming
from profilers.collect.measured_model import pick_device
from profilers.collect.prompts import MeasuredPrompt, measure_prompts
from profilers.prompt_sizes import (
    CHARACTERS_PER_TOKEN,
    PromptSizes,
    chosen,
    drawn_sizes,
    read_sizes,
)
from profilers.runs.run_config import RunConfig

_UNKNOWN = float("nan")


def prompts_of(config: RunConfig) -> list[PromptSizes]:
    """The prompts that a run configuration specifies.

    Raises:
        InvalidValue: files and a distribution at once, or ones that cannot be read.
    """
    asked = config.prompts
    if asked.files and asked.lengths:
        raise InvalidValue("prompts come from files or from a distribution: give one of them")
    if asked.files:
        found = read_sizes([Path(file) for file in asked.files], config.run.osl)
    else:
        found = drawn_sizes(asked.lengths, config.run.osl, asked.seed)
    return chosen(found, asked.samples, asked.shuffle, asked.seed)


def run_prompts(
    config: RunConfig, scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Run a model over prompts, each by itself and in every repeat.

    Raises:
        InvalidValue, MeasurementError: meaningless settings, or a model that does not run.
        Cancelled: it was stopped before any prompt was complete.
    """
    prompts = prompts_of(config)
    settings = settings_of(config)
    device = pick_device(settings.device)
    busy = ready_threads(device, config)
    run = measure_prompts(settings, prompts, progress, cancelled)
    notes = [f"cut to {settings.layers} of {run.layers} layers"] if settings.layers else []
    notes += ["cancelled: complete repeats only"] if run.cancelled else []
    if any(one.prompt.guessed for one in run.prompts):
        notes.append(f"texts were taken for {CHARACTERS_PER_TOKEN:g} characters per token")
    ttft = tuple(one.median_ttft_s for one in run.prompts if one.ttft_s)
    tpot = tuple(one.median_tpot_s for one in run.prompts if one.tpot_s)
    phases = {"prefill": PhaseTiming("prefill", ttft, run.clock)}  # type: ignore[arg-type]
    if tpot:
        phases["decode"] = PhaseTiming("decode", tpot, run.clock)  # type: ignore[arg-type]
    measurement, context = of_steps(
        config, settings, device, busy, run, notes, {"prompts": len(run.prompts)}, phases=phases
    )
    rows = prompt_rows(run.prompts, context)
    return Outcome(
        measurement,
        context,
        commands=[AGAIN],
        metrics={"parameters": run.parameters, "cancelled": run.cancelled, **summary(rows)},
        label=f"{settings.name}, {len(prompts)} prompts",
        prompts=rows,
    )


def prompt_rows(prompts: Sequence[MeasuredPrompt], context: RunContext) -> list[dict[str, Any]]:
    """One row per prompt: id, origin, isl, osl, status, repeats; for TTFT and TPOT the median, the
    prediction, its interval, whether the median lies inside, and the error.
    """
    predicted = _predicted([one.prompt for one in prompts], context)
    rows = []
    for one, (ttft, tpot) in zip(prompts, predicted, strict=True):
        row: dict[str, Any] = {
            "id": one.prompt.id,
            "origin": one.prompt.origin,
            "isl": one.prompt.isl,
            "osl": one.prompt.osl,
            "status": one.status,
            "repeats": len(one.ttft_s),
        }
        row |= _figures("ttft", "prefill", one.median_ttft_s, ttft, context)
        row |= _figures("tpot", "decode", one.median_tpot_s, tpot, context)
        rows.append(row)
    return rows


def _figures(
    name: str, phase: str, measured_s: float, predicted: tuple[float, float], context: RunContext
) -> dict[str, Any]:
    """Columns of TTFT or TPOT.  predicted: seconds, and the bound."""
    seconds = predicted[0] if measured_s > 0 else _UNKNOWN
    found = interval_figures(phase, seconds, predicted[1], measured_s, context)
    return {
        f"{name}_s": measured_s,
        **{f"{name}_{key}": value for key, value in found.items()},
        f"{name}_error": seconds / measured_s - 1.0,
    }


def _predicted(
    prompts: Sequence[PromptSizes], context: RunContext
) -> list[tuple[tuple[float, float], tuple[float, float]]]:
    """((TTFT, its bound), (TPOT, its bound)) of each prompt [s]; NaN without model or system."""
    if context.model is None or context.system is None:
        return [((_UNKNOWN, _UNKNOWN), (_UNKNOWN, _UNKNOWN))] * len(prompts)
    isl, osl = (np.array([getattr(p, name) for p in prompts], float) for name in ("isl", "osl"))
    load = Workload(np.ones(len(prompts)), isl, osl)
    priced = genz_core.estimate(
        context.model, context.system, load, engine=context.engine, on_error="status"
    )
    steps = [(step.total_s, step.bound_total_s) for step in (priced.prefill, priced.decode)]
    return [
        tuple((float(total[at]), float(bound[at])) for total, bound in steps)  # type: ignore[misc]
        for at in range(len(prompts))
    ]


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median absolute errors of TTFT and TPOT over the prompts that ran; NaN without any."""
    found: dict[str, Any] = {}
    for name in ("ttft", "tpot"):
        errors = [abs(row[f"{name}_error"]) for row in rows if math.isfinite(row[f"{name}_error"])]
        found[f"{name}_median_error"] = statistics.median(errors) if errors else _UNKNOWN
    return found
