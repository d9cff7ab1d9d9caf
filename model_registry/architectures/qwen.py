"""Qwen 1 to 3: biases on queries, keys and values, later norms on queries and keys instead."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, mixture
from model_registry.spec import FeedForward, Layer, ModelSpec


@architecture("qwen")
def qwen(config: Config) -> ModelSpec:
    """The first Qwen: `intermediate_size` counts gate and up together."""
    config.ignore("no_bias", "use_dynamic_ntk", "use_logn_attn", "onnx_safe", "scale_attn_weights")
    config.ignore("bf16", "fp16", "fp32", "kv_channels", "softmax_in_fp32")
    half = FeedForward(config.integer("intermediate_size") // 2)
    layer = Layer((attention(config, qkv_bias=True), half))
    context = config.integer("max_position_embeddings", 8192)
    return decoder(config, layer, max_context=context)


def _windows(config: Config) -> list[int]:
    """Windows count only where `use_sliding_window` turns them on, from a layer upwards."""
    count = layer_count(config)
    on, window = config.flag("use_sliding_window"), config.integer("sliding_window", 0)
    full = config.integer("max_window_layers", count)
    kinds = config.pattern("layer_types", count, [""] * count)
    return [
        window if on and ("sliding" in kind or (not kind and at >= full)) else 0
        for at, kind in enumerate(kinds)
    ]


@architecture("qwen2", "mimo", "qwen2_vl_text", "qwen2_5_vl_text")
def qwen2(config: Config) -> ModelSpec:
    """Qwen 1.5, 2 and 2.5, and MiMo-7B, which adds prediction heads to the same layers."""
    layers = [
        Layer((attention(config, qkv_bias=True, window=window), feed_forward(config)))
        for window in _windows(config)
    ]
    config.ignore("use_mrope", "attention_bias")
    return decoder(config, layers)


@architecture("qwen2_moe")
def qwen2_moe(config: Config) -> ModelSpec:
    """Fine-grained experts beside a shared one behind a gate."""
    bias = config.flag("qkv_bias", True)
    layers = [
        Layer(
            (
                attention(config, qkv_bias=bias, window=window),
                mixture(config, shared_gate=True) if on else feed_forward(config),
            )
        )
        for window, on in zip(_windows(config), _sparse(config), strict=True)
    ]
    config.ignore("intermediate_size")
    return decoder(config, layers)


@architecture("qwen3", "qwen3_vl_text")
def qwen3(config: Config) -> ModelSpec:
    """Norms on the heads of queries and keys in place of biases."""
    layers = [
        Layer((attention(config, norm="head", window=window), feed_forward(config)))
        for window in _windows(config)
    ]
    return decoder(config, layers)


@architecture("qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text")
def qwen3_moe(config: Config) -> ModelSpec:
    """Qwen3's attention; experts in the layers that `decoder_sparse_step` picks."""
    layers = [
        Layer(
            (
                attention(config, norm="head", window=window),
                mixture(config) if on else feed_forward(config),
            )
        )
        for window, on in zip(_windows(config), _sparse(config), strict=True)
    ]
    config.ignore("intermediate_size", "use_qk_norm", "shared_expert_intermediate_size")
    return decoder(config, layers)


def _sparse(config: Config) -> list[bool]:
    """Every `decoder_sparse_step`-th layer has experts, except those that a list excludes."""
    dense = set(config.integers("mlp_only_layers"))
    step = max(config.integer("decoder_sparse_step", 1), 1)
    return [at not in dense and (at + 1) % step == 0 for at in range(layer_count(config))]
