"""Command R and Command A: blocks side by side, norms without biases, one table for both ends."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, windows
from model_registry.spec import Layer, ModelSpec


@architecture("cohere")
def cohere(config: Config) -> ModelSpec:
    """Command R; the larger ones norm each head of queries and keys with different weights."""
    norm = "heads" if config.flag("use_qk_norm") else ""
    layer = Layer((attention(config, norm=norm), feed_forward(config)), parallel=True)
    layers = [layer] * layer_count(config)
    return decoder(config, layers, norm="layer_without_bias", tied=True)


@architecture("cohere2")
def cohere2(config: Config) -> ModelSpec:
    """Three windowed layers to a full one, which has no positions."""
    config.ignore("order_of_interleaved_layers", "position_embedding_type", "rotary_pct")
    config.ignore("use_embedding_sharing", "use_gated_activation", "use_parallel_block")
    config.ignore("use_parallel_embedding", "cache_implementation")
    every = config.integer("sliding_window_pattern", config.integer("_sliding_window_pattern", 4))
    layers = [
        Layer((attention(config, window=w, rope=w > 0), feed_forward(config)), parallel=True)
        for w in windows(config, every=every)
    ]
    return decoder(config, layers, norm="layer_without_bias", tied=True)
