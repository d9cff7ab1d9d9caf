"""Files of the module database: entries that ship, and entries that a user derived.

A class by itself has one file; a module of a model has one for each model that it was derived in,
because its formulas hold at that model's sizes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, UnknownName
from model_registry.modules.entry import ModuleEntry
from model_registry.tracing import program_cache

SHIPPED = Path(__file__).parent / "database"
_HASHED = re.compile(r"-[0-9a-f]{12}$")
_NAME = re.compile(r"[A-Za-z_][\w.]*(@[\w.-]+)?")


def model_key(config: Mapping[str, Any]) -> str:
    """A key for the sizes of a config: its type, and a hash of its other keys if it has any."""
    model_type = str(config.get("model_type", ""))
    if set(config) <= {"model_type"}:
        return model_type
    text = json.dumps(config, sort_keys=True, default=str)
    return f"{model_type}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def own_folder() -> Path:
    """The folder of entries that a user derived, beside the traces in the cache folder."""
    return program_cache.traces_folder().parent / "modules"


def _files(model: str = "") -> Iterator[Path]:
    """Files of entries, the user's before those that ship.

    model: key of the model they were derived in; "" for all.
    """
    for folder in (own_folder(), SHIPPED):
        for path in sorted(folder.glob("*.json")):
            if model in ("", path.stem.partition("@")[2]):
                yield path


def _class_of(path: Path) -> str:
    return path.stem.partition("@")[0]


def _rank(path: Path) -> int:
    """Order of preference: a class by itself, at a default config's sizes, at a model's."""
    if "@" not in path.stem:
        return 0
    return 2 if _HASHED.search(path.stem) else 1


def _entry(path: Path) -> ModuleEntry:
    try:
        return ModuleEntry.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(f"{path} is not an entry of the module database: {error!r}") from None


def entry_names() -> list[str]:
    """Full class paths of every entry."""
    return sorted({_class_of(path) for path in _files()})


def stored_names() -> list[tuple[str, str]]:
    """(class path, key of the model whose sizes it has or "") of every entry, in order."""
    return sorted({(_class_of(path), path.stem.partition("@")[2]) for path in _files()})


def read_entry(name: str, model: str = "") -> ModuleEntry:
    """The entry of a class, by its full path or its bare name.

    model: key of the model whose sizes it has; "" for the class by itself, otherwise for the sizes
    of a default config, otherwise for any sizes.

    Raises:
        UnknownName: no such entry; near names are listed.
        InvalidValue: its file was damaged.
    """
    paths = list(_files(model))
    spellings = {path: (_class_of(path), _class_of(path).rpartition(".")[2]) for path in paths}
    if named := [path for path in paths if name in spellings[path]]:
        return _entry(min(named, key=_rank))
    near = sorted({spelling for both in spellings.values() for spelling in both})
    argument = "--model MODEL" if model else "CLASS"
    raise UnknownName("module", name, near, f"Derive it: ridgeline modules derive {argument}")


def entries_of_model(key: str) -> list[ModuleEntry]:
    """Entries derived in the model with that key; a user's replace shipped ones."""
    files: dict[str, Path] = {}
    for path in _files(key) if key else ():
        files.setdefault(_class_of(path), path)
    return [_entry(path) for path in files.values()]


def save_entry(entry: ModuleEntry, folder: Path | None = None) -> Path:
    """Write an entry as JSON and return its file.

    The validation of the entry that it replaces is kept if the formulas are the same.
    folder: None for the user's.
    """
    target, key = folder or own_folder(), str(entry.sizes.get("model", ""))
    name = f"{entry.module}@{key}" if key else entry.module
    if not _NAME.fullmatch(name):
        raise UnknownName("module", name)
    path = target / f"{name}.json"
    if path.is_file() and not entry.validated:
        before = _entry(path)
        if before.formulas == entry.formulas:
            entry = replace(entry, validated=before.validated)
    target.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(entry.to_json(), indent=1) + "\n", encoding="utf-8")
    return path


def validate_entry(name: str, by: str, on: date, model: str = "") -> Path:
    """Record in the user's copy of an entry who compared its formulas with the source, and when.

    Raises:
        UnknownName: no such entry.
        InvalidValue: nobody is named, or the file was damaged.
    """
    if not by.strip():
        raise InvalidValue("say who compared the formulas with the source: --by NAME")
    validated = {"by": by.strip(), "on": on.isoformat()}
    return save_entry(replace(read_entry(name, model), validated=validated))
