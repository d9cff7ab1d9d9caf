"""LLaDA and Dream: decoder layers with attention in both directions, refining whole answers in
passes.
"""

from __future__ import annotations

from model_registry.architectures.bailing import bailing_moe
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count
from model_registry.spec import Layer, ModelSpec

#: Keys of LLaDA's config on training, numerics and initial values.
_LLADA = (
    *("activation_type", "alibi", "alibi_bias_max", "attention_layer_norm", "block_group_size"),
    *("attention_layer_norm_with_affine", "bias_for_layer_norm", "block_type", "flash_attention"),
    *("embedding_size", "include_bias", "init_cutoff_factor", "init_device", "init_fn"),
    *("input_emb_norm", "layer_norm_type", "layer_norm_with_affine", "mlp_ratio", "precision"),
    *("multi_query_attention", "rope", "rope_full_precision", "scale_logits"),
)


@architecture("llada")
def llada(config: Config) -> ModelSpec:
    """LLaDA (arXiv:2502.09992): Llama's layers under other key names."""
    own = config.renamed(
        {
            "mlp_hidden_size": "intermediate_size",
            "weight_tying": "tie_word_embeddings",
            "max_sequence_length": "max_position_embeddings",
        }
    )
    own.ignore(*_LLADA)
    mixer = attention(own, qkv_bias=own.flag("include_qkv_bias"))
    layer = Layer((mixer, feed_forward(own)))
    return decoder(own, [layer] * layer_count(own))


@architecture("Dream")
def dream(config: Config) -> ModelSpec:
    """Dream (arXiv:2508.15487): Qwen2.5's layers, whose weights it started from."""
    config.ignore("use_mrope", "use_sliding_window", "attention_bias", "sliding_window")
    return decoder(config, Layer((attention(config, qkv_bias=True), feed_forward(config))))


@architecture("llada2_moe")
def llada2(config: Config) -> ModelSpec:
    """LLaDA 2 (arXiv:2512.15745): Ling 2.0's layers, whose weights it started from."""
    return bailing_moe(config)
