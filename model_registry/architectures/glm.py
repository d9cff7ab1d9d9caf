"""GLM-4 and GLM-4.5: biases on queries, keys and values; experts in GLM-4.5."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, feed_forwards
from model_registry.spec import Layer, ModelSpec


@architecture("glm")
def glm(config: Config) -> ModelSpec:
    """GLM-4: biases on queries, keys and values, norms in front of the blocks."""
    mixer = attention(config, qkv_bias=config.flag("attention_bias"))
    return decoder(config, Layer((mixer, feed_forward(config))))


@architecture("glm4")
def glm4(config: Config) -> ModelSpec:
    """Norms in front of the blocks and behind them."""
    mixer = attention(config, qkv_bias=config.flag("attention_bias"))
    return decoder(config, Layer((mixer, feed_forward(config)), norms="both"))


@architecture("glm4_moe", "glm4v_moe_text")
def glm4_moe(config: Config) -> ModelSpec:
    """GLM-4.5: experts behind a first dense layer, norms on queries and keys if switched on."""
    norm = "head" if config.flag("use_qk_norm") else ""
    mixer = attention(config, qkv_bias=config.flag("attention_bias"), norm=norm)
    layers = [Layer((mixer, block)) for block in feed_forwards(config, first_dense=1)]
    return decoder(config, layers)
