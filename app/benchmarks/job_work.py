"""Simulations and calibrations of results as jobs; they are priced anew in the job's process."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.benchmarks.calibration import Calibrated, calibrate
from app.benchmarks.comparison import Comparison, compare
from app.benchmarks.deployment import deployment, deployments
from app.benchmarks.replay import Replay, replay
from app.benchmarks.simulation import with_simulations
from genz_core.common.progress import Cancel, Progress
from hardware_db.data_folder import overlay
from profilers.serving_results import ServingMeasurement


@dataclass(frozen=True, slots=True)
class BenchmarkQuery:
    """Measured runs, what the user stated, and the data folder laid over the user's, or ""."""

    measurements: tuple[ServingMeasurement, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    level: float = 0.8
    own_folder: str = ""


def simulated(asked: BenchmarkQuery, progress: Progress, cancelled: Cancel) -> Comparison:
    """The comparison of runs with every run simulated.

    Raises:
        RidgelineError: as `deployment`.  Cancelled: `cancelled` returned True.
    """
    with overlay(Path(asked.own_folder) if asked.own_folder else None):
        runs = deployments(asked.measurements, asked.given)
        return with_simulations(compare(runs, asked.level), progress, cancelled)


def replayed(asked: BenchmarkQuery, progress: Progress, cancelled: Cancel) -> Replay:
    """The first of the runs, request by request.

    Raises:
        RidgelineError: as `replay`.  Cancelled: `cancelled` returned True.
    """
    with overlay(Path(asked.own_folder) if asked.own_folder else None):
        return replay(deployment(asked.measurements[0], asked.given), progress, cancelled)


def learnt(asked: BenchmarkQuery, progress: Progress, cancelled: Cancel) -> Calibrated:
    """The calibration from the runs; nothing is stored.

    Raises:
        RidgelineError: as `calibrate`.  Cancelled: `cancelled` returned True.
    """
    with overlay(Path(asked.own_folder) if asked.own_folder else None):
        return calibrate(deployments(asked.measurements, asked.given), progress, cancelled)
