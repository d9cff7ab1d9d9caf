"""DeepSeek V2 to V3.2, Kimi K2, GLM-5, MiniCPM3: latent attention, fine-grained experts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    feed_forward,
    feed_forwards,
    layer_count,
)
from model_registry.spec import Indexer, LatentAttention, Layer, Mixture, ModelSpec


def latent_attention(
    config: Config, indexer: Indexer | None = None, **more: Any
) -> LatentAttention:
    """Multi-head latent attention with the usual keys.

    more: fields of `LatentAttention` that the family fixes without a key.
    """
    config.ignore("num_key_value_heads", "head_dim", "qk_head_dim", "rope_interleave")
    return LatentAttention(
        heads=config.integer("num_attention_heads"),
        query_rank=config.integer("q_lora_rank", 0),
        kv_rank=config.integer("kv_lora_rank"),
        nope_dim=config.integer("qk_nope_head_dim"),
        rope_dim=config.integer("qk_rope_head_dim"),
        value_dim=config.integer("v_head_dim"),
        bias=config.flag("attention_bias"),
        indexer=indexer,
        **more,
    )


@architecture("deepseek")
def deepseek_moe(config: Config) -> ModelSpec:
    """DeepSeekMoE 16B: Llama's attention, fine-grained and shared experts."""
    layers = [Layer((attention(config), block)) for block in feed_forwards(config)]
    return decoder(config, layers)


@architecture("deepseek_vl_v2")
def deepseek_vl(config: Config) -> ModelSpec:
    """DeepSeek-VL2 and DeepSeek-OCR: DeepSeek V2's experts, with latent attention or without."""
    config.ignore("lm_head", "rm_head", "projector_config", "candidate_resolutions", "tile_tag")
    config.ignore("global_view_pos", "kv_lora_rank", "q_lora_rank", "v_head_dim")
    config.ignore("qk_nope_head_dim", "qk_rope_head_dim", "language_config")
    if config.flag("use_mla", True):
        return _decoder(config, [None] * layer_count(config))
    return deepseek_moe(config)


@architecture(
    "deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "mistral4", "mistral_large_3"
)
def deepseek(config: Config) -> ModelSpec:
    """Latent attention, dense layers before the experts; GLM-4.7 Flash and Mistral Small 4 too."""
    return _decoder(config, [None] * layer_count(config))


@architecture("minicpm3")
def minicpm3(config: Config) -> ModelSpec:
    """Latent attention and a dense feed-forward in every layer, scaled streams."""
    config.ignore("scale_emb", "scale_depth", "dim_model_base")
    return decoder(config, Layer((latent_attention(config), feed_forward(config))), tied=True)


@architecture("deepseek_v32", "glm_moe_dsa")
def deepseek_sparse(config: Config) -> ModelSpec:
    """Sparse attention over the latent cache; GLM-5.2 shares a choice among some layers."""
    config.ignore("indexer_rope_interleave", "index_share_for_mtp_iteration", "layer_types")
    config.ignore("index_skip_topk_offset", "index_topk_freq", "index_topk_pattern")
    owners = config.pattern("indexer_types", layer_count(config), ["full"] * layer_count(config))
    return _decoder(
        config,
        [
            Indexer(
                heads=config.integer("index_n_heads"),
                dim=config.integer("index_head_dim"),
                top_k=config.integer("index_topk"),
                owner=kind == "full",
            )
            for kind in owners
        ],
    )


def _decoder(config: Config, indexers: list[Indexer] | list[None]) -> ModelSpec:
    layers = [
        Layer((latent_attention(config, indexer), block))
        for indexer, block in zip(indexers, feed_forwards(config), strict=True)
    ]
    chooses = replace(indexers[-1], owner=True) if indexers[-1] else None
    predicts = Layer((latent_attention(config, chooses), layers[-1].blocks[1]))
    return decoder(config, layers, prediction=(predicts,))


@architecture("axk1")
def axk1(config: Config) -> ModelSpec:
    """A.X K1: DeepSeek V3's layer with a norm behind the experts."""
    layers = [
        Layer((latent_attention(config), block), extra_norms=int(isinstance(block, Mixture)))
        for block in feed_forwards(config, first_dense=1)
    ]
    return decoder(config, layers)


@architecture("youtu")
def youtu(config: Config) -> ModelSpec:
    """Youtu-LLM: latent attention and a dense feed-forward in every layer."""
    config.ignore("embedding_initializer_range")
    return decoder(config, Layer((latent_attention(config), feed_forward(config))), tied=True)
