"""EXAONE 4: norms behind the blocks, windowed layers; experts in K-EXAONE."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    feed_forward,
    feed_forwards,
    windows,
)
from model_registry.spec import Attention, Layer, ModelSpec


def _attention(config: Config, window: int, *, windowed: bool) -> Attention:
    """Attention of a layer; full layers in a model with windowed layers have no positions."""
    return attention(config, norm="head", window=window, rope=window > 0 or not windowed)


def _windows(config: Config) -> list[int]:
    config.ignore("sliding_window_pattern")
    return windows(config, every=4)


@architecture("exaone4", "exaone4_5_text")
def exaone4(config: Config) -> ModelSpec:
    """EXAONE 4.0: three windowed layers for each full one in the 32B, only full ones in
    the 1.2B.
    """
    config.ignore("mtp_share_layers", "_num_mtp_layers")
    sizes = _windows(config)
    layers = [
        Layer(
            (_attention(config, window, windowed=any(sizes)), feed_forward(config)), norms="after"
        )
        for window in sizes
    ]
    return decoder(config, layers)


@architecture("exaone_moe")
def exaone_moe(config: Config) -> ModelSpec:
    """K-EXAONE: norms in front, experts and a shared one after the first layer."""
    sizes = _windows(config)
    layers = [
        Layer((_attention(config, window, windowed=any(sizes)), block))
        for window, block in zip(sizes, feed_forwards(config, first_dense=1), strict=True)
    ]
    return decoder(config, layers)
