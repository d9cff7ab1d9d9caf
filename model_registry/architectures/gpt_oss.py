"""gpt-oss: attention sinks, every other layer windowed, experts with biases (model card, 2025)."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, mixture, windows
from model_registry.spec import Layer, ModelSpec


@architecture("gpt_oss")
def gpt_oss(config: Config) -> ModelSpec:
    """Attention sinks in all layers, a window in every other, biases on router and experts."""
    config.ignore("initial_context_length", "swiglu_limit")
    experts = mixture(config, bias=True, router_bias=True)
    layers = [
        Layer((attention(config, sinks=True, window=window), experts))
        for window in windows(config, every=2)
    ]
    return decoder(config, layers)
