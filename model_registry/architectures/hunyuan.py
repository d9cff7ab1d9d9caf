"""Hunyuan 3: norms on the heads of queries and keys, experts behind a first dense layer."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, experts_at, feed_forward, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("hy_v3")
def hy_v3(config: Config) -> ModelSpec:
    """Experts and a shared one in all layers but the first."""
    config.ignore("router_scaling_factor", "enable_moe_fp32_combine")
    mixer = attention(config, norm="head")
    layers = [
        Layer((mixer, mixture(config) if on else feed_forward(config)))
        for on in experts_at(config, first_dense=1)
    ]
    return decoder(config, layers)
