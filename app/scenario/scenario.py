"""A question's deployment: its names looked up, its limits and factors applied, and its price.

Names in, an `Estimate` out.  Models and systems are combined here; nothing here draws or prints.  A
name is looked up among shipped ones and the user's own and opens no other file; callers that may
name files pass `app.scenario.local_files.sources` to `app.question.query.ask`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

import genz_core
import hardware_db
import model_registry
from app.question.groups import FORMATS, WHAT_IF
from app.question.parameters import in_group
from app.question.question import SPLIT, STANDARD, Question
from app.scenario.format_notes import format_notes
from app.scenario.gate import with_contexts
from app.scenario.inputs import input_notes, reading
from app.scenario.known_systems import find_system
from app.scenario.rents import rent_of
from genz_core import EngineProfile, Estimate, System, Workload
from genz_core.common.memo import ByIdentity
from genz_core.deployment import OF_STEPS, as_server, deploy
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.models.model_kinds import prompt_tokens
from genz_core.serving.load_checks import real_lengths
from genz_core.serving.options import Options
from genz_core.validity import OnError
from genz_core.workload import WITH_TIMES
from hardware_db import data_folder
from model_registry.finding.hub import HubModel
from model_registry.finding.sources import ModelSource

#: Factors on a system's resources.
FACTORS = in_group(WHAT_IF)
_NAMED = ("model", "system", "engine")
_PLACING = (
    *_NAMED, "engine_version", *in_group(FORMATS), *FACTORS, "price", "memory_fraction",
    "max_num_batched_tokens", "chunked_prefill",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Resolved:
    """A question with its names looked up, as deployed.

    model: in the formats that the engine keeps.  engine: as measured with this model and system.
    profile: of the engine on any system.  notes: assumptions, in words.
    prefill_system: of the prefill pool, where it is given as an object or a file.
    """

    scenario: Question
    model: Model
    system: System
    engine: EngineProfile
    profile: EngineProfile
    notes: tuple[str, ...]
    prefill_system: Any = ""


def resolve(question: Question, objects: Mapping[str, Any] | None = None) -> Resolved:
    """Look up model, system and engine.

    objects: model, system or engine that replace the question's names, by parameter: names, files
    or objects.

    Raises:
        RidgelineError: an unknown name or precision, a file that cannot be read; the message names
            the near ones.
    """
    given = {name: getattr(question, name) for name in _NAMED}
    given |= {name: one for name, one in (objects or {}).items() if name in _NAMED}
    if all(isinstance(one, str) for one in given.values()):
        return asking(_kept(placing(question, **given), data_folder.stamp()), question)
    model = find_model(given["model"], question.precisions)
    return combined(question, model, find_system(given["system"]), engine=given["engine"])


def placing(question: Question, **given: Any) -> Question:
    """The question without its sizes, degrees and inputs: only names, limits and factors.

    given: parameters instead of the question's.
    """
    kept = {name: getattr(question, name) for name in _PLACING} | given
    if question.kind != "batch":
        kept["max_num_batched_tokens"] = 0  # a limit that belongs to the load
    return replace(STANDARD, **kept)


@lru_cache(maxsize=16)
def _kept(question: Question, _stamp: frozenset[tuple[Path, int]]) -> Resolved:
    """A question's names looked up; cached until one of the user's own files changes."""
    model = find_model(question.model, question.precisions)
    return combined(question, model, find_system(question.system))


def find_model(model: ModelSource | Model, formats: Mapping[str, str] | None = None) -> Model:
    """A model by name, file or config, or given as an object; in other number formats where these
    are given.

    Raises:
        RidgelineError: an unknown name or precision, a file that cannot be read.
    """
    formats = formats or {}
    if isinstance(model, (str, Path, HubModel, Mapping)):
        return model_registry.load(model, **formats)
    return model_registry.in_formats(model, **formats) if formats else model


def combined(
    scenario: Question,
    model: Model,
    system: System,
    *,
    engine: str | EngineProfile | None = None,
) -> Resolved:
    """A scenario deployed with a given model and system.

    engine: a name or a profile, None for the scenario's.
    """
    name = scenario.engine if engine is None else engine
    version = scenario.engine_version
    if isinstance(name, str) and not name.strip():
        name = hardware_db.default_engine(system)
    if isinstance(name, str):
        formats = model.precision.weights.values()
        hardware_db.require_runs_on(name, system, version, formats)
    profile = name if isinstance(name, EngineProfile) else hardware_db.load_engine(name, version)
    factors = {name: getattr(scenario, name) for name in FACTORS}
    if any(factor != 1.0 for factor in factors.values()):
        system = hardware_db.what_if(system, **factors)
    if (rent := rent_of(scenario.price, system)) is not None:
        system = replace(system, price_usd_per_hour=rent)
    deployed = deploy(model, system, profile)
    said = engine_notes(profile) if isinstance(name, str) else ()
    stored = format_notes(deployed.model, system, deployed.engine.products)
    notes = (*model.notes, *system.notes, *stored, *deployed.notes, *said)
    whole = Resolved(scenario, deployed.model, system, deployed.engine, profile, notes)
    return asking(whole, scenario)


def asking(resolved: Resolved, scenario: Question) -> Resolved:
    """A resolved deployment under another question with the same `placing`: other sizes and inputs.

    Under load, the engine is the server that starts on the system, with its settings.

    Raises:
        InvalidValue: inputs that the model cannot read.
    """
    model = reading(resolved.model, scenario)
    before = input_notes(resolved.model, resolved.scenario)
    notes = tuple(note for note in resolved.notes if note not in before)
    return replace(
        resolved,
        scenario=scenario,
        model=model,
        engine=told(resolved.engine, scenario, resolved.system),
        notes=(*notes, *input_notes(model, scenario)),
    )


def told(engine: EngineProfile, question: Question, system: System) -> EngineProfile:
    """An engine with the question's share of memory, with prompts that are cut or not, as the
    question says, and with the token budget of a static batch's step.

    Under load it is a server that starts on the system, and the limits of a step are part of the
    load, see `served_rows.serve_resolved`.  It is the same object for the same values.

    Raises:
        InvalidValue: `chunked_prefill` of an engine without such an option.
    """
    batch = question.kind == "batch"
    budget = question.max_num_batched_tokens if batch else 0
    return _TOLD.get(
        lambda: _told(engine, question, system), engine, system,
        values=(batch, question.memory_fraction, question.chunked_prefill, budget),
    )  # fmt: skip


_TOLD: ByIdentity[EngineProfile] = ByIdentity(64)


def _told(engine: EngineProfile, question: Question, system: System) -> EngineProfile:
    if question.kind != "batch":
        engine = as_server(engine, system)
    engine = Options(memory_fraction=question.memory_fraction).with_memory(engine)
    if question.chunked_prefill:
        engine = engine.cutting_prompts(question.chunked_prefill == "yes")
    if question.kind == "batch" and question.max_num_batched_tokens:
        return replace(engine, chunk_tokens=question.max_num_batched_tokens)
    return engine


def moved(resolved: Resolved, system: System) -> Resolved:
    """A deployment on another system, with the defaults that its server chooses by the memory of a
    device there; settings of the question override them.
    """
    profile, question = resolved.profile, resolved.scenario
    server = as_server(profile, system)
    if server is profile:  # it chooses nothing
        return replace(resolved, system=system)
    names = {name for start in profile.on_start for name in start.on(system.memory_bytes)}
    if question.kind == "batch":
        names &= OF_STEPS  # the others are those of a server
    engine = replace(resolved.engine, **{name: getattr(server, name) for name in names})
    return replace(resolved, system=system, engine=told(engine, question, system))


def basis(resolved: Resolved) -> str:
    """A phrase on the measurements behind the constants of engine and system."""
    engine = resolved.engine
    phrase = _BASIS[engine.measured_on].format(engine=engine.name, points=engine.recipe.points)
    carried = engine.measured_on and hardware_db.is_hypothetical(resolved.system)
    return f"{phrase}, applied to hypothetical hardware" if carried else phrase


_BASIS = {
    "own": "calibrated with your own runs ({points} under load)",
    "own_few": "calibrated with few runs of your own ({points} under load)",
    "recipe": "corrected by {points} measured runs of this model here",
    "device": "{engine} as measured on this device with other models",
    "": "{engine}'s profile, not measured on this device",
}


def engine_notes(engine: EngineProfile) -> tuple[str, ...]:
    """Notes on an engine's version: its era, and whether it was measured."""
    spelled, said = f"{engine.name} {engine.version}", list[str]()
    if engine.era:
        era = hardware_db.era_facts(engine.name, engine.era)
        said.append(f"{spelled} uses the constants of releases up to {era.until}: {era.changed}")
    if engine.unmeasured:
        span = engine.versions or "other releases"
        said.append(f"no run of {spelled} was measured ({span} was): the intervals are wider")
    return tuple(said)


