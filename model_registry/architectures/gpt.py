"""GPT-2, GPT-J, GPT-NeoX, OPT, BLOOM: layer norms, plain feed-forwards, biases."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward
from model_registry.spec import FeedForward, Layer, ModelSpec


def _plain(config: Config) -> FeedForward:
    """The feed-forward: four times the model's width unless the config differs, with biases."""
    width = config.integer("intermediate_size", 0) or 4 * config.integer("hidden_size")
    return FeedForward(width, gated=False, bias=True)


@architecture("gpt2")
def gpt2(config: Config) -> ModelSpec:
    """Learned positions, one table for tokens and head."""
    config.ignore("n_ctx", "reorder_and_upcast_attn", "scale_attn_weights", "summary_use_proj")
    config.ignore("summary_type", "summary_activation", "summary_proj_to_labels")
    config.ignore("summary_first_dropout", "scale_attn_by_inverse_layer_idx")
    mixer = attention(config, qkv_bias=True, output_bias=True, rope=False)
    positions = config.integer("max_position_embeddings", 1024)
    layer = Layer((mixer, _plain(config)))
    return decoder(config, layer, norm="layer", positions=positions, tied=True)


@architecture("gptj")
def gptj(config: Config) -> ModelSpec:
    """Parallel blocks after one norm; biases on feed-forward and head."""
    config.ignore("n_ctx", "scale_attn_weights", "summary_use_proj", "summary_type")
    config.ignore("summary_activation", "summary_proj_to_labels", "summary_first_dropout")
    layer = Layer((attention(config), _plain(config)), parallel=True)
    return decoder(config, layer, norm="layer", head_bias=True)


@architecture("gpt_neox")
def gpt_neox(config: Config) -> ModelSpec:
    """GPT-NeoX and Pythia: parallel blocks, each with its own norm."""
    bias = config.flag("attention_bias", True)
    mixer = attention(config, qkv_bias=bias, output_bias=bias)
    parallel = config.flag("use_parallel_residual", True)
    layer = Layer((mixer, _plain(config)), parallel=parallel, parallel_norms=2)
    return decoder(config, layer, norm="layer")


@architecture("opt")
def opt(config: Config) -> ModelSpec:
    """Positions start at 2; OPT-350M has a narrow token table with projections, and norms after
    blocks.
    """
    config.ignore("_remove_final_layer_norm", "enable_bias", "layer_norm_elementwise_affine")
    hidden = config.integer("hidden_size")
    width = config.integer("word_embed_proj_dim", hidden)
    before = config.flag("do_layer_norm_before", True)
    mixer = attention(config, qkv_bias=True, output_bias=True, rope=False)
    dense = feed_forward(config, gated=False, bias=True)
    layer = Layer((mixer, dense), norms="before" if before else "after")
    return decoder(
        config,
        layer,
        norm="layer",
        positions=config.integer("max_position_embeddings") + 2,
        embedding_dim=0 if width == hidden else width,
        final_norm=before,
        tied=True,
    )


@architecture("bloom")
def bloom(config: Config) -> ModelSpec:
    """Biases by distance instead of positions (ALiBi), and a norm directly after the
    token table.
    """
    config.ignore(
        "apply_residual_connection_post_layernorm", "slow_but_exact", "masked_softmax_fusion"
    )
    config.ignore("bias_dropout_fusion", "offset_alibi", "seq_length", "skip_bias_add")
    config.ignore("skip_bias_add_qkv", "unk_token_id", "n_inner", "num_key_value_heads")
    mixer = attention(config, qkv_bias=True, output_bias=True, rope=False)
    layer = Layer((mixer, _plain(config)))
    context = config.integer("max_position_embeddings", 0) or 2048
    return decoder(config, layer, norm="layer", embedding_norm=True, tied=True, max_context=context)
