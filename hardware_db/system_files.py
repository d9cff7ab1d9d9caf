"""System files: shipped ones, the user's own in `systems/` of the data folder, and others.

A user's file is read like a shipped one, under the slug that is its file name, and replaces a
shipped system of that name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, reduce
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, RidgelineError, UnknownSystem
from hardware_db import lookup, rental, yaml_document
from hardware_db.data_folder import data_folders, dated_files
from hardware_db.own_files import OwnFiles, read_all, read_text
from hardware_db.system_schema import SystemRecord, system_record

SHIPPED = Path(__file__).parent / "systems"
_MAX_INCLUDES = 4
#: Keys of a shipped document that are not inherited by a document that includes it.
_NOT_INHERITED = ("aliases", "notes", "price", "instances")
#: Keys that say nothing of the device itself: a document with no other ones has the device of the
#: document that it includes.
_BESIDE_THE_DEVICE = frozenset(
    {"include", "id", "name", "aliases", "notes", "sources", "price", "instances"}
    | {"links", "host", "second_memory"}
)
#: Entries of a shipped document that hold its names; each ends before the next line that starts a
#: key.
_NAMES = re.compile(r"^(?:id|name|aliases):.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


@cache
def shipped() -> Mapping[str, Path]:
    """{slug: file} of the systems that come with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def own() -> dict[str, tuple[Path, int]]:
    """{slug: (file, modification time [ns])} of the user's systems."""
    folders = (dated_files(folder, "systems/*.yaml") for folder in data_folders())
    return {path.stem: (path, modified) for found in folders for path, modified in found}


def own_systems() -> OwnFiles[SystemRecord]:
    """The user's own systems, without damaged ones."""
    return read_all("systems/*.yaml", _record, "fix it or move it away")


def slugs() -> list[str]:
    """Slugs of all systems that can be loaded, shipped ones and the user's own."""
    own_files = own_systems().announced()
    return sorted({*shipped(), *own_files.records} - set(own_files.left_out))


def read(path: Path) -> SystemRecord:
    """The record in a file, merged with the shipped document that it includes.

    A shipped system gets its rental prices and the instance types that carry it.

    Raises:
        InvalidValue: the file cannot be read or does not fit the schema.
    """
    data = _parsed(path)
    if path.parent == SHIPPED:
        data = yaml_document.overlay(data, rental.document(path.stem))
    return complete(data, path.name)


def complete(data: Mapping[str, Any], label: str) -> SystemRecord:
    """The record of a document, merged with the shipped document that it includes, if any.

    Args:
        data: keys and values as in a system's YAML.
        label: name of the document in messages.

    Raises:
        InvalidValue: the document does not fit the schema, or includes too deeply.
        UnknownSystem: the included system does not ship.
    """
    documents = [dict(data)]
    device_of = ""
    for _ in range(_MAX_INCLUDES):
        same_device = all(document.keys() <= _BESIDE_THE_DEVICE for document in documents)
        base = documents[-1].pop("include", None)
        if base is None:
            # the innermost first, so that a null removes what any document below it states
            merged = reduce(yaml_document.overlay, reversed(documents))
            return system_record({"device_of": device_of, **merged}, label)
        device_of = str(base) if same_device else device_of
        documents.append(_included(base, label))
    raise InvalidValue(f"{label} includes through more than {_MAX_INCLUDES} files")


def find(name: str) -> SystemRecord:
    """The record of a slug, a full name, an alias or the beginning of one.

    Raises:
        UnknownSystem: no system has that name, or several fit.
        InvalidValue: its file (the user's own) does not fit the schema.
    """
    own_files = tuple(own().values())
    slug = _found(name, own_files).slug
    own_file = next((file for file in own_files if file[0].stem == slug), None)
    return _record(*(own_file or (shipped()[slug], 0)))


def note(name: str) -> str:
    """How an ambiguous or partial name was understood; "" for an exact one.

    Raises:
        UnknownSystem: as `find`.
    """
    return _found(name, tuple(own().values())).note


def variants(name: str) -> tuple[str, ...]:
    """Slugs of the systems that match a name; the first is the one that is used.

    Raises:
        UnknownSystem: as `find`.
    """
    found = _found(name, tuple(own().values()))
    return (found.slug, *found.others)


