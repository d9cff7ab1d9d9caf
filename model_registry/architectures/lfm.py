"""LFM2: gated short convolutions, every few layers an attention; experts in LFM2-MoE."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count, mixture
from model_registry.spec import Attention, FeedForward, Layer, ModelSpec, ShortConvolution


def _mixers(config: Config) -> list[Attention | ShortConvolution]:
    count, hidden = layer_count(config), config.integer("hidden_size")
    config.ignore("conv_dim", "conv_dim_out", "block_dim", "conv_use_xavier_init")
    config.ignore("block_mlp_init_scale", "block_norm_eps", "block_out_init_scale")
    config.ignore("block_use_swiglu", "block_use_xavier_init", "use_pos_enc", "num_heads")
    full = set(config.integers("full_attn_idxs", range(count)))
    default = ["full_attention" if at in full else "conv" for at in range(count)]
    mixer = attention(config, norm="head")
    conv = ShortConvolution(
        channels=hidden,
        kernel=config.integer("conv_L_cache", 3),
        bias=config.flag("conv_bias"),
    )
    kinds = config.pattern("layer_types", count, default)
    return [mixer if kind == "full_attention" else conv for kind in kinds]


@architecture("lfm2")
def lfm2(config: Config) -> ModelSpec:
    """The feed-forward is two thirds of the stated width, scaled, rounded up to a multiple."""
    width = config.integer("block_ff_dim", 0) or config.integer("intermediate_size")
    multiple = config.at_least_one("block_multiple_of", 256)
    factor = config.factor("block_ffn_dim_multiplier", 1.0)
    if config.flag("block_auto_adjust_ff_dim", True):
        scaled = int(factor * int(2 * width / 3))
        width = multiple * -(-scaled // multiple)
    layers = [Layer((mixer, FeedForward(width))) for mixer in _mixers(config)]
    return decoder(config, layers, tied=config.flag("tie_embedding", True))


@architecture("lfm2_moe")
def lfm2_moe(config: Config) -> ModelSpec:
    """Experts after the first layers."""
    config.ignore("use_expert_bias", "routed_scaling_factor")
    dense = config.integer("num_dense_layers", 2)
    layers = [
        Layer((mixer, feed_forward(config) if at < dense else mixture(config)))
        for at, mixer in enumerate(_mixers(config))
    ]
    return decoder(config, layers, tied=config.flag("tie_embedding", True))
