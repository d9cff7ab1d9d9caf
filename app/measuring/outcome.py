"""A finished run before it is kept: its measurement, the inputs of its prediction, its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

import hardware_db
from app.measuring.prediction import (
    RunContext,
    agreements,
    config_at,
    raw_config,
    run_context,
    step_rows,
    with_cut_config,
)
from app.measuring.threads import with_contention
from genz_core.errors import InvalidValue
from profilers import Measurement, Report
from profilers.collect.agreement import Agreement
from profilers.collect.measured_model import RunSettings, device_facts
from profilers.collect.model import ModelRun
from profilers.collect.prompts import PromptRun
from profilers.collect.steps import StepRun
from profilers.runs.run_config import RunConfig
from profilers.schema import OPERATOR_COLUMNS, table

#: Command that repeats a kept run, to be run in its folder.
AGAIN = ("ridgeline", "runs", "start", "--file", "inputs.yaml")


@dataclass(frozen=True, slots=True)
class Swept:
    """Measured steps of a sweep with their predictions.

    rows: see `app.measuring.prediction.step_rows`.
    agreement: R², errors and line by phase, and for "all".
    """

    rows: list[dict[str, Any]]
    agreement: dict[str, Agreement]
    notes: tuple[str, ...]


def priced_sweep(measurement: Measurement, context: RunContext) -> Swept:
    """The steps of a measurement with their predictions."""
    rows = step_rows(measurement.steps, context)
    return Swept(rows, agreements(rows), (*context.notes, *measurement.notes))


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished run, and the data stored with it.

    context: inputs of its prediction.  live: the run if it was in this process, otherwise None.
    reports: sources of the measurement.  kernels: every launch, None if none was recorded.
     commands: argument lists that ran.  files: to store beside the artifacts.
    metrics: additional figures.  label: of the kept run, "" for its model.
    swept: the steps of a sweep, None for other runs.  prompts: rows of a run over prompts.
    """

    measurement: Measurement
    context: RunContext
    live: ModelRun | None = None
    reports: tuple[Report, ...] = ()
    kernels: pd.DataFrame | None = None
    commands: Sequence[Sequence[str]] = ()
    files: tuple[Path, ...] = ()
    metrics: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    swept: Swept | None = None
    prompts: Sequence[Mapping[str, Any]] = ()

    @property
    def out_of_memory(self) -> bool:
        return self.live is not None and self.live.out_of_memory


def settings_of(config: RunConfig) -> RunSettings:
    """The collector's settings for the model and workload of a run configuration.

    Raises:
        InvalidValue: no model is named.  UnknownModel, UnknownSystem: none of that name.
    """
    model, run = config.model, config.run
    if not (model.name or model.path):
        raise InvalidValue("name a model: model=qwen2.5-0.5b, or model.name=...")
    if config.predict.system != "auto":  # a run of minutes must not fail at an unknown name
        hardware_db.facts(config.predict.system)
    return RunSettings(
        config_at(Path(model.path)) if model.path else raw_config(model.name, model.checkpoint),
        batch=run.batch,
        isl=run.isl,
        osl=run.osl,
        device=run.device,
        dtype=run.dtype,
        attention=run.attention,
        compile=run.compile,
        layers=model.layers,
        warmup=run.warmup,
        repeats=run.repeats,
        profile=config.torch_profiler.enable,
        nvtx_modules=run.nvtx,
        activities=config.torch_profiler.activities,
        memory=config.torch_profiler.memory,
        stack=config.torch_profiler.stack,
    )


def of_steps(
    config: RunConfig, settings: RunSettings, device: Any, busy: float, run: StepRun | PromptRun,
    notes: Sequence[str], facts: Mapping[str, Any] | None = None, **timings: Any,
) -> tuple[Measurement, RunContext]:  # fmt: skip
    """A run of single steps or prompts in this process, prepared for storing, with the inputs of
    its prediction.

    Args:
        device: torch's.  busy: contention of the CPU's cores.
        facts: in addition to those of every such run.  timings: `steps` or `phases`.
    """
    measurement = Measurement(
        source="live",
        operators=table(OPERATOR_COLUMNS, {}, 0),
        system=device_facts(device),
        model=settings.name,
        engine="hf-compile" if settings.compile else "hf",
        facts={
            "dtype": settings.dtype, "attention": settings.attention, "threads": run.threads,
            "clock": run.clock, "parameters": run.parameters, **(facts or {}),
        },
        notes=tuple(notes),
        **timings,
    )  # fmt: skip
    name = measurement.system.name if measurement.system else settings.device
    context = run_context(with_cut_config(settings), name, config.predict.system, run.threads)
    return with_contention(measurement, device, busy), context
