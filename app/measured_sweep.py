"""Prefill and decode measured over a grid of batches and lengths, beside their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.axes import parse_values
from app.live_runs import settings_of
from app.measuring import agreements, cut, setting, step_rows
from genz_core.errors import InvalidValue
from profilers.collect.agreement import Agreement
from profilers.collect.progress import Cancel, Progress, never, silent
from profilers.collect.steps import StepPoint


@dataclass(frozen=True, slots=True)
class Swept:
    """A finished sweep.

    rows: see `app.measuring.step_rows`.  agreement: R², MAPE and line by phase, and of "all".
    """

    rows: list[dict[str, Any]]
    agreement: dict[str, Agreement]
    notes: tuple[str, ...]


def sweep(
    asked: Mapping[str, Any], progress: Progress = silent, cancelled: Cancel = never
) -> Swept:
    """Measure every point of a grid; a size that runs out of memory spares all larger ones.

    Args:
        asked: tree (a resolved run file), batches and lengths ("1:8:x2" or "1,2,4"), phases
            ("prefill,decode"), rounds.

    Raises:
        InvalidValue, MeasurementError: what is asked means nothing, or the model does not run.
        Cancelled: it was stopped before any point was complete.
    """
    from profilers.collect.building import device_facts, pick_device
    from profilers.collect.clock import use_threads
    from profilers.collect.steps import measure_steps

    tree = asked["tree"]
    points = sweep_points(asked["batches"], asked["lengths"], asked["phases"])
    settings = settings_of(tree)
    device = pick_device(settings.device)
    use_threads(device, tree["run"]["threads"])
    done = measure_steps(settings, points, asked["rounds"], progress, cancelled)
    name, system = device_facts(device).name, tree["predict"]["system"]
    known = setting(cut(settings), name, system, done.threads)
    rows = step_rows(done.steps, known)
    stopped = ("cancelled: complete points only",) if done.cancelled else ()
    return Swept(rows, agreements(rows), (*known.notes, *stopped))


def sweep_points(batches: str, lengths: str, phases: str) -> list[StepPoint]:
    """Every batch at every length, small ones first, phase by phase.

    Raises:
        InvalidValue: values or phases that do not read.
    """
    wanted = [phase.strip() for phase in phases.split(",")]
    unknown = [phase for phase in wanted if phase not in ("prefill", "decode")]
    if unknown:
        raise InvalidValue(f"unknown phase {unknown[0]!r}; give prefill, decode or prefill,decode")
    sizes = parse_values("batches", batches), parse_values("lengths", lengths)
    pairs = sorted(
        ((int(b), int(n)) for b in sizes[0] for n in sizes[1]), key=lambda p: p[0] * p[1]
    )
    small = [pair for pair in pairs if min(pair) < 1]
    if small:
        raise InvalidValue(f"batch {small[0][0]} x length {small[0][1]}: sizes start at 1")
    return [StepPoint(phase, b, n) for phase in wanted for b, n in pairs]  # type: ignore[arg-type]
