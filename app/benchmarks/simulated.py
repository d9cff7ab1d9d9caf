"""The same load sent through the simulation: percentiles of every latency, without intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from app.benchmarks.comparison import Comparison, Point
from app.benchmarks.deployment import Deployment
from app.scenario.scenario import Resolved, asking
from app.simulation import rows
from app.simulation.offered_load import AT_A_RATE, PER_SLOT
from app.simulation.run import Run, run
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.progress import Cancel, Progress, never, part, silent
from genz_core.types import Array

#: Requests of a simulation at most; a longer run is cut to its first ones.
MOST = 5000


@dataclass(frozen=True, slots=True)
class SimulatedPoint:
    """A simulation of a measured run.  figures: by the names of a comparison's."""

    run: Run
    figures: Mapping[str, float]


def with_simulations(
    comparison: Comparison, progress: Progress = silent, cancelled: Cancel = never
) -> Comparison:
    """A comparison with the simulated value of every figure, where the run can be simulated.

    Raises:
        Cancelled: `cancelled` said so.
    """
    points, notes = [], dict.fromkeys(comparison.notes)
    for at, point in enumerate(comparison.points):
        share = part(progress, at / len(comparison.points), (at + 1) / len(comparison.points))
        try:
            points.append(_with_simulation(point, share, cancelled))
        except RidgelineError as error:
            points.append(point)
            notes[f"{point.label}: not simulated: {error}"] = None
    return replace(comparison, points=tuple(points), notes=tuple(notes))


def _with_simulation(point: Point, progress: Progress, cancelled: Cancel) -> Point:
    if point.deployment.resolved is None or point.measurement.phase:
        return point
    figures = simulate(point.deployment, progress, cancelled).figures
    named = tuple(replace(row, simulated=figures.get(row.figure, math.nan)) for row in point.rows)
    return replace(point, rows=named)


def simulate(
    deployment: Deployment, progress: Progress = silent, cancelled: Cancel = never
) -> SimulatedPoint:
    """Simulate the load of a run: as many requests, of its lengths, at its concurrency or rate.

    Raises:
        InvalidValue: something that is needed is missing, or the load cannot be simulated.
        Cancelled: `cancelled` said so.
    """
    if deployment.measurement.phase:
        raise InvalidValue("a phase alone has no requests to simulate")
    outcome = run(*offered(deployment), progress, cancelled)
    figures = rows.figures(outcome)
    figures["total_tokens_per_s"] = figures["input_tokens_per_s"] + figures["output_tokens_per_s"]
    return SimulatedPoint(outcome, figures)


def offered(deployment: Deployment) -> tuple[Resolved, dict[str, Any]]:
    """The question of a run and the lengths of its requests, where the file lists them.

    The users of a closed loop start together, as benchmarks do.

    Raises:
        InvalidValue: something that is needed is missing.
    """
    resolved, measured = deployment.priced(), deployment.measurement.load
    question = resolved.scenario
    users = question.concurrency
    usual = max(users * PER_SLOT, 1) if users else AT_A_RATE
    count = min(measured.completed or measured.requests or usual, MOST)
    told: dict[str, Any] = {"requests": count}
    if users:
        told |= {"concurrency": min(users, count), "burst_start": True}
    pairs = listed_lengths(deployment.measurement.requests)
    if pairs is not None:
        told |= {"lengths": deployment.measurement.file or "requests", "length_ratio": None}
    objects = dict(deployment.objects) | ({} if pairs is None else {"lengths": pairs})
    return asking(resolved, replace(question, **told)), objects


def listed_lengths(requests: pd.DataFrame | None) -> Array | None:
    """Prompt and answer of every request that has both, [requests, 2]; None without any."""
    if requests is None:
        return None
    pairs = requests[["isl", "osl"]].to_numpy(dtype=float)
    known = pairs[(np.nan_to_num(pairs) >= 1.0).all(axis=1)]
    return known if len(known) else None
