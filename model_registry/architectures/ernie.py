"""ERNIE 4.5: Llama's attention, with experts and shared experts in a range of layers."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    experts_at,
    feed_forward,
    layer_count,
    mixture,
)
from model_registry.spec import Layer, Mixture, ModelSpec


@architecture("ernie4_5")
def ernie4_5(config: Config) -> ModelSpec:
    """Llama's layer, with biases everywhere if switched on."""
    bias = config.flag("use_bias")
    mixer = attention(config, qkv_bias=bias, output_bias=bias)
    return decoder(config, Layer((mixer, feed_forward(config, bias=bias))), tied=True)


@architecture("ernie4_5_moe")
def ernie4_5_moe(config: Config) -> ModelSpec:
    """Experts from `moe_layer_start_index` to `moe_layer_end_index`, every n-th layer."""
    config.ignore("moe_norm_min", "moe_use_aux_free", "moe_capacity", "moe_gate", "use_rmsnorm")
    bias, count = config.flag("use_bias"), layer_count(config)
    first = config.integer("moe_layer_start_index", 0)
    last = config.value("moe_layer_end_index", -1)
    last = count - 1 if last in (-1, None) else config.integer("moe_layer_end_index")
    every = max(config.integer("moe_layer_interval", 1), 1)
    mixer = attention(config, qkv_bias=bias, output_bias=bias)
    experts = mixture(
        config,
        router_bias=True,
        shared=config.integer("moe_num_shared_experts", 0)
        * config.integer("moe_intermediate_size"),
    )
    dense = feed_forward(config, bias=bias)
    layers = [
        Layer((mixer, experts if first <= at <= last and (at + 1) % every == 0 else dense))
        for at in range(count)
    ]
    return decoder(config, layers, tied=True)


@architecture("ernie4_5_vl_moe_text")
def ernie4_5_vl(config: Config) -> ModelSpec:
    """The text part: experts for text tokens; experts for image tokens are left out."""
    config.ignore(
        "moe_norm_min", "moe_layer_start_index", "moe_layer_end_index", "moe_layer_interval"
    )
    bias, width = config.flag("use_bias"), config.first_integer("moe_intermediate_size")
    shared = config.integer("moe_num_shared_experts", 0) * width
    text = Mixture(
        experts=config.first_integer("moe_num_experts"),
        top_k=config.integer("moe_k"),
        intermediate=width,
        shared=shared,
        router_bias=True,
    )
    first = config.first_integer("moe_layer_start_index", 1)
    mixer = attention(config, qkv_bias=bias, output_bias=bias)
    dense = feed_forward(config, bias=bias)
    layers = [Layer((mixer, text if on else dense)) for on in experts_at(config, first_dense=first)]
    notes = ("experts that only image tokens use are left out",)
    return decoder(config, layers, tied=True, notes=notes)
