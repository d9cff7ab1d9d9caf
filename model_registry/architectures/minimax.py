"""MiniMax: lightning attention in Text-01 and M1, norms on queries and keys in M2 and M3."""

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
from model_registry.spec import Indexer, Layer, LightningAttention, ModelSpec


@architecture("minimax_m2")
def minimax_m2(config: Config) -> ModelSpec:
    """Attention with norms over all heads or over each, experts in every layer."""
    config.ignore("use_mtp", "use_routing_bias", "attn_type_list", "shared_intermediate_size")
    each = "head" if config.text("qk_norm_type", "per_layer") == "per_head" else "full"
    norm = each if config.flag("use_qk_norm", True) else ""
    return decoder(config, Layer((attention(config, norm=norm), mixture(config))))


@architecture("minimax_m3", "minimax_m3_vl", "minimax_m3_vl_text")
def minimax_m3(config: Config) -> ModelSpec:
    """Block-sparse attention, chosen by an indexer, in the layers that hold experts."""
    config.ignore("use_gemma_norm", "use_routing_bias", "first_k_dense_replace", "qk_norm_type")
    config.ignore("attention_output_gate", "moe_intermediate_size", "index_local_blocks")
    config.ignore("img_token_compression_config", "multimodal_projector_bias", "process_image_mode")
    count, sparse = layer_count(config), config.section("sparse_attention_config")
    block = sparse.integer("sparse_block_size", config.integer("index_block_size", 128))
    blocks = sparse.integer("sparse_topk_blocks", config.integer("index_topk_blocks", 16))
    indexer = Indexer(
        heads=sparse.integer("sparse_num_index_heads", config.integer("index_n_heads", 4)),
        dim=sparse.integer("sparse_index_dim", config.integer("index_head_dim", 128)),
        top_k=blocks * block,
    )
    named = ["sparse" in str(kind) for kind in config.sequence("layer_types")]
    picks = sparse.pattern("sparse_attention_freq", count, named or experts_at(config))
    norm = "head" if config.flag("use_qk_norm", True) else ""
    experts = mixture(config, shared=config.integer("shared_intermediate_size", 0))
    dense = feed_forward(config, key="dense_intermediate_size")
    layers = [
        Layer(
            (
                attention(config, norm=norm, indexer=indexer if pick else None),
                experts if on else dense,
            )
        )
        for pick, on in zip(picks, experts_at(config), strict=True)
    ]
    return decoder(config, layers)


@architecture("minimax", "minimax_m1", "minimax_text_01")
def minimax_lightning(config: Config) -> ModelSpec:
    """MiniMax-Text-01 and M1: seven lightning attentions for each full one, experts in
    every layer.
    """
    config.ignore("block_size", "full_attn_alpha_factor", "full_attn_beta_factor", "postnorm")
    config.ignore("linear_attn_alpha_factor", "linear_attn_beta_factor", "mlp_alpha_factor")
    config.ignore("layernorm_full_attention_alpha", "layernorm_linear_attention_alpha")
    config.ignore(
        "layernorm_mlp_alpha", "shared_intermediate_size", "shared_moe_mode", "mlp_beta_factor"
    )
    config.ignore(
        "layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta"
    )
    count, experts = layer_count(config), mixture(config)
    full = attention(config)
    linear = LightningAttention(heads=full.heads, head_dim=full.head_dim)
    old = ["full_attention" if kind == 1 else "" for kind in config.sequence("attn_type_list")]
    default = old or ["full_attention" if (at + 1) % 2 else "" for at in range(count)]
    kinds = config.pattern("layer_types", count, default)
    return decoder(
        config, [Layer((full if kind == "full_attention" else linear, experts)) for kind in kinds]
    )


@architecture("minicpm_sala")
def minicpm_sala(config: Config) -> ModelSpec:
    """MiniCPM-SALA: a quarter of the layers have attention, the others lightning attention."""
    config.ignore("scale_emb", "scale_depth", "dim_model_base", "mup_denominator", "sparse_config")
    config.ignore(
        "lightning_nkv", "lightning_use_rope", "qk_norm", "use_output_norm", "use_output_gate"
    )
    config.ignore("attn_use_output_gate", "attn_use_rope", "lightning_scale", "lightning_nh")
    full = attention(config, output_gate="element", rope=False)
    linear = LightningAttention(
        heads=config.integer("lightning_nh", full.heads),
        head_dim=config.integer("lightning_head_dim", full.head_dim),
        norm=True,
        rope=True,
    )
    count = layer_count(config)
    kinds = config.pattern("mixer_types", count, ["minicpm4"] * count)
    layers = [
        Layer((linear if "lightning" in str(kind) else full, feed_forward(config)))
        for kind in kinds
    ]
    notes = ("attention counts as dense: its sparse form is chosen when the engine starts",)
    return decoder(config, layers, notes=notes)
