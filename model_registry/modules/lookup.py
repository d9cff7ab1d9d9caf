"""Entries from the database where it has them, else derived and kept there."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from genz_core.errors import UnknownName
from model_registry.modules import derivation, store
from model_registry.modules.entry import Entry


def class_entry(class_path: str, *, again: bool = False) -> Entry:
    """The entry of one class.  again: derive it though the database has it.

    Raises:
        RidgelineError: as `derivation.derive`.
    """
    steps = class_path.split(".")
    default = steps[2] if steps[:2] == ["transformers", "models"] and len(steps) > 2 else ""
    if not again:
        with contextlib.suppress(UnknownName):
            found = store.read(class_path, default)
            if found.module == class_path and _is_current(found):
                return found
    entry = derivation.derive(class_path)
    store.save(entry)
    return entry


def model_entries(config: Mapping[str, Any], *, again: bool = False) -> list[Entry]:
    """Entries of every module class of a model, at the model's sizes.

    Raises:
        RidgelineError: as `derivation.derive_model`.
    """
    found = store.of_model(store.model_key(config))
    if found and not again and all(map(_is_current, found)):
        return found
    entries = derivation.derive_model(config)
    for entry in entries:
        store.save(entry)
    return entries


def missing(config: Mapping[str, Any]) -> list[str]:
    """Module classes of a model that the database does not hold at the model's sizes."""
    held = store.of_model(store.model_key(config))
    current = {entry.module for entry in held if _is_current(entry)}
    if held and len(current) == len(held):
        return []
    return sorted(set(derivation.module_classes(config)) - current)


def _is_current(entry: Entry) -> bool:
    """Whether the class comes from the version that is installed, or none is installed."""
    package = entry.module.partition(".")[0]
    try:
        return entry.source.endswith(f"({package} {version(package).partition('+')[0]})")
    except PackageNotFoundError:
        return True
