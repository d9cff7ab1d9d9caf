"""Families close to Llama: other biases, norms, positions or names of keys."""

from __future__ import annotations

from typing import Literal

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("starcoder2")
def starcoder2(config: Config) -> ModelSpec:
    """Layer norms, biases and a plain feed-forward; a window over all layers."""
    bias = config.flag("use_bias", True)
    window = config.integer("sliding_window", 0)
    mixer = attention(config, qkv_bias=bias, output_bias=bias, window=window)
    layer = Layer((mixer, feed_forward(config, gated=False, bias=bias)))
    return decoder(config, layer, norm="layer", tied=True)


@architecture("stablelm", "stablelm_epoch")
def stablelm(config: Config) -> ModelSpec:
    """Layer norms; the 12B model has parallel blocks and a separate norm for each head."""
    norm = "heads" if config.flag("qk_layernorm") else ""
    mixer = attention(config, qkv_bias=config.flag("use_qkv_bias"), norm=norm)
    layer = Layer((mixer, feed_forward(config)), parallel=config.flag("use_parallel_residual"))
    return decoder(config, layer, norm="layer")


@architecture("internlm3")
def internlm3(config: Config) -> ModelSpec:
    """Llama's layer; biases of queries, keys and values have their own key."""
    mixer = attention(
        config, qkv_bias=config.flag("qkv_bias"), output_bias=config.flag("attention_bias")
    )
    return decoder(config, Layer((mixer, feed_forward(config, bias=config.flag("bias")))))


@architecture("internlm2", "internlm")
def internlm2(config: Config) -> ModelSpec:
    """Llama's layer, with biases on all four projections of attention if switched on."""
    bias = config.flag("bias")
    layer = Layer((attention(config, qkv_bias=bias, output_bias=bias), feed_forward(config)))
    return decoder(config, layer)


@architecture("baichuan")
def baichuan(config: Config) -> ModelSpec:
    """One projection of queries, keys and values; ALiBi in the 13B model (40 heads)."""
    config.ignore("z_loss_weight")
    context = config.integer("model_max_length", 0) or config.integer("max_position_embeddings", 0)
    rope = config.integer("num_attention_heads") != 40
    layer = Layer((attention(config, rope=rope), feed_forward(config)))
    return decoder(config, layer, max_context=context or None)


@architecture("chatglm")
def chatglm(config: Config) -> ModelSpec:
    """ChatGLM2 and 3, and GLM-4 in its first code: few key-value heads, biases on the fused qkv."""
    config.ignore("apply_query_key_layer_scaling", "apply_residual_connection_post_layernorm")
    config.ignore("attention_softmax_in_fp32", "bias_dropout_fusion", "interleaved_qkv", "rmsnorm")
    config.ignore("original_rope", "post_layer_norm", "pre_seq_len", "prefix_projection")
    heads = config.integer("num_attention_heads")
    few = config.flag("multi_query_attention", True)
    mixer = attention(
        config,
        qkv_bias=config.flag("add_qkv_bias") or config.flag("add_bias_linear"),
        kv_heads=config.integer("multi_query_group_num", heads) if few else heads,
    )
    layer = Layer((mixer, feed_forward(config, bias=config.flag("add_bias_linear"))))
    return decoder(config, layer)


@architecture("smollm3")
def smollm3(config: Config) -> ModelSpec:
    """Every fourth layer has no positions (NoPE)."""
    count = layer_count(config)
    every = config.integer("no_rope_layer_interval", 4)
    default = [int((at + 1) % every != 0) for at in range(count)]
    turns = config.pattern("no_rope_layers", count, default)
    config.ignore("use_sliding_window", "sliding_window", "layer_types", "max_window_layers")
    layers = [Layer((attention(config, rope=bool(on)), feed_forward(config))) for on in turns]
    return decoder(config, layers, tied=True)


@architecture("granitemoe", "solar_open")
def granitemoe(config: Config) -> ModelSpec:
    """Llama's attention, experts in every layer; Granite has multipliers on its streams."""
    return decoder(config, Layer((attention(config), mixture(config))))


@architecture("nemotron", "jais2")
def nemotron(config: Config) -> ModelSpec:
    """Nemotron-4, Minitron, Jais 2: layer norms, a plain feed-forward with squared ReLU."""
    layer = Layer((attention(config), feed_forward(config, gated=False)))
    return decoder(config, layer, norm="layer")


@architecture("seed_oss")
def seed_oss(config: Config) -> ModelSpec:
    """Llama's layer with biases on queries, keys and values."""
    mixer = attention(
        config,
        qkv_bias=config.flag("attention_bias", True),
        output_bias=config.flag("attention_out_bias"),
    )
    return decoder(config, Layer((mixer, feed_forward(config))))


@architecture("hyperclovax")
def hyperclovax(config: Config) -> ModelSpec:
    """Granite's multipliers, and norms behind the blocks as well."""
    config.ignore("use_post_norm", "end_token_id")
    norms: Literal["both", "before"] = "both" if config.flag("use_post_norm", True) else "before"
    return decoder(config, Layer((attention(config), feed_forward(config)), norms=norms))


@architecture("minicpm")
def minicpm(config: Config) -> ModelSpec:
    """MiniCPM and MiniCPM4: Llama's layer with scaled streams; sparse attention is left out."""
    config.ignore("scale_emb", "scale_depth", "dim_model_base", "mup_denominator", "use_rope")
    notes: tuple[str, ...] = ()
    if config.value("sparse_config"):
        notes = ("attention counts as dense: its sparse form is chosen when the engine starts",)
    return decoder(config, Layer((attention(config), feed_forward(config))), tied=True, notes=notes)
