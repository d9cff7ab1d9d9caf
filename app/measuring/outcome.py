"""A finished run before it is kept: its measurement, its prediction's inputs, its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from app.measuring import prediction
from app.measuring.prediction import Setting, agreements, step_rows
from genz_core.errors import InvalidValue
from profilers import Measurement, Report
from profilers.collect.agreement import Agreement

if TYPE_CHECKING:
    from profilers.collect.building import RunSettings
    from profilers.collect.model import ModelRun

#: Command that repeats a kept run, started in its folder.
AGAIN = ("ridgeline", "runs", "start", "--file", "inputs.yaml")


@dataclass(frozen=True, slots=True)
class Swept:
    """The steps of a sweep beside what was predicted for them.

    rows: see `app.measuring.prediction.step_rows`.  agreement: R², MAPE and line by phase, and of
    "all".
    """

    rows: list[dict[str, Any]]
    agreement: dict[str, Agreement]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, measurement: Measurement, known: Setting) -> Swept:
        """The steps of a measurement, priced for a setting."""
        rows = step_rows(measurement.steps, known)
        return cls(rows, agreements(rows), (*known.notes, *measurement.notes))


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
