"""Run a model locally as a run configuration describes.  `run_store.keep` stores the outcome."""

import dataclasses
import gzip
import shutil
from pathlib import Path
from typing import Any

import pandas as pd

from app.measuring.outcome import AGAIN, Outcome, settings_of
from app.measuring.prediction import RunContext, phase_rows, run_context
from app.measuring.threads import ready_threads, with_contention
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import MeasurementError, ReportError
from profilers import Measurement, read_report
from profilers.collect.measured_model import pick_device
from profilers.collect.model import ModelRun, run_model, run_scaled
from profilers.runs.run_config import RunConfig
from profilers.schema import kernel_table

TRACE = "trace.json.gz"
#: Figures of `phase_rows` that metrics.json repeats beside the timings.
_EFFICIENCY = (
    "bound_s", "predicted_s", "low_s", "high_s", "inside", "error", "mfu", "mbu",
    "not_comparable",
)  # fmt: skip


def run_live(
    config: RunConfig, scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Build, warm up and time a model in this process.

    Args:
        scratch: a folder for its trace.

    Raises:
        MeasurementError, Cancelled: see `profilers.collect.model.run_model`.
    """
    settings = settings_of(config)
    device = pick_device(settings.device)
    trace = scratch / TRACE
    if settings.profile and (config.torch_profiler.trace or device.type == "cuda"):
        settings = dataclasses.replace(settings, trace_path=str(trace))
    busy = ready_threads(device, config)
    run = (run_scaled if settings.layers else run_model)(settings, progress, cancelled)
    system = run.measurement.system
    name = system.name if system else settings.device
    threads = int(run.facts.get("threads", 0))
    context = run_context(settings, name, config.predict.system, threads)
    kernels, note = _traced_kernels(trace) if settings.profile else (None, "")
    kept = config.torch_profiler.trace and trace.is_file()
    measurement = with_contention(_with_use_and_note(run, note), device, busy)
    return Outcome(
        measurement, context, run, kernels=kernels, commands=[AGAIN],
        files=(trace,) if kept else (), metrics=_metrics(run, context),
    )  # fmt: skip


def _with_use_and_note(run: ModelRun, note: str) -> Measurement:
    """The measurement with the GPU's power and clocks among its facts, and an additional note."""
    measurement = run.measurement
    if note:
        measurement = dataclasses.replace(measurement, notes=(*measurement.notes, note))
    if run.use is not None:
        facts = {**measurement.facts, **run.use.summary()}
        measurement = dataclasses.replace(measurement, facts=facts)
    return measurement


def copy_trace(scratch: Path, target: Path) -> None:
    """Copy the trace of a run in `scratch`, if there is one; compressed if the target ends in .gz.

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


def _traced_kernels(trace: Path) -> tuple[pd.DataFrame, str]:
    """The kernels of a trace (None without a file), and why it cannot be read, or ""."""
    if not trace.is_file():
        return kernel_table({}), ""
    try:
        return read_report(trace).kernels, ""
    except ReportError as error:
        return kernel_table({}), f"the trace of this run cannot be read: {error}"


def _metrics(run: ModelRun, context: RunContext) -> dict[str, Any]:
    """Figures beside the timings: parameters, bounds, MFU and MBU, power and clocks."""
    rows = phase_rows(run, context)
    return {
        "parameters": run.parameters,
        "cancelled": run.cancelled,
        "efficiency": {row["phase"]: {key: row.get(key) for key in _EFFICIENCY} for row in rows},
        "use": run.use.summary() if run.use else None,
    }
