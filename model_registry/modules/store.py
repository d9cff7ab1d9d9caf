"""Where entries lie: those that ship, and those that a user derived.

A class alone is one file; a module of a model is one for each model it was derived in, because
its formulas hold at that model's sizes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, UnknownName
from model_registry.modules.entry import Entry
from model_registry.tracing import cache

SHIPPED = Path(__file__).parent / "database"
_HASHED = re.compile(r"-[0-9a-f]{12}$")
_NAME = re.compile(r"[A-Za-z_][\w.]*(@[\w.-]+)?")


def model_key(config: Mapping[str, Any]) -> str:
    """What tells the sizes of a config apart: its type where the class's defaults are all it has,
    else its type and a hash of what it says.
    """
    model_type = str(config.get("model_type", ""))
    if set(config) <= {"model_type"}:
        return model_type
    text = json.dumps(config, sort_keys=True, default=str)
    return f"{model_type}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def own_folder() -> Path:
    """Entries that a user derived, beside the traces in the cache folder."""
    return cache.folder().parent / "modules"


def _files(model: str = "") -> Iterator[Path]:
    """Files of entries, the user's own before those that ship.

    model: only those derived in the model of that key; "" for all.
    """
    for folder in (own_folder(), SHIPPED):
        for path in sorted(folder.glob("*.json")):
            if model in ("", path.stem.partition("@")[2]):
                yield path


def _class_of(path: Path) -> str:
    return path.stem.partition("@")[0]


def _rank(path: Path) -> int:
    """A class alone before one at default sizes before one at a model's."""
    if "@" not in path.stem:
        return 0
    return 2 if _HASHED.search(path.stem) else 1


def _entry(path: Path) -> Entry:
    try:
        return Entry.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(f"{path} is no entry of the module database: {error!r}") from None


def known() -> list[str]:
    """Full class paths of every entry."""
    return sorted({_class_of(path) for path in _files()})


def read(name: str, model: str = "") -> Entry:
    """The entry of a class, by its full path or its bare name.

    model: the key of the model whose sizes it has; "" for the class alone, else at the sizes of
    a default config, else at any.

    Raises:
        UnknownName: no such entry; near names are listed.
        InvalidValue: its file was damaged.
    """
    paths = list(_files(model))
    spellings = {path: (_class_of(path), _class_of(path).rpartition(".")[2]) for path in paths}
    if named := [path for path in paths if name in spellings[path]]:
        return _entry(min(named, key=_rank))
    near = sorted({spelling for both in spellings.values() for spelling in both})
    asked = "--model MODEL" if model else "CLASS"
    raise UnknownName("module", name, near, f"Derive it: ridgeline modules derive {asked}")


def of_model(key: str) -> list[Entry]:
    """Entries that were derived in the model of that key, a user's own in place of those that
    ship; none where nobody derived them.
    """
    found: dict[str, Path] = {}
    for path in _files(key) if key else ():
        found.setdefault(_class_of(path), path)
    return [_entry(path) for path in found.values()]


def save(entry: Entry, folder: Path | None = None) -> Path:
    """Write an entry as JSON; returns the file.

    What a person has validated stays validated while the formulas are the same.
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
