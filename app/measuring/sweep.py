"""Measure prefill and decode steps over a grid of batches and lengths, and predict each."""

from dataclasses import replace
from itertools import product
from pathlib import Path

from app.measuring.outcome import AGAIN, Outcome, of_steps, priced_sweep, settings_of
from app.measuring.threads import ready_threads
from app.question import literals
from app.question.parameters import PARAMETERS
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from profilers.collect.measured_model import pick_device
from profilers.collect.steps import measure_steps
from profilers.runs.run_config import RunConfig
from profilers.steps import MOST_STEPS, StepPoint

_AXES = (replace(PARAMETERS["batch"], name="batches"), replace(PARAMETERS["isl"], name="lengths"))


def run_sweep(
    config: RunConfig, scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Measure every point of a grid.  Once a size runs out of memory, larger ones are skipped.

    Raises:
        InvalidValue, MeasurementError: settings without meaning, or a model that does not run.
        Cancelled: it was stopped before any point was complete.
    """
    grid = config.sweep
    points = sweep_points(grid.batches, grid.lengths, grid.phases)
    if grid.rounds < 1:
        raise InvalidValue(f"rounds = {grid.rounds}: give a whole number of at least 1")
    settings = settings_of(config)
    device = pick_device(settings.device)
    busy = ready_threads(device, config)
    run = measure_steps(settings, points, grid.rounds, progress, cancelled)
    notes = [f"cut to {settings.layers} layers, not scaled"] if settings.layers else []
    notes += ["cancelled: complete points only"] if run.cancelled else []
    measurement, context = of_steps(config, settings, device, busy, run, notes, steps=run.steps)
    swept = priced_sweep(measurement, context)
    fits = {name: fit.row() for name, fit in swept.agreement.items()}
    return Outcome(
        measurement,
        context,
        commands=[AGAIN],
        metrics={"parameters": run.parameters, "cancelled": run.cancelled, "agreement": fits},
        label=f"{settings.name}, sweep of {len(points)} steps",
        swept=swept,
    )


def sweep_points(batches: str, lengths: str, phases: str) -> list[StepPoint]:
    """Every batch at every length, phase by phase, the fewest tokens first.

    Args:
        batches, lengths: "1:8:x2" or "1,2,4".  phases: "prefill", "decode" or "prefill,decode".

    Raises:
        InvalidValue: invalid values or phases, or more points than a sweep may have.
    """
    names = list(dict.fromkeys(phase.strip() for phase in phases.split(",")))
    unknown = [name for name in names if name not in ("prefill", "decode")]
    if unknown:
        raise InvalidValue(
            f"unknown phase {unknown[0][:40]!r}; give prefill, decode or prefill,decode"
        )
    sizes = [
        literals.values(one, text) for one, text in zip(_AXES, (batches, lengths), strict=True)
    ]
    count = len(names) * len(sizes[0]) * len(sizes[1])
    if count > MOST_STEPS:
        raise InvalidValue(f"{count} points are more than a sweep of {MOST_STEPS}: widen its steps")
    pairs = sorted(product(*sizes), key=lambda pair: pair[0] * pair[1])
    return [StepPoint(name, b, n) for name in names for b, n in pairs]  # type: ignore[arg-type]
