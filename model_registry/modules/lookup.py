"""Entries of classes and models: read from the database, or derived and stored in it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from genz_core.errors import UnknownName
from model_registry.modules import derivation, store
from model_registry.modules.entry import ModuleEntry


def class_entry(class_path: str, *, inputs: str = "", again: bool = False) -> ModuleEntry:
    """The entry of one class, or of a call such as "SiLU()"; a call's entry is not stored.

    again: derive it even if the database has it.

    Raises:
        RidgelineError: as `derivation.derive_class`.
    """
    if "(" in class_path or inputs:
        return derivation.derive_class(class_path, inputs)
    steps = class_path.split(".")
    default = steps[2] if steps[:2] == ["transformers", "models"] and len(steps) > 2 else ""
    if not again:
        with contextlib.suppress(UnknownName):
            stored = store.read_entry(class_path, default)
            if stored.module == class_path and _is_current(stored):
                return stored
    entry = derivation.derive_class(class_path)
    store.save_entry(entry)
    return entry


def model_entries(config: Mapping[str, Any], *, again: bool = False) -> list[ModuleEntry]:
    """Entries of every module class of a model, at the model's sizes.

    again: derive them even if the database has them.

    Raises:
        RidgelineError: as `derivation.derive_model`.
    """
    stored = store.entries_of_model(store.model_key(config))
    if stored and not again and all(map(_is_current, stored)):
        return stored
    entries = derivation.derive_model(config)
    for entry in entries:
        store.save_entry(entry)
    return entries


def missing_classes(config: Mapping[str, Any]) -> list[str]:
    """Module classes of a model that the database does not hold at the model's sizes."""
    stored = store.entries_of_model(store.model_key(config))
    current = {entry.module for entry in stored if _is_current(entry)}
    if stored and len(current) == len(stored):
        return []
    return sorted(set(derivation.module_classes(config)) - current)


def _is_current(entry: ModuleEntry) -> bool:
    """Whether an entry is of the installed version of its package, or the package is not
    installed.
    """
    package = entry.module.partition(".")[0]
    try:
        return entry.source.endswith(f"({package} {version(package).partition('+')[0]})")
    except PackageNotFoundError:
        return True
