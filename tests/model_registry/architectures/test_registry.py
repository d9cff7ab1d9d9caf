"""A family registers its model types once, and is found by its file."""

from pathlib import Path

import pytest

from genz_core.errors import UnsupportedModel
from model_registry import architectures
from model_registry.architectures import registry
from model_registry.architectures.registry import architecture, model_types, read_spec
from model_registry.finding.catalog import shipped_models
from model_registry.graph.keys import Config
from tests.model_registry.tracing_cases import tiny

LLAMA = tiny("llama")


def test_every_file_of_a_family_registers_a_type() -> None:
    files = {path.stem for path in Path(architectures.__path__[0]).glob("*.py")}
    model_types()  # imports every file
    homes = {family.__module__.rpartition(".")[2] for family in registry._FAMILIES.values()}
    assert homes == files - {"__init__", "registry"}


def test_a_type_is_found_in_the_file_that_names_it_without_importing_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = {
        kind: family.__module__ for kind in model_types() if (family := registry._FAMILIES[kind])
    }
    monkeypatch.setattr(registry, "_FAMILIES", {})
    imported: list[str] = []
    monkeypatch.setattr(registry.importlib, "import_module", imported.append)
    for kind, home in every.items():
        imported.clear()
        registry.is_described(kind)
        assert home in imported and len(imported) < 5, kind


def test_every_shipped_model_is_of_a_registered_type() -> None:
    types = {Config(model.config()).model_type for model in shipped_models().values()}
    assert types <= set(model_types())


def test_an_unknown_architecture_is_refused_with_the_near_ones() -> None:
    with pytest.raises(UnsupportedModel, match=r"'lama'; near: llama"):
        read_spec(Config({**LLAMA, "model_type": "lama"}))


def test_an_architecture_is_registered_once() -> None:
    assert "llama" in model_types()
    with pytest.raises(ValueError, match="'llama' is registered twice"):
        architecture("llama")(read_spec)
