"""The inputs of a kept run's prediction, stored with it: its model's config, its system and its
engine.

model/NAME.json    the config that the model was built from
machine/*.yaml     system, latency profile and engine, if they came from the user's own files
prompts.jsonl      tokens of the prompts and their answers
priced.json        the names of system and engine, the degree, and how many layers ran

A folder may come from another machine, so nothing in it refers to a file outside of it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import hardware_db
import model_registry
from app.measuring.outcome import Outcome, settings_of
from app.measuring.prediction import FORMATS, RunContext, cut_config, run_context
from genz_core.deployment import as_measured
from genz_core.engine import EngineProfile
from genz_core.errors import MeasurementError, RidgelineError, UnknownEngine, UnknownModel
from genz_core.systems import System
from genz_core.types import Parallelism
from hardware_db import engine_schema, system_files, yaml_document
from hardware_db.data_folder import data_folders
from hardware_db.own_files import read_text
from model_registry.finding.hub import hub_id
from model_registry.finding.lookup import only_begins
from model_registry.finding.sources import json_object
from profilers import Measurement
from profilers.collect.measured_model import RunSettings
from profilers.runs.run_config import RunConfig

#: File with the lengths of the prompts that a run answered.
PROMPTS = "prompts.jsonl"
_MODEL, _MACHINE, _PRICED = "model", "machine", "priced.json"
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def keep_sources(outcome: Outcome, config: RunConfig, folder: Path) -> RunConfig:
    """Write the inputs of a run's prediction into its folder.

    Returns the configuration that repeats the run from that folder on any machine.  Its model is
    the stored config, unless it has the name of a shipped model; a system of the user's own is left
    out.

    Raises:
        MeasurementError: the folder cannot be written.
    """
    if not (config.model.name or config.model.path):
        return config  # reports that were made on another machine
    source = settings_of(config).config
    try:
        written = _write_model(source, folder)
        _write_machine(outcome.context, folder)
        if outcome.prompts:
            sizes = ({key: row[key] for key in ("id", "isl", "osl")} for row in outcome.prompts)
            lines = "".join(f"{json.dumps(one)}\n" for one in sizes)  # without the texts
            (folder / PROMPTS).write_text(lines, encoding="utf-8")
        document = _priced_document(outcome, config)
        (folder / _PRICED).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise MeasurementError(f"{folder} cannot be written: {error.strerror}") from None
    if config.prompts.files:
        again = {"files": [PROMPTS], "samples": 0, "shuffle": False}
        config = config.with_fields(prompts=again)
    # the name is unknown elsewhere; priced.json keeps it
    if config.predict.system in system_files.own():
        config = config.with_fields(predict={"system": "auto"})
    if written and (config.model.path or hub_id(config.model.name)):
        config = config.with_fields(model={"name": "", "path": written})
    return config


def _write_model(source: Mapping[str, Any] | str, folder: Path) -> str:
    """Write the config of a model; returns its path in the folder, "" for a checkpoint."""
    if isinstance(source, str):
        return ""
    stem = _NOT_A_NAME.sub("-", str(source.get("_id") or "config")).strip(".-")[:80] or "config"
    place = Path(_MODEL) / f"{stem}.json"
    (folder / _MODEL).mkdir(exist_ok=True)
    (folder / place).write_text(json.dumps(source, indent=1) + "\n", encoding="utf-8")
    return place.as_posix()


def _write_machine(context: RunContext, folder: Path) -> None:
    """Copy the user's own files of system, profile and engine."""
    if context.system is None:
        return
    slug, found = context.system.slug, {}
    if slug in system_files.own():
        found["system"] = system_files.own()[slug][0]
    names = {"profile": f"profiles/{slug}.yaml", "engine": f"engines/{context.engine.name}.yaml"}
    for kind, name in names.items():
        files = [file for data in data_folders() if (file := data / name).is_file()]
        found |= {kind: files[-1]} if files else {}
    for kind, file in found.items():
        (folder / _MACHINE).mkdir(exist_ok=True)
        (folder / _MACHINE / f"{kind}.yaml").write_text(read_text(file), encoding="utf-8")


def _priced_document(outcome: Outcome, config: RunConfig) -> dict[str, Any]:
    system = outcome.context.system
    return {
        "system": system.slug if system else "",
        "engine": outcome.context.engine.name,
        "tp": int(float(outcome.context.split.tp)),  # type: ignore[arg-type]
        "layers": 0 if outcome.live is not None else config.model.layers,
    }


# ------------------------------------------------------------------------------- reading


def own_context(folder: Path, measurement: Measurement) -> RunContext:
    """The inputs of a kept run's prediction: those stored with it, otherwise those that it names.

    Notes state what is missing.
    """
    fmt = FORMATS.get(str(measurement.facts.get("dtype", "")), "bf16")
    settings = RunSettings(measurement.model or "", dtype=str(measurement.facts.get("dtype", "")))
    name = measurement.system.name if measurement.system else ""
    try:
        priced = _priced(folder)
        files = sorted((folder / _MODEL).glob("*.json"))
        config = json_object(files[0]) if files else None
        if config is None:
            stated = measurement.model or ""
            model = model_registry.load(stated, weights=fmt, kv=fmt, activations=fmt)
            if only_begins(stated, model.name):
                raise UnknownModel("model", stated, (model.name,))
        else:
            cut = cut_config(config, priced["layers"])
            model = model_registry.load(cut, weights=fmt, kv=fmt, activations=fmt)
    except RidgelineError as error:
        return replace(run_context(settings, name), model=None, notes=_unknown("model", error))
    try:
        engine = _kept_engine(folder, priced["engine"] or measurement.engine or "")
    except UnknownEngine as error:
        said = _unknown("engine", error, ", so nothing is predicted")
        return RunContext(None, None, hardware_db.load_engine(), said)
    try:
        system = _kept_system(folder, priced["system"], name)
    except RidgelineError as error:
        return RunContext(model, None, engine, _unknown("system", error))
    split = Parallelism(tp=priced["tp"])
    return RunContext(model, system, as_measured(engine, model, system), (), split)


def _unknown(what: str, error: RidgelineError, so: str = "") -> tuple[str]:
    return (f"its {what} is not known here{so}: {str(error).rstrip('.')}",)


def _priced(folder: Path) -> dict[str, Any]:
    """priced.json, checked; defaults for older runs without it."""
    known: dict[str, Any] = {"system": "", "engine": "", "tp": 1, "layers": 0}
    file = folder / _PRICED
    if not file.is_file():
        return known
    document = json_object(file)
    for key, default in known.items():
        value = document.get(key, default)
        if type(value) is not type(default) or (key == "tp" and not 1 <= value <= 4096):
            raise MeasurementError(f"{_PRICED} of the run is damaged: {key} is {value!r:.60}")
        known[key] = value
    return known


def _kept_system(folder: Path, slug: str, device: str) -> System:
    file, profile = (folder / _MACHINE / f"{kind}.yaml" for kind in ("system", "profile"))
    if file.is_file():
        text = read_text(profile) if profile.is_file() else ""
        return hardware_db.load_yaml(read_text(file), text)
    if not (slug or device):
        raise MeasurementError("the run does not name its device")
    return hardware_db.load(slug or device)


def _kept_engine(folder: Path, name: str) -> EngineProfile:
    file = folder / _MACHINE / "engine.yaml"
    if not file.is_file():
        return hardware_db.load_engine(name)
    return engine_schema.engine_record(yaml_document.parse(read_text(file)), "its engine").profile()
