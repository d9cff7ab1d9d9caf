"""Hunyuan: norms on the heads of queries and keys; experts in A13B and in Hunyuan 3."""

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
from model_registry.spec import Block, Layer, Mixture, ModelSpec


@architecture("hy_v3")
def hy_v3(config: Config) -> ModelSpec:
    """Experts and a shared one in all layers but the first."""
    config.ignore("router_scaling_factor", "enable_moe_fp32_combine")
    mixer = attention(config, norm="head")
    layers = [
        Layer((mixer, mixture(config) if on else feed_forward(config)))
        for on in experts_at(config, first_dense=1)
    ]
    return decoder(config, layers)


@architecture("hunyuan_v1_dense", "hunyuan_v1_moe")
def hunyuan_v1(config: Config) -> ModelSpec:
    """Norms on the heads of queries and keys; in the MoE experts and a shared one everywhere.

    The MoE's widths may be lists of one entry a layer, all the same.
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
        width = _first(config, "moe_intermediate_size") or config.integer("intermediate_size")
        block = Mixture(
            experts=experts,
            top_k=_first(config, "moe_topk") or 1,
            intermediate=width,
            shared=(_first(config, "num_shared_expert") or 1) * width,
        )
    return decoder(config, [Layer((mixer, block))] * layer_count(config))


def _first(config: Config, key: str) -> int:
    """A whole number, or the first of a list of them; 0 without either."""
    return (
        (config.integers(key) or [0])[0]
        if isinstance(config.value(key), list)
        else config.integer(key, 0)
    )
