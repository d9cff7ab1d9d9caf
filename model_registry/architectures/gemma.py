"""Gemma 1 to 3: wide heads, one table for input and output, norms before and after, local
layers.
"""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, windows
from model_registry.spec import Layer, ModelSpec


@architecture("gemma")
def gemma(config: Config) -> ModelSpec:
    """Llama's layer with wide heads and one table for input and output."""
    return decoder(config, Layer((attention(config), feed_forward(config))), tied=True)


@architecture("gemma2")
def gemma2(config: Config) -> ModelSpec:
    """Every other layer, starting with the first, attends only to a window."""
    layers = [
        Layer((attention(config, window=window), feed_forward(config)), norms="both")
        for window in windows(config, every=2)
    ]
    return decoder(config, layers, tied=True)


@architecture("gemma3_text")
def gemma3(config: Config) -> ModelSpec:
    """Five windowed layers for each full one, norms on queries and keys."""
    config.ignore("use_bidirectional_attention")
    every = config.integer("sliding_window_pattern", config.integer("_sliding_window_pattern", 6))
    layers = [
        Layer((attention(config, norm="head", window=window), feed_forward(config)), norms="both")
        for window in windows(config, every=every)
    ]
    return decoder(config, layers, tied=True)


@architecture("vaultgemma")
def vaultgemma(config: Config) -> ModelSpec:
    """Gemma 2 without the norms behind its blocks."""
    layers = [
        Layer((attention(config, window=window), feed_forward(config)))
        for window in windows(config, every=2)
    ]
    return decoder(config, layers, tied=True)
