"""Llama 4: chunked attention with positions; every fourth layer has full attention without
positions.
"""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, mixture
from model_registry.spec import FeedForward, Layer, Mixture, ModelSpec


@architecture("llama4_text", "llama4")
def llama4(config: Config) -> ModelSpec:
    """One expert per token and a shared one of the same width."""
    config.ignore("for_llm_compressor", "attn_temperature_tuning", "attn_scale", "floor_scale")
    config.ignore("use_qk_norm")  # a norm without weights, fused into the rotary kernel
    count, chunk = layer_count(config), config.integer("attention_chunk_size", 0)
    turns = _turns(config, count)
    blocks = _blocks(config, count)
    layers = [
        Layer((attention(config, rope=bool(on), chunk=chunk if on else 0), block))
        for on, block in zip(turns, blocks, strict=True)
    ]
    return decoder(config, layers)


def _turns(config: Config, count: int) -> list[int]:
    """1 where a layer has rotary positions and attends only within its chunk."""
    every = config.integer("no_rope_layer_interval", 4) or 4
    config.ignore("layer_types")
    return config.pattern(
        "no_rope_layers", count, [int((i + 1) % every != 0) for i in range(count)]
    )


def _blocks(config: Config, count: int) -> list[FeedForward | Mixture]:
    step = max(config.integer("interleave_moe_layer_step", 1), 1)
    listed = config.integers("moe_layers", range(step - 1, count, step))
    experts = mixture(config, shared=config.integer("intermediate_size"))
    dense = feed_forward(config, key="intermediate_size_mlp")
    return [experts if at in set(listed) else dense for at in range(count)]
