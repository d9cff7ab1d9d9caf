"""Step-3.7-Flash: a gate per head, windowed and full layers, experts after the first layers."""

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


@architecture("step3p7", "step3p7_text", "step3p5")
def step3p7(config: Config) -> ModelSpec:
    """Windowed layers with other head counts than full ones, a gate on each head's output.

    A prediction module is a windowed layer with a dense feed-forward.
    """
    config.ignore("use_moe_router_bias", "num_shared_experts", "use_head_wise_attn_gate")
    shared = config.integer("share_expert_dim", config.integer("moe_intermediate_size"))
    windowed = config.section("attention_other_setting")
    heads = config.integer("num_attention_heads")
    local = config.integer(
        "num_sliding_attention_heads", windowed.integer("num_attention_heads", heads)
    )

    def mixer(window: int) -> Attention:
        """The attention of a windowed layer, or of a full one (0)."""
        count = local if window else heads
        return attention(config, norm="head", output_gate="head", heads=count, window=window)

    layers = [
        Layer((mixer(window), block))
        for window, block in zip(windows(config), feed_forwards(config, shared=shared), strict=True)
    ]
    predicts = Layer((mixer(config.integer("sliding_window", 0)), feed_forward(config)))
    return decoder(config, layers, prediction=(predicts,))
