"""Open Language Model: norms without weights at first, then behind the blocks; experts in OLMoE."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    feed_forward,
    layer_count,
    mixture,
    windows,
)
from model_registry.spec import Layer, ModelSpec


@architecture("olmo")
def olmo(config: Config) -> ModelSpec:
    """Llama's layer with norms without weights."""
    layer = Layer((attention(config), feed_forward(config)))
    return decoder(config, [layer] * layer_count(config), norm="without_weights")


@architecture("olmo2", "olmo3")
def olmo2(config: Config) -> ModelSpec:
    """Norms behind the blocks, and over all heads of queries and keys; windows in OLMo 3."""
    layers = [
        Layer((attention(config, norm="full", window=window), feed_forward(config)), norms="after")
        for window in windows(config, every=4)
    ]
    return decoder(config, layers)


@architecture("olmoe")
def olmoe(config: Config) -> ModelSpec:
    """Norms over all heads of queries and keys, experts in every layer."""
    layer = Layer((attention(config, norm="full"), mixture(config)))
    return decoder(config, [layer] * layer_count(config))


@architecture("flex_olmo")
def flex_olmo(config: Config) -> ModelSpec:
    """OLMo 2's layer with experts in place of the feed-forward."""
    layer = Layer((attention(config, norm="full"), mixture(config)), norms="after")
    return decoder(config, [layer] * layer_count(config))
