"""Falcon: parallel attention and feed-forward, with few key-value heads or one."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder
from model_registry.spec import FeedForward, Layer, ModelSpec


@architecture("falcon", "RefinedWeb", "RefinedWebModel")
def falcon(config: Config) -> ModelSpec:
    """The first design shares one norm, the second (40B, 180B) has a norm per branch."""
    heads, bias = config.integer("num_attention_heads"), config.flag("bias")
    second = config.flag("new_decoder_architecture")
    parallel = config.flag("parallel_attn", True) or second
    alone = config.flag("multi_query", True) and not second
    kv_heads = 1 if alone else config.integer("num_key_value_heads", heads) if second else heads
    mixer = attention(
        config, qkv_bias=bias, output_bias=bias, kv_heads=kv_heads, rope=not config.flag("alibi")
    )
    width = config.integer("intermediate_size", 0) or 4 * config.integer("hidden_size")
    norms = config.integer("num_ln_in_parallel_attn", 2) if second else 1
    layer = Layer(
        (mixer, FeedForward(width, gated=False, bias=bias)), parallel=parallel, parallel_norms=norms
    )
    context = config.integer("max_position_embeddings", 2048)
    return decoder(config, layer, norm="layer", tied=True, max_context=context)
