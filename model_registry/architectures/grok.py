"""Grok-1: eight wide experts, norms in front and behind, one table for both ends."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, layer_count, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("grok-1")
def grok(config: Config) -> ModelSpec:
    """Attention and experts, each between two norms."""
    layer = Layer((attention(config), mixture(config)), norms="both")
    return decoder(config, [layer] * layer_count(config), tied=True)