def estimate(scenario: Question, **arrays: Any) -> Estimate:
    """Price a question.  `arrays` replace batch, isl, osl or a degree by arrays."""
    return estimate_resolved(resolve(scenario), **arrays)


def estimate_resolved(
    resolved: Resolved, on_error: OnError = "raise", /, **arrays: Any
) -> Estimate:
    """Price a static batch whose names have been looked up.

    Configurations that cannot be split get a reason code each; a single one raises its error unless
    `on_error` is "status".
    One that does not fit on its devices or in the model's positions keeps its times, with a reason
    code in its status. Lengths drawn with a `length_ratio` are priced at their mean.

    arrays: replace the question's numbers; those that only a load has are ignored.  "cached":
    tokens of each prompt that are in the cache before.

    Raises:
        InvalidParallelism: degrees that do not divide the model.
        InvalidValue: an array of token limits.
    """
    question, limits = resolved.scenario, np.ravel(arrays.get("max_num_batched_tokens", 0))
    if np.any(limits != limits[0]):
        raise InvalidValue("a static batch takes one value of max_num_batched_tokens, not an array")
    if limits[0]:
        question = replace(question, max_num_batched_tokens=int(limits[0]))
    ratio = np.asarray(arrays.get("length_ratio", question.length_ratio or 1.0))
    isl, osl = (arrays.get(name, getattr(question, name)) for name in ("isl", "osl"))
    whole = isl, osl
    if np.any(ratio != 1.0):
        mean = real_lengths(Workload(1.0, isl, osl), ratio)
        isl, osl = np.round(mean.isl), np.round(mean.osl)
    shape = np.broadcast_shapes(*(np.shape(values) for values in arrays.values()))
    batch = arrays.get("batch", question.batch)
    # as many as the arrays that are not priced have
    rows = np.broadcast_to(batch, shape) if shape else batch
    tokens = prompt_tokens(resolved.model, isl)
    workload = Workload(rows, tokens, osl, arrays.get("cached", 0))
    split = {name: values for name, values in arrays.items() if name in SPLIT}
    priced = genz_core.estimate(
        resolved.model,
        resolved.system,
        workload,
        replace(question.parallelism, **split),
        told(resolved.engine, question, resolved.system),
        spill=cast(Any, question.offload or None),
        on_error="status",
    )
    if on_error == "raise" and not arrays:
        priced.raise_for_status(ignore=WITH_TIMES)
    return with_contexts(priced, *whole)
