"""MiMo-V2-Flash: five windowed layers with sinks for each full one, values narrower than keys."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forwards, layer_count
from model_registry.spec import Layer, ModelSpec


@architecture("mimo_v2_flash")
def mimo_v2_flash(config: Config) -> ModelSpec:
    """`sliding_window_size` excludes the query itself, as in the reference code."""
    config.ignore("attention_chunk_size", "attention_value_scale")
    window = config.integer("sliding_window", 0)
    before = config.integer("sliding_window_size", window - 1 if window else 0)
    full = attention(
        config,
        value_dim=config.integer("v_head_dim", 0),
        sinks=config.flag("add_full_attention_sink_bias"),
    )
    local = attention(
        config,
        heads=config.integer("swa_num_attention_heads", full.heads),
        kv_heads=config.integer("swa_num_key_value_heads", 2 * full.kv_heads),
        head_dim=config.integer("swa_head_dim", full.head_dim),
        value_dim=config.integer("swa_v_head_dim", full.values),
        window=before + 1 if before else 0,
        sinks=config.flag("add_swa_attention_sink_bias", True),
    )
    named = ["sliding" in str(kind) for kind in config.sequence("layer_types")]
    pattern = config.pattern("hybrid_layer_pattern", layer_count(config), named)
    layers = [
        Layer((local if windowed else full, block))
        for windowed, block in zip(pattern, feed_forwards(config), strict=True)
    ]
    return decoder(config, layers)
