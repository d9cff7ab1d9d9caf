"""Kimi Linear and Kimi K3: Kimi delta attention combined with latent attention without
positions.
"""

from __future__ import annotations

from model_registry.architectures.deepseek import latent_attention
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder, feed_forwards
from model_registry.spec import DeltaNet, Layer, ModelSpec

_NOTES = ("attention residuals over blocks of layers have negligible weights and are not counted",)


@architecture("kimi_linear")
def kimi_linear(config: Config) -> ModelSpec:
    """Layer numbers in the config count from 1; K3's experts work in a narrower space."""
    config.ignore("mla_use_nope", "model_max_length", "routed_expert_hidden_size")
    inner = config.section("linear_attn_config")
    kinds = config.sequence("layer_types")
    full = {at - 1 for at in inner.integers("full_attn_layers")}
    full |= {at for at, kind in enumerate(kinds) if kind == "full_attention"}
    gated = config.flag("mla_use_output_gate")
    mixer = latent_attention(config, rotates=False, output_gate=gated)
    linear = _delta_attention(config, inner)
    blocks = feed_forwards(
        config,
        latent=config.integer("routed_expert_hidden_size", 0),
        latent_norm=config.flag("latent_moe_use_norm"),
    )
    layers = [Layer((mixer if at in full else linear, block)) for at, block in enumerate(blocks)]
    notes = _NOTES if config.integer("attn_res_block_size", 0) else ()
    context = config.integer("max_position_embeddings", config.integer("model_max_length", 0))
    return decoder(config, layers, notes=notes, max_context=context or None)


def _delta_attention(config: Config, inner: Config) -> DeltaNet:
    """Decay of rank head_dim; likewise the output gate, unless it has full rank."""
    heads = inner.at_least_one("num_heads", config.at_least_one("linear_num_heads", 32))
    width = inner.at_least_one("head_dim", config.at_least_one("linear_head_dim", 128))
    kernel = inner.integer("short_conv_kernel_size", config.integer("linear_conv_kernel_dim", 4))
    return DeltaNet(
        key_heads=heads,
        value_heads=heads,
        key_dim=width,
        value_dim=width,
        kernel=kernel,
        gate_rank=width,
        output_rank=0 if inner.flag("use_full_rank_gate") else width,
    )
