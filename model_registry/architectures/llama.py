"""Llama and models built like it: RMS norms, rotary positions, gated feed-forward."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count
from model_registry.spec import Layer, ModelSpec


@architecture("llama", "iquestcoder", "helium", "granite")
def llama(config: Config) -> ModelSpec:
    """Llama 1 to 3, Yi, TinyLlama, DeepSeek-LLM, SmolLM: one kind of layer.

    Granite has multipliers on embeddings, attention, residuals and logits.
    """
    return decoder(config, Layer((attention(config), feed_forward(config))))


@architecture("mistral", "ministral", "ministral3", "cwm")
def mistral(config: Config) -> ModelSpec:
    """Mistral: Llama's layer, in the first releases with a sliding window everywhere."""
    window = config.integer("sliding_window", 0)
    kinds = config.pattern(
        "layer_types", layer_count(config), ["sliding_attention"] * layer_count(config)
    )
    layers = [
        Layer((attention(config, window=window * ("sliding" in kind)), feed_forward(config)))
        for kind in kinds
    ]
    return decoder(config, layers)
