"""Command R, A and A+: parallel blocks, norms without biases, one table for input and output."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    experts_at,
    feed_forward,
    mixture,
    windows,
)
from model_registry.spec import FeedForward, Layer, ModelSpec, Norm


@architecture("cohere")
def cohere(config: Config) -> ModelSpec:
    """Command R; the larger ones norm each head of queries and keys with different weights."""
    norm = "heads" if config.flag("use_qk_norm") else ""
    layer = Layer((attention(config, norm=norm), feed_forward(config)), parallel=True)
    return decoder(config, layer, norm="layer_without_bias", tied=True)


@architecture("cohere2")
def cohere2(config: Config) -> ModelSpec:
    """Three windowed layers for each full one, which has no positions."""
    config.ignore("order_of_interleaved_layers", "position_embedding_type", "rotary_pct")
    config.ignore("use_embedding_sharing", "use_gated_activation", "use_parallel_block")
    config.ignore("use_parallel_embedding", "cache_implementation")
    every = config.integer("sliding_window_pattern", config.integer("_sliding_window_pattern", 4))
    layers = [
        Layer((attention(config, window=w, rope=w > 0), feed_forward(config)), parallel=True)
        for w in windows(config, every=every)
    ]
    return decoder(config, layers, norm="layer_without_bias", tied=True)


@architecture("cohere2_moe")
def cohere2_moe(config: Config) -> ModelSpec:
    """Command A+: experts parallel to the attention after the first layers; windows as in Command
    A.
    """
    config.ignore("expert_selection_fn", "shared_expert_combination_strategy", "norm_topk_prob")
    config.ignore("prefix_dense_sliding_window_pattern", "use_qk_norm", "use_parallel_block")
    every = config.integer("sliding_window_pattern", 4)
    dense = config.integer("prefix_dense_intermediate_size", 0)
    narrow = FeedForward(dense) if dense else None
    layers = [
        Layer(
            (
                attention(config, window=w, rope=w > 0),
                mixture(config) if on or not narrow else narrow,
            ),
            parallel=True,
        )
        for w, on in zip(windows(config, every=every), experts_at(config), strict=True)
    ]
    norm: Norm = "rms" if config.value("rms_norm_eps") else "layer_without_bias"
    return decoder(config, layers, norm=norm, tied=True)
