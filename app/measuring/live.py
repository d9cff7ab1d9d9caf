"""A model run on this machine as a run file says: what it came to, before it is kept."""

from __future__ import annotations

import dataclasses
import gzip
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from app.measuring import prediction
from app.measuring.prediction import Setting
from genz_core.errors import InvalidValue, MeasurementError, ReportError
from profilers import Measurement, Report, read_report
from profilers.collect.progress import Cancel, Progress, never, silent
from profilers.schema import kernel_table

if TYPE_CHECKING:
    from app.measuring.sweep import Swept
    from profilers.collect.building import RunSettings
    from profilers.collect.model import ModelRun

#: How to do it again, in the folder of a kept run.
AGAIN = ("ridgeline", "runs", "start", "--file", "inputs.yaml")
TRACE = "trace.json.gz"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to.

    known: what its prediction rests on.  live: the run itself, None of one inside Nsight.
    reports: what the measurement was made of.  kernels: every launch, None where none was watched.
    commands: what ran.  files: what to keep beside the artifacts.  metrics: further figures.
    label: what the kept run is listed as, "" for its model.  swept: the steps of a sweep, priced.
    """

    measurement: Measurement
    known: Setting
    live: ModelRun | None = None
    reports: tuple[Report, ...] = ()
    kernels: pd.DataFrame | None = None
    commands: Sequence[Sequence[str]] = ()
    files: tuple[Path, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    swept: Swept | None = None

    @property
    def out_of_memory(self) -> bool:
        return self.live is not None and self.live.out_of_memory


def settings_of(tree: Mapping[str, Any], trace_path: str = "") -> RunSettings:
    """The settings that a resolved run file asks for.

    Raises:
        InvalidValue: it names no model.  UnknownModel: there is none of that name.
    """
    from profilers.collect.building import RunSettings

    model, run = tree["model"], tree["run"]
    if not model["name"]:
        raise InvalidValue("name a model: model=qwen2.5-0.5b, or model.name=...")
    same = ("batch", "isl", "osl", "device", "dtype", "attention", "compile", "warmup", "repeats")
    return RunSettings(
        prediction.raw_config(model["name"], model["checkpoint"]),
        **{name: run[name] for name in same},
        layers=model["layers"],
        profile=tree["torch_profiler"]["enable"],
        nvtx_modules=run["nvtx"],
        trace_path=trace_path,
    )


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
