"""Runs on this machine beside what the models predict for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import genz_core
import hardware_db
import model_registry
from app.calibration import machine
from app.scenario import intervals
from app.scenario.intervals import Latency
from app.scenario.scenario import as_measured
from genz_core.eager import as_run
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.types import EngineProfile, Model, Parallelism, System, Workload
from genz_core.workload import decode_step, prefill
from model_registry.finding.lookup import resolve_name
from profilers.collect.agreement import Agreement, agreement
from profilers.collect.building import RunSettings
from profilers.collect.machine import SLUG
from profilers.collect.model import ModelRun
from profilers.compare import lies_inside
from profilers.steps import MeasuredStep

_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.safetensors.index.json")
_FORMATS: Mapping[str, str] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
}


def raw_config(name: str, checkpoint: bool = False) -> dict[str, Any] | str:
    """What transformers needs to build a model: a config for random weights, or a checkpoint.

    A folder with weights is a checkpoint, and so is "hf:owner/name"; a registry name is its
    config, unless `checkpoint` asks for the hub's weights.

    Raises:
        UnknownModel, InvalidValue: no such model, or a config that cannot be read.
    """
    import json

    if name.startswith("hf:"):
        return name.removeprefix("hf:")
    path = Path(name).expanduser()
    if path.is_dir() and any(found for glob in _WEIGHT_FILES for found in path.glob(glob)):
        return str(path)
    file = path / "config.json" if path.is_dir() else path
    if file.suffix == ".json" or path.is_dir():
        try:
            return {"_id": path.stem, **json.loads(file.read_text(encoding="utf-8"))}
        except (OSError, ValueError, TypeError) as error:
            raise InvalidValue(f"{file} is no config.json: {error}") from None
    entry = resolve_name(name)
    return entry.id if checkpoint else {"_id": entry.id, **entry.config()}


def cut(settings: RunSettings) -> RunSettings:
    """The same run of a model that has only the layers it was cut to."""
    from dataclasses import replace

    config = settings.config
    if not settings.layers or isinstance(config, str) or "num_hidden_layers" not in config:
        return settings
    whole = config["num_hidden_layers"]
    short = {
        key: value[: settings.layers] if isinstance(value, list) and len(value) == whole else value
        for key, value in config.items()
    }
    return replace(settings, config={**short, "num_hidden_layers": settings.layers})


@dataclass(frozen=True, slots=True)
class Setting:
    """What predictions of a run rest on; None where nothing is known of it.

    notes: what is missing and how to get it.  split: the devices that share the model.
    """

    model: Model | None
    system: System | None
    engine: EngineProfile
    notes: tuple[str, ...] = ()
    split: Parallelism = field(default_factory=Parallelism)


def setting(
    settings: RunSettings, device_name: str, system: str = "auto", threads: int = 0
) -> Setting:
    """Model, system and engine that stand for a run.

    system: a slug, or "auto" for the calibrated machine, else the datasheet of the GPU's name.
    threads: of the CPU that ran, 0 where they do not matter.
    """
    notes = []
    try:
        fmt = _FORMATS.get(settings.dtype, "bf16")
        model: Model | None = model_registry.load(
            settings.config, weights=fmt, kv=fmt, activations=fmt
        )
    except RidgelineError as error:
        model = None
        notes.append(f"no prediction: {error}")
    found = _system(device_name, system)
    if found is None:
        notes.append(
            f"nothing is known of {device_name}: run `ridgeline calibrate machine` for "
            "predictions, MFU and MBU"
        )
    elif found.kind == "cpu" and threads and found.slug == SLUG and found.units != threads:
        notes.append(
            f"this machine was calibrated with {found.units} threads and ran with {threads}; "
            f"calibrate with --threads {threads} to compare"
        )
    name = "hf-compile" if settings.compile else "hf"
    if found is not None and found.slug == SLUG and not settings.compile:
        name = machine.ENGINE
    engine = hardware_db.load_engine(name)
    if model is not None and found is not None:
        engine, _ = as_measured(engine, model, found)
    return Setting(model, found, engine, tuple(notes))


def _system(device_name: str, asked: str) -> System | None:
    if asked != "auto":
        return hardware_db.load(asked)
    known = _loaded(device_name)
    calibrated = _loaded(SLUG)
    names = [device_name, *([known.name] if known else [])]
    if calibrated is not None and any(name in calibrated.name for name in names):
        return calibrated
    return known


def _loaded(name: str) -> System | None:
    try:
        return hardware_db.load(name)
    except RidgelineError:
        return None


# ------------------------------------------------------------------------------- one run


def phase_rows(run: ModelRun, known: Setting) -> list[dict[str, Any]]:
    """A row a phase: statistics of the repeats, the prediction beside them, MFU and MBU."""
    rows = []
    predicted = _predictions(run, known)
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
            rows.append(row | _beside(name, predicted[name], timing.median_s, known))
        else:
            rows.append(row)
    return rows


def _predictions(run: ModelRun, known: Setting) -> dict[str, tuple[Any, Any]]:
    """{phase: (step as the engine runs it, step of the model itself)}."""
    if known.model is None or known.system is None:
        return {}
    s = run.settings
    load = Workload(float(s.batch), float(s.isl), float(s.osl))
    as_engine, plain = (
        genz_core.estimate(model, known.system, load, engine=known.engine)
        for model in (as_run(known.model, known.engine), known.model)
    )
    return {
        phase: (getattr(as_engine, phase), getattr(plain, phase)) for phase in ("prefill", "decode")
    }


def _beside(name: str, steps: tuple[Any, Any], measured_s: float, known: Setting) -> dict[str, Any]:
    as_engine, plain = steps
    assert known.system is not None
    runs = plain.runs
    flops = float((plain.flops[:, 0] * runs).sum())
    moved = float((plain.bytes[:, 0] * runs).sum())
    peak = known.system.peak_flops_per_s.get(_compute(known), float("nan"))
    predicted = float(as_engine.total_s[0])
    return {
        **_trusted(name, predicted, float(plain.bound_total_s[0]), measured_s, known),
        "error": predicted / measured_s - 1.0,
        "mfu": flops / (measured_s * peak),
        "mbu": moved / (measured_s * known.system.memory_bytes_per_s),
    }


def _trusted(
    phase: str, predicted_s: float, bound_s: float, measured_s: float, known: Setting
) -> dict[str, Any]:
    """Bound and prediction of a step, its 80 % interval and whether the measurement is inside."""
    name = "prefill_s" if phase == "prefill" else "decode_step_s"
    found = intervals.of_load(known.system, known.engine)[name] if known.system else None
    one = Latency.of(predicted_s, found, bound_s)
    return {
        "bound_s": bound_s,
        "predicted_s": predicted_s,
        "low_s": one.low_s,
        "high_s": one.high_s,
        "inside": lies_inside(one.low_s, one.high_s, measured_s),
    }


def _compute(known: Setting) -> str:
    fmt = known.model.precision.weight("") if known.model else "bf16"
    return fmt if known.system and fmt in known.system.peak_flops_per_s else "bf16"


# ------------------------------------------------------------------------------- many steps


def step_rows(steps: Sequence[MeasuredStep], known: Setting) -> list[dict[str, Any]]:
    """A row a step with its prediction; times are null where memory ran out."""
    return [_step_row(step, known) for step in steps]


def _step_row(step: MeasuredStep, known: Setting) -> dict[str, Any]:
    predicted = bound = float("nan")
    if known.model is not None and known.system is not None:
        predicted, bound = predict_step(known.model, known.system, known.engine, step)
    measured = step.median_s
    return {
        "phase": step.point.phase,
        "batch": step.point.batch,
        "length": step.point.length,
        "status": step.status,
        "measured_s": measured,
        "spread": step.spread,
        "repeats": len(step.samples_s),
        **_trusted(step.point.phase, predicted, bound, measured, known),
        "error": predicted / measured - 1.0,
    }


def predict_step(
    model: Model, system: System, engine: EngineProfile, step: MeasuredStep
) -> tuple[float, float]:
    """Predicted seconds of a step as the engine runs it, and the bound of the model [s]."""
    batch, split = float(step.point.batch), Parallelism()
    models = (as_run(model, engine), model)
    if step.point.phase == "prefill":
        load = Workload(batch, float(step.point.length), 1.0)
        priced, least = (prefill(m, system, load, split, engine) for m in models)
    else:
        priced, least = (decode_step(m, system, batch, step.context, split, engine) for m in models)
    return float(priced.total_s[0]), float(least.bound_total_s[0])


def agreements(rows: Sequence[Mapping[str, Any]]) -> dict[str, Agreement]:
    """R², MAPE and the fitted line per phase, and over all rows."""
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
