"""System files: those that ship, the user's own in `systems/` of the data folder, and others.

A user's file is read like a shipped one, under the slug that is its file name, and stands in for
a shipped system of that name.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, RidgelineError, UnknownSystem
from hardware_db import lookup, rental, yaml_document
from hardware_db.data_folder import data_folders, dated_files
from hardware_db.own_files import OwnFiles, read_all, read_text
from hardware_db.system_schema import SystemRecord, system_record

SHIPPED = Path(__file__).parent / "systems"
_MAX_INCLUDES = 4
#: Keys of a shipped document that a document which includes it does not inherit.
_NOT_INHERITED = ("aliases", "notes", "price", "instances")


@cache
def shipped() -> Mapping[str, Path]:
    """{slug: file} of the systems that come with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def own() -> dict[str, tuple[Path, int]]:
    """{slug: file and the time of its last change [ns]} of the user's systems."""
    folders = (dated_files(folder, "systems/*.yaml") for folder in data_folders())
    return {path.stem: (path, modified) for found in folders for path, modified in found}


def own_systems() -> OwnFiles[SystemRecord]:
    """The user's own systems but for damaged ones."""
    return read_all("systems/*.yaml", _record, "mend it or move it away")


def slugs() -> list[str]:
    """Slugs of all systems that can be loaded, shipped ones and the user's own."""
    own_files = own_systems().announced()
    return sorted({*shipped(), *own_files.records} - set(own_files.left_out))


def read(path: Path) -> SystemRecord:
    """The record in a file, laid over the shipped document that it includes.

    A shipped system gets its rental prices and the instance types that carry it.

    Raises:
        InvalidValue: the file cannot be read or does not fit the schema.
    """
    data = _parsed(path)
    if path.parent == SHIPPED:
        data = yaml_document.overlay(data, rental.document(path.stem))
    return complete(data, path.name)


def complete(data: Mapping[str, Any], label: str) -> SystemRecord:
    """The record of a document, laid over the shipped document that it includes, if any.

    Args:
        data: keys and values as in a system's YAML.
        label: name of the document in messages.

    Raises:
        InvalidValue: the document does not fit the schema, or includes too deeply.
        UnknownSystem: the included system does not ship.
    """
    merged = dict(data)
    for _ in range(_MAX_INCLUDES):
        base = merged.pop("include", None)
        if base is None:
            return system_record(merged, label)
        merged = yaml_document.overlay(_included(base, label), merged)
    raise InvalidValue(f"{label} includes through more than {_MAX_INCLUDES} files")


def find(name: str) -> SystemRecord:
    """The record of a slug, a full name or an alias.

    Raises:
        UnknownSystem: no system has that name.
        InvalidValue: its file (the user's own) does not fit the schema.
    """
    own_files = tuple(own().values())
    systems, slugs = _directory(own_files)
    slug = lookup.resolve(name, systems, slugs)
    own_file = next((file for file in own_files if file[0].stem == slug), None)
    return _record(*(own_file or (shipped()[slug], 0)))


@lru_cache(maxsize=512)
def _record(path: Path, _modified: int) -> SystemRecord:
    """The record in a file, whose name must be its id; cached by the time of its last change."""
    record = read(path)
    if record.id != path.stem:
        raise InvalidValue(f"{path.name} states id {record.id!r}; name the file {record.id}.yaml")
    return record


def _parsed(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file of bounded size."""
    return yaml_document.parse(read_text(path, str(path)), path.name)


def _included(base: object, label: str) -> dict[str, Any]:
    """The shipped document `base` but for the keys that belong to it alone."""
    names, name = shipped(), str(base)
    if name not in names:
        raise UnknownSystem("system", name, names, f"{label} includes it; name a shipped one.")
    data = _parsed(names[name])
    return {key: value for key, value in data.items() if key not in _NOT_INHERITED}


@lru_cache(maxsize=4)
def _directory(
    own_files: tuple[tuple[Path, int], ...],
) -> tuple[tuple[lookup.NamedSystem, ...], dict[str, str]]:
    """All systems with their names, and {folded name: slug}.

    Slugs come before other names, shipped systems before the user's own, and those before the
    instance types of clouds.
    """
    replaced = {path.stem for path, _ in own_files}
    paths = [(path, 0) for slug, path in shipped().items() if slug not in replaced]
    systems = tuple(_named(path, modified) for path, modified in (*paths, *own_files))
    slugs = [lookup.NamedSystem(entry.slug, (entry.slug,), frozenset()) for entry in systems]
    instances = [
        lookup.NamedSystem(slug, names, frozenset())
        for slug, names in rental.instance_names().items()
    ]
    return systems, lookup.index([*slugs, *systems, *instances])


def _named(path: Path, modified: int) -> lookup.NamedSystem:
    """Names and traits of the system in a file; its slug alone if it does not fit the schema."""
    try:
        record = _record(path, modified)
    except RidgelineError:
        return lookup.NamedSystem(path.stem, (path.stem,), frozenset())
    sizes = [f"{fact.value:g}gb" for fact in (record.memory_gb, record.memory_gib) if fact]
    traits = lookup.parts(" ".join([record.family, record.memory_type or "", *sizes]))
    return lookup.NamedSystem(record.id, (record.id, record.name, *record.aliases), traits)
