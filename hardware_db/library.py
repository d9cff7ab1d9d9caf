"""The systems on disk: those that ship, and the user's own.

A user's systems lie in `systems/` of the data folder: `$RIDGELINE_DATA`, else the platform's
usual place.  A file there is read like any other, under the slug that is its file name.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, RidgelineError, UnknownSystem
from hardware_db import document, lookup, schema

SHIPPED = Path(__file__).parent / "systems"
_MAX_INCLUDES = 4


def data_folder() -> Path:
    """The user's data folder; it need not exist."""
    if chosen := os.environ.get("RIDGELINE_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "ridgeline"


@cache
def shipped() -> Mapping[str, Path]:
    """{slug: file} of the systems that come with the package."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def own() -> dict[str, Path]:
    """{slug: file} of the user's systems."""
    found = sorted((data_folder() / "systems").glob("*.yaml"))
    return {path.stem: path for path in found if path.is_file()}


def stamp() -> frozenset[tuple[Path, int]]:
    """The user's own systems, profiles, engines and recipes as they are now: files and times."""
    folder = data_folder()
    kinds = ("systems/*.yaml", "profiles/*.yaml", "engines/*.yaml", "recipes.csv")
    found = (path for kind in kinds for path in folder.glob(kind))
    return frozenset((path, path.stat().st_mtime_ns) for path in found)


def files() -> dict[str, Path]:
    """{slug: file} of all systems; a user's file stands in for a shipped one of its name."""
    return {**shipped(), **own()}


def read(path: Path) -> schema.Record:
    """The record in a file, the document it includes laid beneath it.

    Raises:
        InvalidValue: the file cannot be read or does not fit the schema.
    """
    return complete(_parsed(path), path.name)


@lru_cache(maxsize=512)
def _kept(path: Path, _modified: int) -> schema.Record:
    form = read(path)
    if form.id != path.stem:
        raise InvalidValue(f"{path.name} states id {form.id!r}; name the file {form.id}.yaml")
    return form


def _parsed(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            raw = file.read(document.MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidValue(f"{path} is not UTF-8 text") from None
    return document.parse(text, path.name)


def complete(data: Mapping[str, Any], label: str) -> schema.Record:
    """A document as a record, over the shipped system that it includes, if any."""
    merged = dict(data)
    for _ in range(_MAX_INCLUDES):
        base = merged.pop("include", None)
        if base is None:
            return schema.record(merged, label)
        merged = document.overlay(_included(base, label), merged)
    raise InvalidValue(f"{label} includes through more than {_MAX_INCLUDES} files")


def _included(base: object, label: str) -> dict[str, Any]:
    """A shipped document without what is its own alone: aliases and remarks."""
    known, name = shipped(), str(base)
    if name not in known:
        raise UnknownSystem("system", name, known, f"{label} includes it; name a shipped one.")
    data = _parsed(known[name])
    return {key: value for key, value in data.items() if key not in ("aliases", "notes", "price")}


def find(name: str) -> schema.Record:
    """The record of a slug or alias.

    Raises:
        UnknownSystem: no system of that name.
        InvalidValue: its file (the user's own) does not fit the schema.
    """
    mine = tuple((path, path.stat().st_mtime_ns) for path in own().values())
    entries, table = _directory(mine)
    slug = lookup.resolve(name, entries, table)
    own_file = next((entry for entry in mine if entry[0].stem == slug), None)
    return _kept(*(own_file or (shipped()[slug], 0)))


@lru_cache(maxsize=4)
def _directory(
    mine: tuple[tuple[Path, int], ...],
) -> tuple[tuple[lookup.Entry, ...], dict[str, str]]:
    """What the lookup knows: slugs before other names, shipped systems before the user's own."""
    replaced = {path.stem for path, _ in mine}
    paths = [(path, 0) for slug, path in shipped().items() if slug not in replaced]
    known = tuple(_entry(path, modified) for path, modified in (*paths, *mine))
    slugs = [lookup.Entry(entry.slug, (entry.slug,), frozenset()) for entry in known]
    return known, lookup.index([*slugs, *known])


def _entry(path: Path, modified: int) -> lookup.Entry:
    """A user's file that does not fit the schema is known by its slug alone."""
    try:
        form = _kept(path, modified)
    except RidgelineError:
        return lookup.Entry(path.stem, (path.stem,), frozenset())
    sizes = [f"{fact.value:g}gb" for fact in (form.memory_gb, form.memory_gib) if fact]
    traits = lookup.parts(" ".join([form.family, form.memory_type or "", *sizes]))
    return lookup.Entry(form.id, (form.id, form.name, *form.aliases), traits)
