"""T5 and related models: an encoder and a decoder without biases, with distances instead of
positions.
"""

from __future__ import annotations

from dataclasses import replace

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.stacks import Stack, encoder_decoder
from model_registry.spec import Attention, CrossAttention, FeedForward, Layer, ModelSpec

_IGNORED = (
    *("feed_forward_proj", "relative_attention_max_distance", "dense_act_fn", "is_gated_act"),
    *("n_positions", "num_decoder_layers", "scalable_attention", "classifier_dropout"),
    "scale_decoder_outputs",
)


@architecture("t5", "mt5", "umt5")
def t5(config: Config) -> ModelSpec:
    """T5 (arXiv:1910.10683); from version 1.1 on gated, with a separate head.

    The first layer of each stack holds the biases by distance for all; in umT5 each layer has its
    own.
    """
    config.ignore(*_IGNORED)
    gated = config.text("feed_forward_proj", "relu").startswith("gated")
    heads, width = config.integer("num_attention_heads"), config.integer("d_kv", 64)
    mixer = Attention(heads, heads, width, rope=False)
    dense = FeedForward(config.integer("d_ff"), gated=gated)
    cross = CrossAttention(heads, heads, width)
    every = config.model_type == "umt5"
    buckets = config.integer("relative_attention_num_buckets", 32)
    before = config.integer("num_hidden_layers")
    behind = config.integer("num_decoder_layers", 0) or before

    def layers(count: int, *, encodes: bool) -> tuple[Layer, ...]:
        between = () if encodes else (cross,)
        own = replace(mixer, causal=not encodes)
        first, later = (
            Layer((replace(own, distances=rows), *between, dense))
            for rows in (buckets, buckets if every else 0)
        )
        return (first, *[later] * (count - 1))

    return encoder_decoder(
        config,
        Stack(layers(before, encodes=True)),
        Stack(layers(behind, encodes=False)),
        norm="rms",
        tied=config.model_type == "t5",
    )
