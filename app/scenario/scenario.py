"""A scenario: what the sidebar, the command line and a row of the points file all ask.

Names in, an `Estimate` out.  This is where a model meets a system; nothing here draws or prints.
A name is looked up among those that ship and the user's own and reaches no other file: whoever may
name files comes through `app.scenario.local_files`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import genz_core
import hardware_db
import model_registry
from app.scenario.inputs import input_notes, inputs_of, reading
from genz_core import EngineProfile, Estimate, Parallelism, System, Workload
from genz_core.degrees import placed
from genz_core.deployment import deploy
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.model_kinds import prompt_tokens
from genz_core.overlap import OVERLAPS
from genz_core.types import Model
from genz_core.workload import OUT_OF_MEMORY
from hardware_db import data_folder
from model_registry.finding.hub import HubModel
from model_registry.finding.sources import ModelSource

SystemSource = str | Path | Mapping[str, Any]


_SIZES = ("batch", "isl", "osl", "tp", "pp", "dp", "ep", "cp", "moe_tp")
#: What does not fit the device goes to the host, or weights and cache to its second memory.
OFFLOADS = ("weights", "kv", "experts", "levels")


@dataclass(frozen=True, slots=True)
class Scenario:
    """One configuration by name.  Empty strings and None mean "as the checkpoint or engine says".

    model: registry name or Hugging Face id.  system: slug or alias.
    engine_version: a release, a build or a month, see `hardware_db.engine_versions`.
    weights, moe_weights, kv, activations, compute: precisions.  moe_tp None: tp * dp / ep.
    expert_imbalance: routed rows of the busiest ep rank over the mean of all ranks.
    redundant_experts: copies of busy experts.  overlap: "shared_experts" or "two_batch", what runs
    beside the exchange of tokens.  placement: degrees as devices are numbered, inner first
    ("pp tp").
    images, image_size: of each request, and their width x height in pixels.  audio_seconds: of
    sound.  diffusion_steps, block_length: passes for an answer, and tokens refined together; 0 for
    the usual.

    Raises:
        InvalidValue: a size or a degree beyond `genz_core.limits`.
    """

    model: str = "meta-llama/Llama-3.1-8B"
    system: str = "h100-sxm5-80gb"
    engine: str = "generic"
    engine_version: str = ""
    weights: str = ""
    moe_weights: str = ""
    kv: str = ""
    activations: str = ""
    compute: str = ""
    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    cp: int = 1
    moe_tp: int | None = None
    expert_imbalance: float = 1.0
    redundant_experts: int = 0
    overlap: str = "none"
    placement: str = ""
    offload: str = ""
    batch: int = 1
    isl: int = 1024
    osl: int = 128
    images: int = 0
    image_size: str = ""
    audio_seconds: float = 0.0
    diffusion_steps: int = 0
    block_length: int = 0

    def __post_init__(self) -> None:
        for name in _SIZES:
            value = getattr(self, name)
            if value is not None:
                checked_size(name, value)
        if self.overlap not in OVERLAPS:
            raise InvalidValue(f"overlap = {self.overlap!r}: choose one of {', '.join(OVERLAPS)}")
        inputs_of(self)

    @property
    def workload(self) -> Workload:
        return Workload(self.batch, self.isl, self.osl)

    @property
    def parallelism(self) -> Parallelism:
        names = ("tp", "pp", "dp", "ep", "cp", "moe_tp", "expert_imbalance", "redundant_experts")
        return Parallelism(
            **{name: getattr(self, name) for name in names},
            overlap=cast(Any, self.overlap),
            order=placed(self.placement.split()),
        )

    @property
    def precisions(self) -> dict[str, str]:
        names = ("weights", "moe_weights", "kv", "activations", "compute")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def changed(self) -> dict[str, Any]:
        """The fields that differ from the default scenario."""
        standard = Scenario()
        pairs = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in pairs.items() if value != getattr(standard, name)}


@dataclass(frozen=True, slots=True)
class Resolved:
    """A scenario with its names looked up, as deployed.

    model: in the formats that the engine keeps.  engine: as measured with this model and system.
    profile: of the engine on any system.  notes: what was assumed on the way, in words.
    """

    scenario: Scenario
    model: Model
    system: System
    engine: EngineProfile
    profile: EngineProfile
    notes: tuple[str, ...]


def resolve(scenario: Scenario) -> Resolved:
    """Look up model, system and engine.

    Raises:
        RidgelineError: an unknown name or precision; the message names the near ones.
    """
    names = (scenario.model, scenario.system, scenario.engine)
    return resolve_objects(scenario, *names, scenario.precisions)


def resolve_objects(
    scenario: Scenario,
    model: ModelSource | Model,
    system: SystemSource | System,
    engine: str | EngineProfile,
    formats: Mapping[str, str],
) -> Resolved:
    """A scenario with the model, system and engine that are meant: names, files or objects.

    formats: number formats that replace the model's, by the names of `Scenario.precisions`.

    Raises:
        RidgelineError: an unknown name or precision, a file that cannot be read.
    """
    formats = {name: fmt for name, fmt in formats.items() if fmt}
    if isinstance(model, str) and isinstance(system, str) and isinstance(engine, str):
        named = model, system, engine, scenario.engine_version
        kept = _kept(*named, tuple(formats.items()), data_folder.stamp())
        return asking(kept, scenario)
    loaded = find_model(model, formats)
    return combined(scenario, loaded, find_system(system), engine=engine)


@lru_cache(maxsize=64)
def _kept(
    model: str,
    system: str,
    engine: str,
    version: str,
    formats: tuple[tuple[str, str], ...],
    _stamp: frozenset[tuple[Path, int]],
) -> Resolved:
    """Names looked up; kept until a file of the user's own changes."""
    loaded = model_registry.load(model, **dict(formats))
    standard = Scenario(engine_version=version)
    return combined(standard, loaded, hardware_db.load(system), engine=engine)


