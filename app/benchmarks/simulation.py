"""The same load through the simulation: percentiles of every latency, without intervals."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.benchmarks.comparison import Comparison, Point
from app.benchmarks.deployment import Deployment
from app.benchmarks.replayed_load import figures_of, offered, run_as_measured
from app.simulation.run import Run
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.errors import InvalidValue, RidgelineError


@dataclass(frozen=True, slots=True)
class SimulatedPoint:
    """A simulation of a measured run.  figures: under the names of a comparison's."""

    run: Run
    figures: Mapping[str, float]


def with_simulations(
    comparison: Comparison, progress: Progress = silent, cancelled: Cancel = never
) -> Comparison:
    """A comparison with the simulated value of every figure, where the run can be simulated.

    Raises:
        Cancelled: `cancelled` returned True.
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
    """Simulate the load of a run: the same number of requests and lengths, at its concurrency or
    rate.

    Raises:
        InvalidValue: something required is missing, or the load cannot be simulated.
        Cancelled: `cancelled` returned True.
    """
    if deployment.measurement.phase:
        raise InvalidValue("a phase alone has no requests to simulate")
    outcome = run_as_measured(*offered(deployment), progress, cancelled)
    return SimulatedPoint(outcome, figures_of(outcome))
