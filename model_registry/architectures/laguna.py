"""Laguna: a gate per head, head counts by layer, windows, experts with a shared one."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forwards, layer_count, windows
from model_registry.spec import Layer, ModelSpec


@architecture("laguna")
def laguna(config: Config) -> ModelSpec:
    """Windowed layers may have more heads than full ones."""
    config.ignore("moe_apply_router_weight_on_input", "moe_routed_scaling_factor", "qkv_bias")
    config.ignore("moe_router_logit_softcapping", "decoder_sparse_step", "mlp_only_layers")
    config.ignore("moe_router_use_sigmoid", "swa_attention_sink_enabled", "swa_rope_parameters")
    count, heads = layer_count(config), config.integer("num_attention_heads")
    many = config.pattern("num_attention_heads_per_layer", count, [heads] * count)
    gate = config.value("gating", True)
    wide = "element" if gate == "per-element" else "head" if gate else ""
    blocks = feed_forwards(config, first_dense=1, router_bias=True)
    layers = [
        Layer((attention(config, norm="head", output_gate=wide, heads=own, window=window), block))
        for own, window, block in zip(many, windows(config), blocks, strict=True)
    ]
    return decoder(config, layers)
