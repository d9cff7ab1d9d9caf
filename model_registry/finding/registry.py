"""Architectures by `model_type`: a family's file registers a reader and is found by being there."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable

from genz_core.errors import UnsupportedModel
from model_registry.graph.keys import Config
from model_registry.graph.vision import with_vision
from model_registry.spec import ModelSpec

Family = Callable[[Config], ModelSpec]
_FAMILIES: dict[str, Family] = {}


def architecture(*model_types: str) -> Callable[[Family], Family]:
    """Register `config -> ModelSpec` for these model types; each may have one only."""

    def register(family: Family) -> Family:
        for model_type in model_types:
            if model_type in _FAMILIES:
                raise ValueError(f"model_type {model_type!r} is registered twice")
            _FAMILIES[model_type] = family
        return family

    return register


def model_types() -> list[str]:
    """Every model type that is understood."""
    _import_families()
    return sorted(_FAMILIES)


def read(config: Config) -> ModelSpec:
    """The spec of a config.

    Raises:
        UnsupportedModel: an unknown model type, or keys that nobody understands.
        InvalidValue: missing or impossible sizes.
    """
    known, wanted = model_types(), config.model_type
    if wanted not in _FAMILIES:
        near = ", ".join(_near(wanted, known))
        raise UnsupportedModel(
            f"{config.name}: no architecture is registered for model_type {wanted!r}"
            f"{f'; near: {near}' if near else ''}. Describe it in model_registry/architectures/"
        )
    spec = _FAMILIES[wanted](config)
    config.refuse_unknown()
    return with_vision(spec, config)


def _near(wanted: str, known: list[str]) -> list[str]:
    import difflib

    return difflib.get_close_matches(wanted, known, n=4, cutoff=0.4)


def _import_families() -> None:
    from model_registry import architectures

    for module in pkgutil.iter_modules(architectures.__path__):
        importlib.import_module(f"{architectures.__name__}.{module.name}")
