"""Arcee: a feed-forward without a gate in AFM; gated attention and experts in Trinity."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, mixture, windows
from model_registry.spec import Layer, ModelSpec


@architecture("arcee")
def arcee(config: Config) -> ModelSpec:
    """AFM-4.5B: Llama's layer with a plain feed-forward of squared ReLU."""
    return decoder(config, Layer((attention(config), feed_forward(config, gated=False))))


@architecture("afmoe")
def afmoe(config: Config) -> ModelSpec:
    """Trinity: a gate on the heads' output, three windowed layers for each full one without
    positions, norms before and after blocks, experts and shared experts after the first layers.
    """
    config.ignore("route_norm", "route_scale", "score_func", "mup_enabled", "num_limited_groups")
    every = config.integer("global_attn_every_n_layers", 4)
    dense = config.integer("num_dense_layers", 1)
    layers = [
        Layer(
            (
                attention(
                    config, norm="head", output_gate="element", window=window, rope=window > 0
                ),
                feed_forward(config) if at < dense else mixture(config, router_bias=True),
            ),
            norms="both",
        )
        for at, window in enumerate(windows(config, every=every))
    ]
    return decoder(config, layers)
