"""Apertus: a plain feed-forward whose activation has two learned parameters."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward
from model_registry.spec import Layer, ModelSpec


@architecture("apertus")
def apertus(config: Config) -> ModelSpec:
    """Llama's attention with norms on the heads, xIELU in the feed-forward."""
    block = feed_forward(config, gated=False, activation_weights=2)
    return decoder(config, Layer((attention(config, norm="head"), block)))
