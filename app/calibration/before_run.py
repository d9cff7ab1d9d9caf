"""A run on a machine that is calibrated first, so that its own prediction stands beside it."""

from __future__ import annotations

import hardware_db
from app.calibration import machine
from app.measuring import run_store
from genz_core.errors import RidgelineError
from genz_core.progress import Cancel, Progress, never, part, silent
from profilers.collect.machine_document import SLUG
from profilers.run_config import RunConfig

#: Share of the whole that the calibration takes, about.
_SHARE = 0.8


def is_calibrated() -> bool:
    """Whether this machine was calibrated and the calibration kept."""
    try:
        return hardware_db.load(SLUG).slug == SLUG
    except RidgelineError:
        return False


def calibrate_and_run(
    config: RunConfig, progress: Progress = silent, cancelled: Cancel = never
) -> str:
    """Calibrate this machine, keep that, then measure what a run configuration describes.

    Returns the id of the kept run, which is priced with the calibration.

    Raises:
        MeasurementError: as `machine.calibrate`, `machine.save` and `run_store.execute`.
        Cancelled: it was stopped before the run.
    """
    device, threads = config.run.device, config.run.threads
    fitted = machine.calibrate(device, threads, part(progress, 0.0, _SHARE), cancelled)
    machine.save(fitted)
    return run_store.execute(config, part(progress, _SHARE, 1.0), cancelled)