def find_model(model: ModelSource | Model, formats: Mapping[str, str] | None = None) -> Model:
    """A model by name, file or config, or as it is; in other number formats where they are given.

    Raises:
        RidgelineError: an unknown name or precision, a file that cannot be read.
    """
    formats = formats or {}
    if isinstance(model, (str, Path, HubModel, Mapping)):
        return model_registry.load(model, **formats)
    return model_registry.in_formats(model, **formats) if formats else model


def find_system(system: SystemSource | System) -> System:
    """A system by name, file or figures, or as it is.

    Raises:
        RidgelineError: an unknown name, a file that cannot be read.
    """
    return system if isinstance(system, System) else hardware_db.load(system)


def combined(
    scenario: Scenario,
    model: Model,
    system: System,
    *,
    engine: str | EngineProfile | None = None,
    measured: bool = True,
) -> Resolved:
    """A scenario with the model and the system that it means, deployed.

    engine: a name or a profile, None for the scenario's.  measured: whether what was measured on
    a system of that slug holds for it; not so for one that a visitor brought.
    """
    name = scenario.engine if engine is None else engine
    version = scenario.engine_version
    profile = name if isinstance(name, EngineProfile) else hardware_db.load_engine(name, version)
    if not measured:
        profile = replace(profile, measurements=None)
    deployed = deploy(model, system, profile)
    unknown = engine_notes(name, profile) if isinstance(name, str) else ()
    notes = (*model.notes, *deployed.notes, *unknown)
    whole = Resolved(scenario, deployed.model, system, deployed.engine, profile, notes)
    return asking(whole, scenario)


def asking(resolved: Resolved, scenario: Scenario) -> Resolved:
    """What was looked up under another scenario of the same names: its sizes, degrees and inputs.

    Raises:
        InvalidValue: inputs that the model cannot read.
    """
    model = reading(resolved.model, scenario)
    before = input_notes(resolved.model, resolved.scenario)
    notes = tuple(note for note in resolved.notes if note not in before)
    return replace(
        resolved, scenario=scenario, model=model, notes=(*notes, *input_notes(model, scenario))
    )


def basis(resolved: Resolved) -> str:
    """The measurements that the constants of engine and system rest on, as a phrase."""
    engine = resolved.engine
    phrase = _BASIS[engine.measured_on].format(engine=engine.name, points=engine.recipe.points)
    carried = engine.measured_on and hardware_db.is_hypothetical(resolved.system)
    return f"{phrase}, carried over to hardware that nobody has" if carried else phrase


_BASIS = {
    "own": "calibrated with your own runs ({points} under load)",
    "own_few": "calibrated with few runs of your own ({points} under load)",
    "recipe": "corrected by {points} measured runs of this model here",
    "device": "{engine} as measured on this device with other models",
    "": "{engine}'s profile, not measured on this device",
}


def engine_notes(name: str, engine: EngineProfile) -> tuple[str, ...]:
    """What is to be said of an engine's name and version, where something is."""
    if name and engine.name == "generic" and name.strip().casefold() != "generic":
        return (f"engine {name!r} has no profile; priced as generic",)
    spelled, said = f"{engine.name} {engine.version}", list[str]()
    if engine.era:
        era = hardware_db.era_facts(engine.name, engine.era)
        said.append(f"{spelled} is of its era up to {era.until}: {era.changed}")
    if engine.unmeasured:
        span = engine.versions or "other releases"
        said.append(f"no run of {spelled} was measured ({span} was): the intervals are wider")
    return tuple(said)


def estimate(scenario: Scenario, **arrays: Any) -> Estimate:
    """Price a scenario.  `arrays` put arrays in place of batch, isl, osl or a degree."""
    return estimate_resolved(resolve(scenario), **arrays)


def estimate_resolved(resolved: Resolved, **arrays: Any) -> Estimate:
    """Price a scenario whose names are already looked up.

    One configuration that cannot be split raises its error, several have a reason code each; what
    does not fit keeps its times, and says so in its status.

    Raises:
        InvalidValue: an offload other than those of `OFFLOADS`.
        InvalidParallelism: degrees that do not divide the model.
    """
    scenario = resolved.scenario
    load = {name: arrays.pop(name) for name in ("batch", "isl", "osl") if name in arrays}
    workload = replace(scenario.workload, **load)
    workload = replace(workload, isl=prompt_tokens(resolved.model, workload.isl))
    parallelism = replace(scenario.parallelism, **arrays)
    if scenario.offload not in ("", *OFFLOADS):
        raise InvalidValue(
            f"offload = {scenario.offload!r}: choose weights, kv or experts for the host, levels "
            "for the system's second memory, or leave it empty"
        )
    priced = genz_core.estimate(
        resolved.model,
        resolved.system,
        workload,
        parallelism,
        resolved.engine,
        spill=cast(Any, scenario.offload or None),
        on_error="status",
    )
    if not (load or arrays):
        priced.raise_for_status(ignore=(OUT_OF_MEMORY,))
    return priced
