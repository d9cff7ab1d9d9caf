"""A model measured over several processes of this machine, as a run file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.measuring.outcome import AGAIN, Outcome, settings_of
from app.measuring.prediction import Setting, cut, setting
from genz_core.types import Parallelism
from profilers import Measurement
from profilers.collect.building import RunSettings
from profilers.collect.progress import Cancel, Progress, never, silent


def asked(tree: Mapping[str, Any]) -> bool:
    """Whether a run file asks for several ranks."""
    return bool(tree["ranks"]["tp"])


def run_ranked(
    tree: Mapping[str, Any], scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Split the model of a run file over its ranks and time the whole.

    Raises:
        MeasurementError, Cancelled: see `profilers.collect.distributed.run_ranks`.
    """
    from profilers.collect.distributed import run_ranks

    settings = dataclasses.replace(settings_of(tree), profile=False)
    ranks, timeout_s = tree["ranks"]["tp"], tree["ranks"]["timeout_s"]
    progress(0.0, f"running {ranks} ranks")
    done = run_ranks(settings, ranks, timeout_s, cancelled)
    progress(1.0, "done")
    return Outcome(
        done.measurement,
        _known(settings, done.measurement, tree["predict"]["system"]),
        commands=[AGAIN],
        metrics={"ranks": done.ranks, "skew": done.skew, "collectives": done.collectives},
        label=f"{settings.name}, {ranks} ranks",
    )


def _known(settings: RunSettings, measurement: Measurement, system: str) -> Setting:
    """What a prediction of ranks rests on: a device each; ranks on CPUs share this machine's."""
    name = measurement.system.name if measurement.system else ""
    split = Parallelism(tp=float(measurement.facts["world_size"]))
    known = dataclasses.replace(setting(cut(settings), name, system), split=split)
    if measurement.facts["backend"] != "gloo":
        return known
    note = "no prediction: ranks on CPUs share cores and memory, and are no devices of their own"
    return dataclasses.replace(known, system=None, notes=(note,))
