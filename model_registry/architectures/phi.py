"""Phi: parallel blocks with biases at first, Llama's layer later, experts in Phi-MoE."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("phi")
def phi(config: Config) -> ModelSpec:
    """Phi-1 to Phi-2: attention and a plain feed-forward side by side, biases everywhere."""
    norm = "head" if config.flag("qk_layernorm") else ""
    mixer = attention(config, qkv_bias=True, output_bias=True, norm=norm, norm_bias=True)
    layer = Layer((mixer, feed_forward(config, gated=False, bias=True)), parallel=True)
    return decoder(config, layer, norm="layer", head_bias=True)


@architecture("phi3", "phi4_multimodal")
def phi3(config: Config) -> ModelSpec:
    """Phi-3 and Phi-4: fused projections without biases, a window over all layers."""
    config.ignore("speech_lora", "vision_lora", "embd_layer", "img_processor", "audio_processor")
    window = config.integer("sliding_window", 0)
    return decoder(config, Layer((attention(config, window=window), feed_forward(config))))


@architecture("phimoe")
def phimoe(config: Config) -> ModelSpec:
    """Phi-3.5-MoE: layer norms, biases on attention and head, sixteen experts."""
    mixer = attention(config, window=config.integer("sliding_window", 0))
    layer = Layer((mixer, mixture(config)))
    bias = config.flag("lm_head_bias")
    return decoder(config, layer, norm="layer", head_bias=bias)
