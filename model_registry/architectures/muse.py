"""Muse Glimmer: gated attention with few key-value heads, norms in front and behind."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, windows
from model_registry.spec import Layer, ModelSpec


@architecture("muse_glimmer_text")
def muse_glimmer(config: Config) -> ModelSpec:
    """Three windowed layers for each full one without positions."""
    config.ignore("layer_rope_theta", "output_multiplier", "qk_scale_factor", "post_norm_eps")
    layers = [
        Layer(
            (
                attention(config, output_gate="element", window=w, rope=w > 0),
                feed_forward(config),
            ),
            norms="both",
        )
        for w in windows(config, every=4)
    ]
    return decoder(config, layers)
