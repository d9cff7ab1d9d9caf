"""Predictions for runs on this machine: the inputs of a run's prediction, and the priced rows."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import genz_core
import hardware_db
import model_registry
from app.question.comparison import of_split
from app.scenario import intervals
from app.scenario.intervals import Ranged
from genz_core.deployment import as_measured
from genz_core.engine import EngineProfile
from genz_core.errors import RidgelineError
from genz_core.graphs import Model
from genz_core.phases import decode_step, prefill
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
from genz_core.types import Parallelism, Workload
from hardware_db.intervals import Interval
from model_registry.finding.hub import hub_model
from model_registry.finding.lookup import resolve_name
from model_registry.finding.sources import ModelSource, hub_config, json_object
from profilers.collect.agreement import Agreement, agreement
from profilers.collect.machine_document import ENGINE, SLUG
from profilers.collect.measured_model import RunSettings
from profilers.collect.model import ModelRun
from profilers.comparison.comparable import BELOW_BOUND, REASON
from profilers.comparison.compare import lies_inside
from profilers.steps import MeasuredStep

_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.safetensors.index.json")
#: Ridgeline's names of torch's number formats.
FORMATS: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
}
_UNKNOWN = float("nan")


def raw_config(name: str, checkpoint: bool = False) -> dict[str, Any] | str:
    """What transformers builds a model from, by name: a config (random weights), or a checkpoint.

    Args:
        name: a registry name, or "hf:owner/name".
        checkpoint: the hub's weights instead of random ones.

    Raises:
        UnknownModel: no such model here or on the hub, which is only contacted for an address.
        InvalidValue: an impossible address.
    """
    if hub := hub_model(name):
        return hub.id if checkpoint else hub_config(hub.id)
    entry = resolve_name(name)
    return entry.id if checkpoint else {"_id": entry.id, **entry.model.config()}


def config_at(path: Path) -> dict[str, Any] | str:
    """What transformers builds a model from, at a path of this machine.

    path: a config.json, the folder of one, or a folder with weights, which is a checkpoint.

    Raises:
        InvalidValue: a config that cannot be read.
    """
    if path.is_dir() and any(file for glob in _WEIGHT_FILES for file in path.glob(glob)):
        return str(path.absolute())
    file = path / "config.json" if path.is_dir() else path
    return {"_id": path.stem, **json_object(file)}


def with_cut_config(settings: RunSettings) -> RunSettings:
    """The settings with a config of only `settings.layers` layers; unchanged where all
    layers run.
    """
    if isinstance(settings.config, str):
        return settings
    return dataclasses.replace(settings, config=cut_config(settings.config, settings.layers))


def cut_config(config: Mapping[str, Any], layers: int) -> Mapping[str, Any]:
    """A config of only `layers` layers; unchanged for 0, or where it does not state their
    number.
    """
    if not layers or "num_hidden_layers" not in config:
        return config
    whole = config["num_hidden_layers"]
    short = {
        key: value[:layers] if isinstance(value, list) and len(value) == whole else value
        for key, value in config.items()
    }
    return {**short, "num_hidden_layers": layers}


@dataclass(frozen=True, slots=True)
class RunContext:
    """Inputs of the prediction that a local run is compared with.

    Without a model or a system nothing is predicted; notes state why, and what to do.
    split: the devices that share the model.
    """

    model: Model | None
    system: System | None
    engine: EngineProfile
    notes: tuple[str, ...] = ()
    split: Parallelism = field(default_factory=Parallelism)


def run_context(
    settings: RunSettings, device_name: str, system: str = "auto", threads: int = 0
) -> RunContext:
    """Model, system and engine that a run is priced with.

    Args:
        device_name: name that the device reports.
        system: a slug, or "auto" for the calibrated machine, else the datasheet of the device.
        threads: of the CPU that ran, 0 where they are irrelevant.

    Raises:
        UnknownSystem: no system of the slug given.
    """
    model, notes = _model(settings)
    priced_on = _system(device_name, system)
    notes += _system_notes(priced_on, device_name, threads)
    name = "hf-compile" if settings.compile else "hf"
    if priced_on is not None and priced_on.slug == SLUG and not settings.compile:
        name = ENGINE
    engine = hardware_db.load_engine(name)
    if model is not None and priced_on is not None:
        engine = as_measured(engine, model, priced_on)
    return RunContext(model, priced_on, engine, tuple(notes))


def _model(settings: RunSettings) -> tuple[Model | None, list[str]]:
    """The model of a run in its number format; None and the reason if no graph of it exists."""
    fmt = FORMATS.get(settings.dtype, "bf16")
    source: ModelSource = settings.config
    if isinstance(source, str) and Path(source).is_absolute():
        source = Path(source)
    try:
        model = model_registry.load(source, weights=fmt, kv=fmt, activations=fmt)
    except RidgelineError as error:
        return None, [f"no prediction: {error}"]
    return model, []


def _system_notes(system: System | None, device_name: str, threads: int) -> list[str]:
    """Advice for getting a prediction, or a comparable one."""
    if system is None:
        return [
            f"{device_name} is unknown: run `ridgeline calibrate machine` for "
            "predictions, MFU and MBU"
        ]
    if system.kind == "cpu" and threads and system.slug == SLUG and system.compute_units != threads:
        return [
            f"this machine was calibrated with {system.compute_units} threads and ran with "
            f"{threads}; calibrate with --threads {threads} to compare"
        ]
    return []


def _system(device_name: str, slug: str) -> System | None:
    """The system of a slug; for "auto" the calibrated machine if it is this device, otherwise the
    datasheet, otherwise None.
    """
    if slug != "auto":
        return hardware_db.load(slug)
    datasheet, calibrated = _loaded(device_name), _loaded(SLUG)
    names = [device_name, *([datasheet.name] if datasheet else [])]
    if calibrated is not None and any(name in calibrated.name for name in names):
        return calibrated
    return datasheet


def calibrated_threads(device_name: str, slug: str = "auto") -> int:
    """Threads that this machine was calibrated with, 0 where a run is priced with another system.

    Args:
        device_name: name that the device reports.  slug: as in `run_context`.
    """
    system = _system(device_name, slug)
    ours = system is not None and system.slug == SLUG and system.kind == "cpu"
    return int(system.compute_units or 0) if system is not None and ours else 0


def _loaded(name: str) -> System | None:
    try:
        return hardware_db.load(name)
    except RidgelineError:
        return None


# ------------------------------------------------------------------------------- one run


def phase_rows(run: ModelRun, context: RunContext) -> list[dict[str, Any]]:
    """One row per phase: statistics of the repeats, the prediction, MFU and MBU.

    phase, samples, mean_s, std_s, p50_s, p90_s, p99_s; where the run is predicted also bound_s,
    predicted_s, low_s, high_s, inside, error (predicted / median - 1), mfu and mbu, or instead of
    these not_comparable, the reason why one of them would exceed one.
    """
    rows = []
    predicted = _predicted_steps(run, context)
    for name, timing in run.measurement.phases.items():
        row: dict[str, Any] = {
            "phase": name,
            "samples": len(timing.samples_s),
            "mean_s": timing.mean_s,
            "std_s": timing.std_s,
            "p50_s": timing.median_s,
            "p90_s": timing.percentile_s(90),
            "p99_s": timing.percentile_s(99),
        }
        if name in predicted:
            row |= _prediction_figures(name, predicted[name], timing.median_s, context)
        rows.append(row)
    return rows


def _predicted_steps(
    run: ModelRun, context: RunContext
) -> dict[str, tuple[StepEstimate, StepEstimate]]:
    """{phase: (step as the engine runs it, step of the model itself)}; empty without a model or
    a system."""
    if context.model is None or context.system is None:
        return {}
    s = run.settings
    load = Workload(float(s.batch), float(s.isl), float(s.osl))
    as_engine, plain = (
        genz_core.estimate(context.model, context.system, load, engine=engine, on_error="status")
        for engine in (context.engine, replace(context.engine, eager=None))
    )
    return {
        phase: (getattr(as_engine, phase), getattr(plain, phase)) for phase in ("prefill", "decode")
    }


def _prediction_figures(
    phase: str, steps: tuple[StepEstimate, StepEstimate], measured_s: float, context: RunContext
) -> dict[str, Any]:
    """Prediction, interval and error of a step, and the MFU and MBU of its measured time.

    steps: as the engine runs it, and of the model itself, whose FLOPs and bytes count.
    """
    as_engine, plain = steps
    assert context.system is not None
    flops = float((plain.flops[:, 0] * plain.runs).sum())
    moved_bytes = float((plain.bytes[:, 0] * plain.runs).sum())
    peak = context.system.peak_flops_per_s.get(_compute_format(context), _UNKNOWN)
    predicted_s = float(as_engine.total_s[0])
    mfu = flops / (measured_s * peak)
    mbu = moved_bytes / (measured_s * context.system.memory_bytes_per_s)
    figures = {
        **interval_figures(
            phase, predicted_s, float(as_engine.bound_total_s[0]), measured_s, context
        ),
        "error": predicted_s / measured_s - 1.0,
    }
    if max(mfu, mbu) * BELOW_BOUND > 1.0:
        return {**figures, "mfu": None, "mbu": None, "not_comparable": REASON}
    return {**figures, "mfu": mfu, "mbu": mbu}


def interval_figures(
    phase: str, predicted_s: float, bound_s: float, measured_s: float, context: RunContext
) -> dict[str, Any]:
    """Bound and prediction of a step, its 80 % interval, and whether the measurement lies
    inside.
    """
    figure = "prefill_s" if phase == "prefill" else "decode_step_s"
    system = context.system
    interval = _intervals(context)[figure] if system else None
    latency = Ranged.of(predicted_s, interval, bound_s)
    return {
        "bound_s": bound_s,
        "predicted_s": predicted_s,
        "low_s": latency.low,
        "high_s": latency.high,
        "inside": lies_inside(latency.low, latency.high, measured_s),
    }


def _intervals(context: RunContext) -> Mapping[str, Interval | None]:
    """The intervals of a run's single steps; none for a model, split or format that was never
    measured.
    """
    assert context.system is not None
    if context.model is None:
        return intervals.of_load(context.system, context.engine)
    of = of_split("batch", context.engine.name, context.model, context.split, {})
    return intervals.of_load(context.system, context.engine, of)


def _compute_format(context: RunContext) -> str:
    """The number format whose peak MFU refers to: that of the weights, otherwise bf16."""
    fmt = context.model.precision.weight("") if context.model else "bf16"
    return fmt if context.system and fmt in context.system.peak_flops_per_s else "bf16"


# ------------------------------------------------------------------------------- many steps


def step_rows(steps: Sequence[MeasuredStep], context: RunContext) -> list[dict[str, Any]]:
    """One row per step with its prediction; NaN where memory ran out or nothing is predicted.

    phase, batch, length, status, measured_s (median), spread, repeats, bound_s, predicted_s,
    low_s, high_s, inside and error (predicted / measured - 1).
    """
    return [_step_row(step, context) for step in steps]


def _step_row(step: MeasuredStep, context: RunContext) -> dict[str, Any]:
    predicted_s = bound_s = _UNKNOWN
    if context.model is not None and context.system is not None:
        predicted_s, bound_s = predict_step(context.model, context.system, context.engine, step)
    measured_s = step.median_s
    return {
        "phase": step.point.phase,
        "batch": step.point.batch,
        "length": step.point.length,
        "status": step.status,
        "measured_s": measured_s,
        "spread": step.spread,
        "repeats": len(step.samples_s),
        **interval_figures(step.point.phase, predicted_s, bound_s, measured_s, context),
        "error": predicted_s / measured_s - 1.0,
    }


def predict_step(
    model: Model, system: System, engine: EngineProfile, step: MeasuredStep
) -> tuple[float, float]:
    """Predicted seconds of a step as the engine runs it, and its bound [s]."""
    batch, split = float(step.point.batch), Parallelism()
    if step.point.phase == "prefill":
        load = Workload(batch, float(step.point.length), 1.0)
        priced = prefill(model, system, load, split, engine)
    else:
        priced = decode_step(model, system, batch, step.context, split, engine)
    return float(priced.total_s[0]), float(priced.bound_total_s[0])


def agreements(rows: Sequence[Mapping[str, Any]]) -> dict[str, Agreement]:
    """R², errors and the fitted line of predicted against measured, per phase and for "all" rows.

    rows: with phase, predicted_s and measured_s, from `step_rows`.
    """
    groups = {"all": list(rows)}
    for row in rows:
        groups.setdefault(str(row["phase"]), []).append(row)
    return {
        name: agreement(
            np.array([row["predicted_s"] for row in group]),
            np.array([row["measured_s"] for row in group]),
        )
        for name, group in groups.items()
    }
