"""RWKV-7: a matrix state per head, no attention (arXiv:2503.14456)."""

from __future__ import annotations

from dataclasses import replace

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder, layer_count
from model_registry.spec import FeedForward, Layer, ModelSpec, RwkvMixer


@architecture("rwkv7")
def rwkv7(config: Config) -> ModelSpec:
    """RWKV-7 as published by flash-linear-attention: low-rank decay, rates and gates.

    The first layer mixes in no earlier values.
    """
    config.ignore("attn", "attn_mode", "fuse_cross_entropy", "fuse_norm", "norm_bias", "norm_first")
    config.ignore("hidden_ratio", "num_heads", "value_dim", "fuse_linear_cross_entropy")
    hidden, width = config.integer("hidden_size"), config.integer("head_dim", 64) or 64
    mixer = RwkvMixer(
        heads=hidden // width,
        head_dim=width,
        decay_rank=config.integer("decay_low_rank_dim", 64),
        rate_rank=config.integer("a_low_rank_dim", 64),
        value_rank=config.integer("v_low_rank_dim", 16),
        gate_rank=config.integer("gate_low_rank_dim", 128),
    )
    dense = FeedForward(config.integer("intermediate_size", 4 * hidden), gated=False)
    first = Layer((replace(mixer, value_rank=0), dense))
    layers = [first] + [Layer((mixer, dense))] * (layer_count(config) - 1)
    return decoder(config, layers, norm="layer", embedding_norm=True)
