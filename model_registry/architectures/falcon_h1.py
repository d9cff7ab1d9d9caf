"""Falcon-H1: parallel attention and Mamba 2 in every layer."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward
from model_registry.spec import Layer, Mamba2, ModelSpec, SideBySide


@architecture("falcon_h1")
def falcon_h1(config: Config) -> ModelSpec:
    """Both mixers read one norm's output (arXiv:2507.22448)."""
    config.ignore(
        "mamba_chunk_size", "mamba_norm_before_gate", "mamba_use_mlp", "mlp_expansion_factor"
    )
    config.ignore("mlp_multipliers", "ssm_multipliers", "lm_head_multiplier", "time_step_rank")
    config.ignore("attn_layer_indices", "mamba_d_head", "mamba_expand", "projectors_bias")
    heads = config.integer("mamba_n_heads", 128)
    inner = config.integer("mamba_d_ssm", 0)
    inner = inner or config.integer("mamba_expand", 2) * config.integer("hidden_size")
    bias = config.flag("projectors_bias")
    recurrence = Mamba2(
        heads=heads,
        head_dim=inner // heads,
        state=config.integer("mamba_d_state", 256),
        groups=config.integer("mamba_n_groups", 1),
        kernel=config.integer("mamba_d_conv", 4),
        conv_bias=config.flag("mamba_conv_bias", True),
        bias=config.flag("mamba_proj_bias") or bias,
        gated_norm=config.flag("mamba_rms_norm"),
    )
    layer = Layer((SideBySide((attention(config), recurrence)), feed_forward(config)))
    return decoder(config, layer)
