"""Prefill and decode measured over a grid of batches and lengths, beside their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.measuring.outcome import AGAIN, Outcome, Swept, settings_of
from app.measuring.prediction import cut, setting
from app.scenario.axis_values import parse_values
from genz_core.errors import InvalidValue
from profilers import Measurement
from profilers.collect.progress import Cancel, Progress, never, silent
from profilers.schema import OPERATOR_COLUMNS, table
from profilers.steps import MOST_STEPS, StepPoint

if TYPE_CHECKING:
    from profilers.collect.building import RunSettings
    from profilers.collect.steps import StepRun


def asked(tree: Mapping[str, Any]) -> bool:
    """Whether a run file asks for a sweep."""
    return bool(tree["sweep"]["batches"])


def run_sweep(
    tree: Mapping[str, Any], scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Measure every point of a run file's grid; a size that runs out of memory spares all larger.

    Raises:
        InvalidValue, MeasurementError: what is asked means nothing, or the model does not run.
        Cancelled: it was stopped before any point was complete.
    """
    from profilers.collect.building import device_facts, pick_device
    from profilers.collect.clock import use_threads
    from profilers.collect.steps import measure_steps

    grid = tree["sweep"]
    points = sweep_points(grid["batches"], grid["lengths"], grid["phases"])
    if grid["rounds"] < 1:
        raise InvalidValue(f"rounds = {grid['rounds']}: give a whole number of at least 1")
    settings = settings_of(tree)
    device = pick_device(settings.device)
    use_threads(device, tree["run"]["threads"])
    done = measure_steps(settings, points, grid["rounds"], progress, cancelled)
    measurement = _measurement(settings, done, device_facts(device))
    name = measurement.system.name if measurement.system else settings.device
    known = setting(cut(settings), name, tree["predict"]["system"], done.threads)
    swept = Swept.of(measurement, known)
    fits = {name: fit.row() for name, fit in swept.agreement.items()}
    return Outcome(
        measurement,
        known,
        commands=[AGAIN],
        metrics={"parameters": done.parameters, "cancelled": done.cancelled, "agreement": fits},
        label=f"{settings.name}, sweep of {len(points)} steps",
        swept=swept,
    )


def _measurement(settings: RunSettings, done: StepRun, device: Any) -> Measurement:
    """A sweep as a measurement: its steps, and no phase of one size."""
    notes = [f"cut to {settings.layers} layers, not scaled"] if settings.layers else []
    if done.cancelled:
        notes.append("cancelled: complete points only")
    return Measurement(
        source="live",
        operators=table(OPERATOR_COLUMNS, {}, 0),
        system=device,
        model=settings.name,
        engine="hf-compile" if settings.compile else "hf",
        facts={
            "dtype": settings.dtype, "attention": settings.attention, "threads": done.threads,
            "clock": done.clock, "parameters": done.parameters,
        },
        notes=tuple(notes),
        steps=done.steps,
    )  # fmt: skip


def sweep_points(batches: str, lengths: str, phases: str) -> list[StepPoint]:
    """Every batch at every length, small ones first, phase by phase.

    Raises:
        InvalidValue: values or phases that do not read, or more points than a sweep has.
    """
    wanted = [phase.strip() for phase in phases.split(",")]
    unknown = [phase for phase in wanted if phase not in ("prefill", "decode")]
    if unknown:
        raise InvalidValue(f"unknown phase {unknown[0]!r}; give prefill, decode or prefill,decode")
    sizes = parse_values("batches", batches), parse_values("lengths", lengths)
    count = len(wanted) * len(sizes[0]) * len(sizes[1])
    if count > MOST_STEPS:
        raise InvalidValue(f"{count} points are more than a sweep of {MOST_STEPS}: widen its steps")
    pairs = sorted(
        ((int(b), int(n)) for b in sizes[0] for n in sizes[1]), key=lambda p: p[0] * p[1]
    )
    small = [pair for pair in pairs if min(pair) < 1]
    if small:
        raise InvalidValue(f"batch {small[0][0]} x length {small[0][1]}: sizes start at 1")
    return [StepPoint(phase, b, n) for phase in wanted for b, n in pairs]  # type: ignore[arg-type]
