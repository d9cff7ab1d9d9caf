"""Calibrate a machine before a run, so that the run has a calibrated prediction."""

import hardware_db
from app.calibration import machine
from app.measuring import run_store
from genz_core.common.progress import Cancel, Progress, never, part, silent
from profilers.collect.machine_document import SLUG
from profilers.runs.run_config import RunConfig

#: Approximate share of the total time that the calibration takes.
_SHARE = 0.8


def is_calibrated() -> bool:
    """Whether a calibration of this machine was saved."""
    return SLUG in hardware_db.names()


def calibrate_and_run(
    config: RunConfig, progress: Progress = silent, cancelled: Cancel = never
) -> str:
    """Calibrate this machine, save the result, then measure a run configuration.

    Returns the id of the stored run, which is priced with the calibration.

    Raises:
        MeasurementError: as `machine.calibrate`, `machine.save` and `run_store.execute`.
        Cancelled: it was stopped before the run.
    """
    device, threads = config.run.device, config.run.threads
    fitted = machine.calibrate(device, threads, part(progress, 0.0, _SHARE), cancelled)
    machine.save(fitted)
    return run_store.execute(config, part(progress, _SHARE, 1.0), cancelled)
