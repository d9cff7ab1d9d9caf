"""Measure a model split over several processes of this machine."""

import dataclasses
from pathlib import Path

from app.measuring.outcome import AGAIN, Outcome, settings_of
from app.measuring.prediction import RunContext, run_context, with_cut_config
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.types import Parallelism
from profilers import Measurement
from profilers.collect import distributed
from profilers.collect.measured_model import RunSettings
from profilers.runs.run_config import RunConfig


def run_ranked(
    config: RunConfig, scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Split the model of a run configuration over its ranks and time the whole.

    Raises:
        MeasurementError, Cancelled: see `profilers.collect.distributed.run_ranks`.
    """
    settings = dataclasses.replace(settings_of(config), profile=False)
    count, timeout_s = config.ranks.tp, config.ranks.timeout_s
    progress(0.0, f"running {count} ranks")
    run = distributed.run_ranks(settings, count, timeout_s, cancelled)
    progress(1.0, "done")
    return Outcome(
        run.measurement,
        _context(settings, run.measurement, config.predict.system),
        commands=[AGAIN],
        metrics={"ranks": run.ranks, "skew": run.skew, "collectives": run.collectives},
        label=f"{settings.name}, {count} ranks",
    )


def _context(settings: RunSettings, measurement: Measurement, system: str) -> RunContext:
    """Inputs of a prediction over ranks; none for ranks that share this machine's CPU."""
    name = measurement.system.name if measurement.system else ""
    split = Parallelism(tp=float(measurement.facts["world_size"]))
    context = run_context(with_cut_config(settings), name, system)
    if measurement.facts["backend"] != "gloo":
        return dataclasses.replace(context, split=split)
    note = "no prediction: ranks on a CPU share its cores and memory, and are not separate devices"
    return dataclasses.replace(context, system=None, notes=(note,), split=split)
