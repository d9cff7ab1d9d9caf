"""A model run on this machine as a run file says: what it came to, before it is kept."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from app.measuring import prediction
from app.measuring.outcome import AGAIN, Outcome, settings_of
from app.measuring.prediction import Setting
from genz_core.errors import MeasurementError, ReportError
from profilers import read_report
from profilers.collect.progress import Cancel, Progress, never, silent
from profilers.schema import kernel_table

if TYPE_CHECKING:
    from profilers.collect.model import ModelRun

TRACE = "trace.json.gz"


def run_live(
    tree: Mapping[str, Any], scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Build, warm up and time the model of a run file.

    Args:
        scratch: a folder for its trace.

    Raises:
        MeasurementError, Cancelled: see `profilers.collect.model.run_model`.
    """
    from profilers.collect.building import pick_device
    from profilers.collect.clock import use_threads
    from profilers.collect.model import run_model, run_scaled

    settings = settings_of(tree)
    device = pick_device(settings.device)
    trace = scratch / TRACE
    if settings.profile and (tree["torch_profiler"]["trace"] or device.type == "cuda"):
        settings = dataclasses.replace(settings, trace_path=str(trace))
    use_threads(device, tree["run"]["threads"])
    done = (run_scaled if settings.layers else run_model)(settings, progress, cancelled)
    measurement = done.measurement
    name = measurement.system.name if measurement.system else settings.device
    threads = int(done.facts.get("threads", 0))
    known = prediction.setting(settings, name, tree["predict"]["system"], threads)
    kernels, note = _kernels(trace) if settings.profile else (None, "")
    if note:
        measurement = dataclasses.replace(measurement, notes=(*measurement.notes, note))
    if done.use is not None:
        facts = {**measurement.facts, **done.use.summary()}
        measurement = dataclasses.replace(measurement, facts=facts)
    kept = tree["torch_profiler"]["trace"] and trace.is_file()
    return Outcome(
        measurement, known, done, kernels=kernels, commands=[AGAIN],
        files=(trace,) if kept else (), metrics=_metrics(done, known),
    )  # fmt: skip


def copy_trace(scratch: Path, target: Path) -> None:
    """Leave the trace of a run in `scratch`, where it has one, in a file: packed if called .gz.

    Raises:
        MeasurementError: the file cannot be written.
    """
    if not (scratch / TRACE).is_file():
        return
    opened = open if target.suffix == ".gz" else gzip.open
    try:
        with opened(scratch / TRACE, "rb") as packed, target.open("wb") as out:
            shutil.copyfileobj(packed, out)
    except OSError as error:
        raise MeasurementError(f"{target} cannot be written: {error.strerror}") from None


def _kernels(trace: Path) -> tuple[pd.DataFrame, str]:
    """The kernels of the profiler's trace, none where there is no trace, and what is wrong."""
    if not trace.is_file():
        return kernel_table({}), ""
    try:
        return read_report(trace).kernels, ""
    except ReportError as error:
        return kernel_table({}), f"the trace of this run cannot be read: {error}"


def _metrics(done: ModelRun, known: Setting) -> dict[str, Any]:
    """Figures beside the timings: parameters, bounds, MFU and MBU, power and clocks."""
    beside = ("bound_s", "predicted_s", "low_s", "high_s", "inside", "error", "mfu", "mbu")
    rows = prediction.phase_rows(done, known)
    return {
        "parameters": done.parameters,
        "cancelled": done.cancelled,
        "efficiency": {row["phase"]: {key: row.get(key) for key in beside} for row in rows},
        "use": done.use.summary() if done.use else None,
    }
