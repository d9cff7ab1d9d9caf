"""Mellum 2: norms on queries and keys, windows, experts in every layer."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, mixture, windows
from model_registry.spec import Layer, ModelSpec


@architecture("mellum")
def mellum(config: Config) -> ModelSpec:
    """Qwen3's mixture under windowed and full layers."""
    config.ignore("intermediate_size", "mlp_layer_types", "mtp_layer_types", "mtp_mlp_layer_types")
    layers = [
        Layer((attention(config, norm="head", window=window), mixture(config)))
        for window in windows(config)
    ]
    return decoder(config, layers)
