"""Shipped models that many tests read, loaded and traced once per session."""

from functools import cache

import pytest

import model_registry
from genz_core.types import Precision
from model_registry.finding.catalog import shipped_models
from model_registry.graph.model import DescribedModel
from model_registry.modules import derive_model
from model_registry.modules.entry import ModuleEntry
from model_registry.quantization.resolve import resolve_precision
from model_registry.tracing import TracedModel, trace
from tests.model_registry.tracing_cases import tiny


@cache
def built(name: str, weights: str = "", kv: str = "") -> DescribedModel:
    """A shipped model as its builder describes it."""
    model = model_registry.load(name, weights=weights, kv=kv)
    assert isinstance(model, DescribedModel)
    return model


@cache
def traced(name: str) -> TracedModel:
    """A shipped model as traced from transformers' own code; skips the test if that is missing."""
    pytest.importorskip("transformers")
    config = shipped_models()[name].config()
    return trace(config, name=name, hf_quant_config=config.get("hf_quant_config"))


@cache
def checkpoint_precision(name: str) -> Precision:
    """The formats of a shipped checkpoint."""
    return resolve_precision(shipped_models()[name].config())


@cache
def derived(model_type: str, intermediate_size: int = 96) -> tuple[ModuleEntry, ...]:
    """Entries of the module classes of a tiny model."""
    return tuple(derive_model({**tiny(model_type), "intermediate_size": intermediate_size}))
