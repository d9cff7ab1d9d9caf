"""DBRX: sixteen experts, four per token, sizes in nested sections."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder
from model_registry.spec import Layer, Mixture, ModelSpec


@architecture("dbrx")
def dbrx(config: Config) -> ModelSpec:
    """Grouped queries and experts in every layer, norms without biases."""
    inner, ffn = config.section("attn_config"), config.section("ffn_config")
    mixer = attention(config, kv_heads=inner.integer("num_key_value_heads"))
    experts = Mixture(
        experts=ffn.integer("num_experts"),
        top_k=ffn.integer("num_experts_per_tok"),
        intermediate=ffn.integer("intermediate_size"),
    )
    return decoder(config, Layer((mixer, experts)), norm="layer_without_bias")
