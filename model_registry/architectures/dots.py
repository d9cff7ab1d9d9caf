"""dots.llm1: each head has its own keys and values, with fine-grained and shared experts."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forwards, windows
from model_registry.spec import Layer, ModelSpec


@architecture("dots1")
def dots1(config: Config) -> ModelSpec:
    """Norms on the heads of queries and keys; experts after the first layers."""
    config.ignore("max_window_layers", "use_sliding_window")
    layers = [
        Layer((attention(config, norm="head", window=window), block))
        for window, block in zip(windows(config), feed_forwards(config), strict=True)
    ]
    return decoder(config, layers)
