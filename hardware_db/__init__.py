"""Hardware: sourced datasheet facts as YAML, read into the engine's `System`.

`load("h100")` gives the System behind a slug, an alias or a marketing name, a YAML file or a
mapping; `facts("h100")` the same with the source of every number; `load_yaml(text)` reads an
uploaded document; `what_if(system, bandwidth=2)` scales a system's resources.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from genz_core.types import System
from hardware_db import document, library
from hardware_db.engine_schema import engine_facts, engine_names, load_engine
from hardware_db.intervals import (
    Interval,
    load_interval,
    load_operator_interval,
    validated_tier,
)
from hardware_db.profiles import load_profile
from hardware_db.recipes import forget_recipe, keep_recipe, load_recipe
from hardware_db.schema import Fact, Record, Source, unit_of
from hardware_db.what_if import is_hypothetical, what_if

__all__ = [
    "Fact",
    "Interval",
    "Record",
    "Source",
    "engine_facts",
    "engine_names",
    "facts",
    "forget_recipe",
    "is_hypothetical",
    "keep_recipe",
    "load",
    "load_engine",
    "load_interval",
    "load_operator_interval",
    "load_profile",
    "load_recipe",
    "load_yaml",
    "names",
    "unit_of",
    "validated_tier",
    "what_if",
]


def names() -> list[str]:
    """The slugs of all systems, the shipped ones and the user's own."""
    return sorted(library.files())


def facts(name: str) -> Record:
    """Every figure of a system with its source, kind and note.

    Raises:
        UnknownSystem: no system of that name; the near ones are named.
    """
    return library.find(name)


def load(system: str | Path | Mapping[str, Any]) -> System:
    """A system in the engine's terms, SI units.

    Args:
        system: a slug, an alias, a path to a YAML file (it ends in .yaml or .yml), or a mapping
            of the same form.

    Raises:
        UnknownSystem: no system of that name; the near ones are named.
        InvalidValue: a document that does not fit the schema.
    """
    if isinstance(system, Mapping):
        return _calibrated(library.complete(system, "the system"))
    if str(system).endswith((".yaml", ".yml")):
        return _calibrated(library.read(Path(system)))
    return _calibrated(library.find(str(system)))


def load_yaml(text: str) -> System:
    """A system from an uploaded or typed document, which is not trusted.

    Raises:
        InvalidValue: one sentence on what does not fit.
    """
    return _calibrated(library.complete(document.parse(text), "the YAML"))


def _calibrated(record: Record) -> System:
    """The record in the engine's terms, with the latency profile that applies to it."""
    system = record.system()
    return replace(system, latency=load_profile(system))
