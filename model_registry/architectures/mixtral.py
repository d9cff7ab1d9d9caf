"""Mixtral: Mistral's attention, eight experts in place of the feed-forward (arXiv:2401.04088)."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("mixtral")
def mixtral(config: Config) -> ModelSpec:
    """Experts in every layer; a sliding window over all layers in the first release."""
    window = config.integer("sliding_window", 0)
    return decoder(config, Layer((attention(config, window=window), mixture(config))))
