"""Gemma 4: windowed layers and full ones with wide heads, a dense feed-forward parallel to the
experts.
"""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, layer_count, mixture, windows
from model_registry.spec import Attention, Block, FeedForward, Layer, LayerInput, ModelSpec


@architecture("gemma4_text", "gemma4_unified_text")
def gemma4(config: Config) -> ModelSpec:
    """The last layers may read the caches of earlier ones; in small models each token has an input
    to every layer.
    """
    config.ignore("use_bidirectional_attention", "vocab_size_per_layer_input")
    first_sharing = layer_count(config) - config.integer("num_kv_shared_layers", 0)
    layers = [
        _layer(config, at, window, shares=at >= first_sharing)
        for at, window in enumerate(windows(config, every=6))
    ]
    rows = config.integer("vocab_size_per_layer_input", 0)
    return decoder(config, layers, tied=True, layer_input_rows=rows)


def _layer(config: Config, at: int, window: int, *, shares: bool) -> Layer:
    wide = 2 if shares and config.flag("use_double_wide_mlp") else 1
    blocks: list[Block] = [
        _attention(config, at, window, shares=shares),
        FeedForward(config.integer("intermediate_size") * wide),
    ]
    experts, own = config.flag("enable_moe_block"), config.integer("hidden_size_per_layer_input", 0)
    if experts:
        blocks.append(mixture(config, router_norm=True, expert_scale=True))
    if own:
        blocks.append(LayerInput(own))
    return Layer(tuple(blocks), norms="both", extra_norms=int(experts))


def _attention(config: Config, at: int, window: int, *, shares: bool) -> Attention:
    """Full layers may have other key-value heads and head widths than windowed ones."""
    local = attention(config, norm="head", window=window, shares_kv=shares)
    heads = config.integer("num_global_key_value_heads", 0) or local.kv_heads
    width = config.integer("global_head_dim", 0) or local.head_dim
    same, own = config.flag("attention_k_eq_v"), config.overrides(at)
    return attention(
        config,
        norm="head",
        window=window,
        shares_kv=shares,
        keys_are_values=same and not window,
        kv_heads=own.integer("num_key_value_heads", local.kv_heads if window else heads),
        head_dim=own.integer("head_dim", local.head_dim if window else width),
    )
