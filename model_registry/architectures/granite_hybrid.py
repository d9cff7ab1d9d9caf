"""Granite 4: Mamba 2 and a few attentions, experts beside a shared feed-forward."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, layer_count, mixture
from model_registry.spec import Block, FeedForward, Layer, Mamba2, ModelSpec


@architecture("granitemoehybrid", "granitemoeshared")
def granite_hybrid(config: Config) -> ModelSpec:
    """Without experts the shared feed-forward is the only one."""
    config.ignore("mamba_chunk_size", "intermediate_size", "normalization_function", "init_method")
    count = layer_count(config)
    kinds = config.pattern("layer_types", count, ["attention"] * count)
    position = config.value("position_embedding_type", "rope")
    mixer = attention(config, rope=position == "rope")
    recurrent = any("attention" not in str(kind) or "linear" in str(kind) for kind in kinds)
    recurrence = _mamba(config) if recurrent else mixer
    shared = config.integer("shared_intermediate_size", 0)
    block: Block = FeedForward(shared or config.integer("intermediate_size"))
    if config.integer("num_experts", 0):
        block = mixture(config, shared=shared)
    layers = [
        Layer((mixer if kind in ("attention", "full_attention") else recurrence, block))
        for kind in kinds
    ]
    return decoder(config, layers)


def _mamba(config: Config) -> Mamba2:
    heads = config.integer("mamba_n_heads", 128)
    inner = config.integer("mamba_expand", 2) * config.integer("hidden_size")
    width = config.value("mamba_d_head", "auto")
    return Mamba2(
        heads=heads,
        head_dim=inner // heads if width == "auto" else config.integer("mamba_d_head"),
        state=config.integer("mamba_d_state", 256),
        groups=config.integer("mamba_n_groups", 1),
        kernel=config.integer("mamba_d_conv", 4),
        conv_bias=config.flag("mamba_conv_bias", True),
        bias=config.flag("mamba_proj_bias"),
    )
