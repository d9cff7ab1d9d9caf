"""Hybrids of attention and recurrences: Jamba, Nemotron-H."""

from __future__ import annotations

import math

from genz_core.errors import InvalidValue
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, mixture
from model_registry.spec import Block, FeedForward, Layer, Mamba, Mamba2, ModelSpec


@architecture("jamba")
def jamba(config: Config) -> ModelSpec:
    """One attention in eight layers, experts in every other one (arXiv:2403.19887)."""
    config.ignore("use_mamba_kernels")
    period = max(config.integer("attn_layer_period", 8), 1)
    offset = config.integer("attn_layer_offset", 4)
    every = max(config.integer("expert_layer_period", 2), 1)
    first = config.integer("expert_layer_offset", 1)
    hidden = config.integer("hidden_size")
    recurrence = Mamba(
        inner=config.integer("mamba_expand", 2) * hidden,
        state=config.integer("mamba_d_state", 16),
        rank=config.integer("mamba_dt_rank", math.ceil(hidden / 16)),
        kernel=config.integer("mamba_d_conv", 4),
        conv_bias=config.flag("mamba_conv_bias", True),
        bias=config.flag("mamba_proj_bias"),
        norms="rms",
    )
    mixer, experts, dense = attention(config, rope=False), mixture(config), feed_forward(config)
    layers = [
        Layer(
            (
                mixer if at % period == offset else recurrence,
                experts if at % every == first else dense,
            )
        )
        for at in range(layer_count(config))
    ]
    return decoder(config, layers)


_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_WORDS = {"linear_attention": "mamba", "full_attention": "attention"}


@architecture("nemotron_h")
def nemotron_h(config: Config) -> ModelSpec:
    """Layers of one block each, in an order given by a pattern (arXiv:2504.03624)."""
    config.ignore("expand", "mamba_hidden_act", "num_hidden_layers")
    config.ignore("moe_shared_expert_overlap", "sliding_window")
    config.ignore("layer_types", "moe_latent_size", "attention_bias")
    config.ignore("mtp_hybrid_override_pattern", "mtp_layers_block_type")
    blocks = _nemotron_blocks(config)
    kinds = _nemotron_kinds(config, "hybrid_override_pattern", "layers_block_type")
    predicts: list[str] = []
    if config.integer("num_nextn_predict_layers", 0):
        predicts = _nemotron_kinds(config, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    return decoder(
        config,
        [Layer((blocks[kind],)) for kind in kinds],
        prediction=tuple(Layer((blocks[kind],)) for kind in predicts),
    )


def _nemotron_kinds(config: Config, letters: str, words: str) -> list[str]:
    """Kind of each layer, from a string of letters or a list of words, by their keys."""
    spelled, listed = config.text(letters), config.sequence(words)
    kinds = [_LETTERS.get(letter, letter) for letter in spelled]
    kinds = kinds or [_WORDS.get(str(word), str(word)) for word in listed]
    unknown = sorted({str(kind) for kind in kinds} - set(_LETTERS.values()))
    if unknown or not kinds:
        fault = f"holds {unknown}" if unknown else "is missing"
        raise InvalidValue(
            f"{config.name}: the pattern of its layers {fault}; M, *, - and E are read"
        )
    return kinds


def _nemotron_blocks(config: Config) -> dict[str, Block]:
    bias = config.flag("mlp_bias")
    experts: Block = FeedForward(1)
    if "num_experts" in config:
        experts = mixture(
            config,
            gated=False,
            shared=config.integer("moe_shared_expert_intermediate_size", 0),
            shared_gated=False,
            latent=config.integer("moe_latent_size", 0),
        )
    return {
        "attention": attention(config, qkv_bias=False, rope=False),
        "mlp": feed_forward(config, gated=False, bias=bias),
        "moe": experts,
        "mamba": Mamba2(
            heads=config.integer("mamba_num_heads"),
            head_dim=config.integer("mamba_head_dim"),
            state=config.integer("ssm_state_size"),
            groups=config.integer("n_groups"),
            kernel=config.integer("conv_kernel", 4),
            conv_bias=config.flag("use_conv_bias", True),
            bias=config.flag("use_bias") or config.flag("mamba_proj_bias"),
        ),
    }
