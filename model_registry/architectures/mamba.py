"""Mamba and Mamba 2: layers of one recurrence each, no attention."""

from __future__ import annotations

import math

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder
from model_registry.spec import Layer, Mamba, Mamba2, ModelSpec


@architecture("mamba", "falcon_mamba")
def mamba(config: Config) -> ModelSpec:
    """State-spaces' Mamba, and Falcon-Mamba with norms inside (arXiv:2410.05355)."""
    config.ignore("expand", "intermediate_size", "ssm_cfg", "rms_norm")
    config.ignore("fused_add_norm", "pad_vocab_size_multiple", "mixer_rms_eps", "use_mambapy")
    config.ignore("use_associative_scan", "use_falcon_mambapy")
    hidden = config.integer("hidden_size")
    inner = config.integer("intermediate_size", 0) or config.integer("expand", 2) * hidden
    rank = config.value("time_step_rank", "auto")
    mixer = Mamba(
        inner=inner,
        state=config.integer("state_size", 16),
        rank=math.ceil(hidden / 16) if rank == "auto" else config.integer("time_step_rank"),
        kernel=config.integer("conv_kernel", 4),
        conv_bias=config.flag("use_conv_bias", True),
        bias=config.flag("use_bias"),
        norms="without_weights" if config.model_type == "falcon_mamba" else "",
    )
    return decoder(config, Layer((mixer,)), tied=config.model_type == "mamba")


@architecture("mamba2")
def mamba2(config: Config) -> ModelSpec:
    """State-space duality models, Codestral Mamba among them."""
    config.ignore("time_step_rank", "norm_before_gate", "rms_norm")
    mixer = Mamba2(
        heads=config.integer("num_attention_heads"),
        head_dim=config.integer("head_dim", 64),
        state=config.integer("state_size", 128),
        groups=config.integer("n_groups", 8),
        kernel=config.integer("conv_kernel", 4),
        conv_bias=config.flag("use_conv_bias", True),
        bias=config.flag("use_bias"),
    )
    config.ignore("expand")
    return decoder(config, Layer((mixer,)))
