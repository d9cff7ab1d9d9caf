"""Architectures by `model_type`: each family's file registers a reader, and is found
automatically.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path

from genz_core.errors import UnsupportedModel
from model_registry import architectures
from model_registry.graph.keys import Config
from model_registry.graph.vision import with_vision
from model_registry.spec import ModelSpec

Family = Callable[[Config], ModelSpec]
_FAMILIES: dict[str, Family] = {}


def architecture(*model_types: str) -> Callable[[Family], Family]:
    """Register a function `config -> ModelSpec` for these model types.

    Raises:
        ValueError: a model type that already has a function.
    """

    def register(family: Family) -> Family:
        for model_type in model_types:
            if model_type in _FAMILIES:
                raise ValueError(f"model_type {model_type!r} is registered twice")
            _FAMILIES[model_type] = family
        return family

    return register


def model_types() -> list[str]:
    """Every model type that some family's file describes, in alphabetical order."""
    _import_families()
    return sorted(_FAMILIES)


def is_described(model_type: str) -> bool:
    """Whether some family's file describes a model type; only files that name it are imported."""
    if model_type not in _FAMILIES:
        for folder in map(Path, architectures.__path__):
            for path in sorted(folder.glob("*.py")):
                if f'"{model_type}"' in path.read_text("utf-8"):
                    importlib.import_module(f"{architectures.__name__}.{path.stem}")
    return model_type in _FAMILIES


def read_spec(config: Config) -> ModelSpec:
    """The spec of a config, its image encoder included.

    Raises:
        UnsupportedModel: an unknown model type, or keys that are not understood.
        InvalidValue: missing or impossible sizes.
    """
    model_type = config.model_type
    if not is_described(model_type):
        near = ", ".join(difflib.get_close_matches(model_type, model_types(), n=4, cutoff=0.4))
        raise UnsupportedModel(
            f"{config.name}: no architecture is registered for model_type {model_type!r}"
            f"{f'; near: {near}' if near else ''}. Describe it in model_registry/architectures/"
        )
    spec = _FAMILIES[model_type](config)
    config.refuse_unknown()
    return with_vision(spec, config)


@functools.cache
def _import_families() -> None:
    for module in pkgutil.iter_modules(architectures.__path__):
        importlib.import_module(f"{architectures.__name__}.{module.name}")
