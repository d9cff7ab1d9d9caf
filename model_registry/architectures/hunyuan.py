"""Hunyuan: norms on the heads of queries and keys; experts in A13B and in Hunyuan 3."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    feed_forward,
    feed_forwards,
    layer_count,
)
from model_registry.spec import Block, Layer, Mixture, ModelSpec


@architecture("hy_v3")
def hy_v3(config: Config) -> ModelSpec:
    """Experts and a shared one in all layers but the first."""
    config.ignore("router_scaling_factor", "enable_moe_fp32_combine")
    mixer = attention(config, norm="head")
    layers = [Layer((mixer, block)) for block in feed_forwards(config, first_dense=1)]
    return decoder(config, layers)


@architecture("hunyuan_v1_dense", "hunyuan_v1_moe")
def hunyuan_v1(config: Config) -> ModelSpec:
    """Norms on the heads of queries and keys; in the MoE, experts and a shared one in every layer.

    The MoE's widths may be lists with one equal entry per layer.
    """
    config.ignore("use_cla", "cla_share_factor", "use_qk_norm", "num_shared_expert", "moe_topk")
    config.ignore("use_mixed_mlp_moe", "moe_layer_num_skipped", "moe_drop_tokens", "norm_type")
    config.ignore("capacity_factor", "moe_random_routing_dropped_token", "use_rotary_pos_emb")
    config.ignore("position_embedding_xdrope", "group_limited_greedy", "anyres_vit_max_image_size")
    config.ignore("add_classification_head", "class_num", "pool_type", "org_vocab_size", "head_dim")
    config.ignore(
        "attention_head_dim", "pad_id", "dense_list", "im_start_id", "routed_scaling_factor"
    )
    mixer = attention(config, norm="head" if config.flag("use_qk_norm", True) else "")
    experts = config.integer("num_experts", 1)
    block: Block = feed_forward(config)
    if config.model_type == "hunyuan_v1_moe" and experts > 1:
        width = config.first_integer("moe_intermediate_size") or config.integer("intermediate_size")
        block = Mixture(
            experts=experts,
            top_k=config.first_integer("moe_topk") or 1,
            intermediate=width,
            shared=(config.first_integer("num_shared_expert") or 1) * width,
        )
    return decoder(config, Layer((mixer, block)))


@architecture("hunyuan")
def hunyuan_large(config: Config) -> ModelSpec:
    """Hunyuan-Large: every other layer reads its neighbour's cache (arXiv:2411.02265)."""
    config.ignore(
        "use_cla", "cla_share_factor", "moe_topk", "num_shared_expert", "use_mixed_mlp_moe"
    )
    config.ignore(
        "use_rotary_pos_emb", "capacity_factor", "moe_drop_tokens", "moe_layer_num_skipped"
    )
    config.ignore("moe_random_routing_dropped_token", "norm_type", "pad_id", "org_vocab_size")
    norm = "head" if config.flag("use_qk_norm", True) else ""
    width, shares = config.integer("intermediate_size"), config.flag("use_cla")
    every = max(config.integer("cla_share_factor", 2), 1)
    experts = Mixture(
        experts=config.integer("num_experts"),
        top_k=config.first_integer("moe_topk") or 1,
        intermediate=width,
        shared=(config.first_integer("num_shared_expert") or 1) * width,
    )
    layers = [
        Layer((attention(config, norm=norm, shares_kv=shares and at % every > 0), experts))
        for at in range(layer_count(config))
    ]
    return decoder(config, layers, tied=True)
