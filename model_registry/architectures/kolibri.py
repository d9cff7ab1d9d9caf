"""Kolibri 1: four windowed layers for each full one, experts and a shared one in every layer."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, mixture, windows
from model_registry.spec import Layer, ModelSpec


@architecture("kolibri1")
def kolibri1(config: Config) -> ModelSpec:
    """Norms on the heads of queries and keys."""
    layers = [
        Layer((attention(config, norm="head", window=window), mixture(config)), norms="both")
        for window in windows(config, every=5)
    ]
    return decoder(config, layers)
