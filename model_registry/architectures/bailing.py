"""Ling and Ring: fine-grained and shared experts after the first layers."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, experts_at, feed_forward, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("bailing_moe", "bailing_moe_v2")
def bailing_moe(config: Config) -> ModelSpec:
    """Ling 1.5 and 2.0: Llama's attention; 2.0 adds norms on queries and keys."""
    config.ignore(
        "norm_head", "norm_softmax", "score_function", "routed_scaling_factor", "use_bias"
    )
    config.ignore("moe_shared_expert_intermediate_size", "embedding_dropout", "output_dropout")
    config.ignore("using_split_qkv_in_self_attention", "router_dtype", "num_shared_experts")
    norm = "head" if config.flag("use_qk_norm") else ""
    bias = config.flag("use_bias")
    mixer = attention(config, qkv_bias=config.flag("use_qkv_bias"), output_bias=bias, norm=norm)
    width = config.integer("moe_intermediate_size")
    one = config.integer("moe_shared_expert_intermediate_size", 0) or width
    experts = mixture(config, shared=config.integer("num_shared_experts", 0) * one)
    dense = feed_forward(config, bias=bias)
    layers = [Layer((mixer, experts if on else dense)) for on in experts_at(config)]
    return decoder(config, layers)
