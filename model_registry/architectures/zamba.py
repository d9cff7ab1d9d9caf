"""Zamba2: Mamba 2 layers; some are preceded by a transformer block with shared weights."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder, layer_count
from model_registry.spec import Layer, Mamba2, ModelSpec, SharedTransformer


@architecture("zamba2")
def zamba2(config: Config) -> ModelSpec:
    """`num_mem_blocks` sets of shared weights alternate (arXiv:2411.15242)."""
    config.ignore(
        "use_mem_rope", "use_conv_bias", "chunk_size", "use_long_context", "hybrid_layer_ids"
    )
    config.ignore("mamba_headdim", "mamba_expand", "attention_hidden_size", "attention_head_dim")
    config.ignore("num_query_groups", "use_shared_mlp_adapter", "kv_channels", "add_bias_linear")
    config.ignore("layer_types", "ffn_hidden_size", "use_shared_block_adapter")
    hidden, heads = config.integer("hidden_size"), config.integer("n_mamba_heads")
    inner = config.integer("mamba_expand", 2) * hidden
    recurrence = Mamba2(
        heads=heads,
        head_dim=inner // heads,
        state=config.integer("mamba_d_state"),
        groups=config.integer("mamba_ngroups", 1),
        kernel=config.integer("mamba_d_conv", 4),
        bias=config.flag("add_bias_linear"),
    )
    kinds = config.pattern("layers_block_type", layer_count(config), ())
    layers, met, sets = [], 0, config.integer("num_mem_blocks", 1)
    for kind in kinds:
        if kind == "hybrid":
            layers.append(Layer((_shared(config, owner=met < sets), recurrence)))
            met += 1
        else:
            layers.append(Layer((recurrence,)))
    return decoder(config, layers, tied=True)


def _shared(config: Config, *, owner: bool) -> SharedTransformer:
    heads, hidden = config.integer("num_attention_heads"), config.integer("hidden_size")
    return SharedTransformer(
        heads=heads,
        kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=2 * hidden // heads,
        intermediate=config.integer("intermediate_size"),
        adapter_rank=config.integer("adapter_rank", 128),
        attention_adapters=config.flag("use_shared_attention_adapter"),
        rope=config.flag("use_mem_rope"),
        owner=owner,
    )
