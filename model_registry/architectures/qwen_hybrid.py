"""Qwen3-Next and Qwen3.5: three Gated DeltaNet layers for each gated attention."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, mixture
from model_registry.spec import DeltaNet, Layer, ModelSpec


@architecture("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
def qwen_hybrid(config: Config) -> ModelSpec:
    """Every fourth layer has attention, with a gate on its output; with experts if the config has
    any.
    """
    config.ignore("mtp_use_dedicated_embeddings", "mamba_ssm_dtype", "intermediate_size")
    config.ignore("decoder_sparse_step", "mlp_only_layers", "mtp_num_hidden_layers")
    count = layer_count(config)
    every = config.at_least_one("full_attention_interval", 4)
    default = ["full_attention" if (at + 1) % every == 0 else "" for at in range(count)]
    gate = "element" if config.flag("attn_output_gate", True) else ""
    mixer = attention(config, norm="head", output_gate=gate)
    linear = _delta_net(config)
    dense = "num_experts" not in config
    block = feed_forward(config) if dense else mixture(config, shared_gate=True)
    layers = [
        Layer((mixer if kind == "full_attention" else linear, block))
        for kind in config.pattern("layer_types", count, default)
    ]
    return decoder(config, layers, prediction=(Layer((mixer, block)),))


def _delta_net(config: Config) -> DeltaNet:
    return DeltaNet(
        key_heads=config.integer("linear_num_key_heads"),
        value_heads=config.integer("linear_num_value_heads"),
        key_dim=config.integer("linear_key_head_dim"),
        value_dim=config.integer("linear_value_head_dim"),
        kernel=config.integer("linear_conv_kernel_dim", 4),
    )
