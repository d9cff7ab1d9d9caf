"""Hardware and serving engines: sourced figures as YAML, read into the engine's types.

`load("h100")` gives the `System` for a slug, an alias, a marketing name, a YAML file or a mapping;
`facts("h100")` gives the same with the source of every number;  `load_yaml(text)` reads an uploaded
document; `what_if(system, bandwidth=2)` scales a system's resources; `load_engine("vllm")` gives an
`EngineProfile` with its measurements.

    system_files  system_schema  lookup       systems: files, schema, names
    mig            memory_stacks              slices of a device, memory of other generations
    rental/                                   rents by market, instance types of clouds
    engine_files  engine_schema  recipes      engines: files, schema, measured factors
    profiles/     profile_schema              fitted latency constants of a system
    intervals     tables       acceptance     intervals of predictions, tables that ship, drafts
    data_folder   own_files                   the user's own files: place, what is left out
    user_files    whole_file                  writers of them
    sourced                                   a number with its source, and its unit
    yaml_document schema_errors               parsing and validation of documents
    report        fit/                        the page of systems, the fit of the profiles
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue
from genz_core.limits import brief
from genz_core.systems import System
from hardware_db import mig, recipes, system_files, yaml_document
from hardware_db.engine_files import (
    GENERIC,
    default_engine,
    engine_facts,
    engine_names,
    engines_for,
    era_facts,
    load_engine,
    own_engines,
    ran_otherwise,
    require_runs_on,
)
from hardware_db.engine_schema import EngineRecord
from hardware_db.own_files import LeftOutWarning
from hardware_db.profile_schema import fitted_profile
from hardware_db.profiles import load_profile, own_profiles
from hardware_db.sourced_facts import Fact, Source
from hardware_db.system_schema import SystemRecord
from hardware_db.what_if import is_hypothetical, what_if

__all__ = [
    "GENERIC",
    "EngineRecord",
    "Fact",
    "LeftOutWarning",
    "Source",
    "SystemRecord",
    "default_engine",
    "engine_facts",
    "engine_names",
    "engines_for",
    "era_facts",
    "facts",
    "is_hypothetical",
    "left_out",
    "load",
    "load_engine",
    "load_yaml",
    "names",
    "ran_otherwise",
    "require_runs_on",
    "spellings",
    "variants",
    "what_if",
]


def names() -> list[str]:
    """Slugs of all systems that can be loaded, shipped ones and the user's own."""
    return system_files.slugs()


def variants(name: str) -> tuple[str, ...]:
    """Slugs of the systems that match a name; the first is the one that is used.

    >>> variants("H100")
    ('h100-sxm5-80gb', 'h100-nvl-94gb', 'h100-pcie-80gb')

    Raises:
        UnknownSystem: no system has that name.
    """
    return system_files.variants(name)


def spellings() -> Mapping[str, str]:
    """{name: slug}: every name of every system, as written and as one word."""
    return system_files.spellings()


def left_out() -> tuple[str, ...]:
    """Sentences on why some of the user's own files are left out of predictions."""
    readers = system_files.own_systems, own_engines, own_profiles, recipes.own_recipes
    return tuple(sentence for read in readers for sentence in read().left_out.values())


def facts(name: str) -> SystemRecord:
    """Every figure of a system with its source, kind and note.

    Args:
        name: a slug, a full name or an alias.

    Raises:
        UnknownSystem: no system has that name; the near ones are listed.
    """
    return system_files.find(name)


def load(system: str | Path | Mapping[str, Any]) -> System:
    """A system in the engine's types, SI units, with its latency constants.

    Args:
        system: a slug, an alias or the beginning of one, also of a MIG slice ("NVIDIA H100 80GB
            HBM3 MIG 1g.10gb"), which opens only files of the library; the `Path` of a YAML file, or
            a mapping of the same form.

    Raises:
        UnknownSystem: no system has that name, or several fit; they or the near ones are listed.
        InvalidValue: a document that does not fit the schema, or an object of another type.
    """
    if isinstance(system, Mapping):
        return _with_constants(system_files.complete(system, "the system"))
    if isinstance(system, Path):
        return _with_constants(system_files.read(system))
    if not isinstance(system, str):
        raise InvalidValue(
            f"system = {brief(system)}: give a name, a path or the content of a system's YAML"
        )
    part = mig.parsed(system)
    device = part.device if part else system
    whole = _with_constants(system_files.find(device))
    if said := system_files.note(device):
        whole = replace(whole, notes=(said,))
    return mig.sliced(whole, part) if part else whole


def load_yaml(text: str, profile: str = "") -> System:
    """A system from the text of an uploaded or typed document, which is treated as untrusted.

    Args:
        profile: text of the latency profile that was fitted for it, "" for the one found in the
            library.

    Raises:
        InvalidValue: one sentence on the first key that does not fit.
    """
    record = system_files.complete(yaml_document.parse(text), "the YAML")
    if not profile:
        return _with_constants(record)
    fitted = fitted_profile(yaml_document.parse(profile), "the profile", "measured")
    system = record.system()
    return replace(system, latency=load_profile(system, fitted))


def _with_constants(record: SystemRecord) -> System:
    """The system of a record, with the latency profile that applies to it."""
    system = record.system()
    return replace(system, latency=load_profile(system))
