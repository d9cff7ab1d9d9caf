"""Open Language Model: first norms without weights, later norms after the blocks; experts
in OLMoE.
"""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import (
    attention,
    decoder,
    feed_forward,
    layer_count,
    mixture,
    windows,
)
from model_registry.spec import DeltaNet, Layer, ModelSpec


@architecture("olmo")
def olmo(config: Config) -> ModelSpec:
    """Llama's layer with norms without weights."""
    return decoder(config, Layer((attention(config), feed_forward(config))), norm="without_weights")


@architecture("olmo2", "olmo3")
def olmo2(config: Config) -> ModelSpec:
    """Norms behind the blocks, and over all heads of queries and keys; windows in OLMo 3."""
    layers = [
        Layer((attention(config, norm="full", window=window), feed_forward(config)), norms="after")
        for window in windows(config, every=4)
    ]
    return decoder(config, layers)


@architecture("olmoe")
def olmoe(config: Config) -> ModelSpec:
    """Norms over all heads of queries and keys, experts in every layer."""
    return decoder(config, Layer((attention(config, norm="full"), mixture(config))))


@architecture("flex_olmo")
def flex_olmo(config: Config) -> ModelSpec:
    """OLMo 2's layer with experts in place of the feed-forward."""
    return decoder(config, Layer((attention(config, norm="full"), mixture(config)), norms="after"))


@architecture("olmo_hybrid")
def olmo_hybrid(config: Config) -> ModelSpec:
    """Gated DeltaNet layers with norms before blocks; every fourth layer is OLMo 3's attention."""
    config.ignore(
        "linear_a_log_max", "linear_a_log_min", "linear_allow_neg_eigval", "linear_use_gate"
    )
    config.ignore(
        "linear_dt_init_floor", "linear_dt_max", "linear_dt_min", "fla_hybrid_attention_indices"
    )
    count = layer_count(config)
    linear = DeltaNet(
        key_heads=config.integer("linear_num_key_heads", config.integer("num_attention_heads")),
        value_heads=config.integer("linear_num_value_heads", config.integer("num_attention_heads")),
        key_dim=config.integer("linear_key_head_dim"),
        value_dim=config.integer("linear_value_head_dim"),
        kernel=config.integer("linear_conv_kernel_dim", 4),
    )
    default = ["full_attention" if (at + 1) % 4 == 0 else "linear" for at in range(count)]
    turned = config.value("rope_parameters") is not None
    full = Layer((attention(config, norm="full", rope=turned), feed_forward(config)), norms="after")
    other = Layer((linear, feed_forward(config)))
    kinds = config.pattern("layer_types", count, default)
    return decoder(config, [full if kind == "full_attention" else other for kind in kinds])