def spellings() -> Mapping[str, str]:
    """{name: slug}: every name of every system, as written and as one word."""
    own_files = tuple(own().values())
    slugs = _slugs_by_name(own_files)
    written = (name for system in _named_systems(own_files) for name in system.names)
    return {name: slugs[lookup.fold(name)] for name in written} | dict(slugs)


@lru_cache(maxsize=1024)
def _found(name: str, own_files: tuple[tuple[Path, int], ...]) -> lookup.Found:
    """The system that a name stands for; cached errors are raised as new objects."""
    if name in shipped() or any(path.stem == name for path, _ in own_files):
        return lookup.Found(name)  # a slug as it is written: no other file needs to be read
    slug = lookup.exact(name, _slugs_by_name(own_files))
    if slug is None:  # words of a name, or none
        return lookup.resolve(name, _directory(own_files), {})
    return lookup.found(name, slug, _named_systems(own_files))


@lru_cache(maxsize=512)
def _record(path: Path, _modified: int) -> SystemRecord:
    """The record in a file, whose name must be its id; cached by the file's modification time."""
    record = read(path)
    if record.id != path.stem:
        raise InvalidValue(f"{path.name} states id {record.id!r}; name the file {record.id}.yaml")
    return record


def _parsed(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file of bounded size."""
    return yaml_document.parse(read_text(path, str(path)), path.name)


def _included(base: object, label: str) -> dict[str, Any]:
    """The shipped document `base`, without the keys that are not inherited."""
    names, name = shipped(), str(base)
    if name not in names:
        raise UnknownSystem("system", name, names, f"{label} includes it; name a shipped one.")
    data = _parsed(names[name])
    return {key: value for key, value in data.items() if key not in _NOT_INHERITED}


def _files(own_files: tuple[tuple[Path, int], ...]) -> Iterator[tuple[Path, int]]:
    """Shipped files that no user's file replaces, followed by the user's files."""
    replaced = {path.stem for path, _ in own_files}
    yield from ((path, 0) for slug, path in shipped().items() if slug not in replaced)
    yield from own_files


@lru_cache(maxsize=4)
def _slugs_by_name(own_files: tuple[tuple[Path, int], ...]) -> dict[str, str]:
    """{folded name: slug} of all systems.

    Slugs take precedence over other names, shipped systems over the user's own, and these over the
    instance types of clouds.
    """
    named = _named_systems(own_files)
    slugs = [lookup.NamedSystem(entry.slug, (entry.slug,)) for entry in named]
    types = rental.instance_names().items()
    instances = [lookup.NamedSystem(slug, names) for slug, names in types]
    return lookup.index([*slugs, *named, *instances])


@lru_cache(maxsize=4)
def _named_systems(own_files: tuple[tuple[Path, int], ...]) -> tuple[lookup.NamedSystem, ...]:
    """The names of all systems."""
    return tuple(_named(path, modified) for path, modified in _files(own_files))


def _named(path: Path, modified: int) -> lookup.NamedSystem:
    """The names of the system in a file; for a shipped one, without reading the rest of
    the file.
    """
    if path.parent != SHIPPED:
        return _described(path, modified)
    entries = "".join(_NAMES.findall(path.read_text(encoding="utf-8")))
    names = yaml_document.parse(entries, path.name, ships=True)
    return lookup.NamedSystem(names["id"], (names["id"], names["name"], *names.get("aliases", ())))


@lru_cache(maxsize=4)
def _directory(own_files: tuple[tuple[Path, int], ...]) -> tuple[lookup.NamedSystem, ...]:
    """All systems with their names, and the words that describe them."""
    return tuple(_described(path, modified) for path, modified in _files(own_files))


def _described(path: Path, modified: int) -> lookup.NamedSystem:
    """Names and traits of the system in a file; only its slug if it does not fit the schema."""
    try:
        record = _record(path, modified)
    except RidgelineError:
        return lookup.NamedSystem(path.stem, (path.stem,))
    sizes = [f"{fact.value:g}gb" for fact in (record.memory_gb, record.memory_gib) if fact]
    traits = lookup.parts(" ".join([record.family, record.memory_type or "", *sizes]))
    return lookup.NamedSystem(record.id, (record.id, record.name, *record.aliases), traits)
