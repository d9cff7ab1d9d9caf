"""Moondream 3: parallel attention and feed-forward, experts from the fifth layer on."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, experts_at, feed_forward, mixture
from model_registry.spec import Layer, ModelSpec

_NOTE = (
    "the text model alone: its image encoder, its heads for points and boxes, and the temperatures "
    "of its attention (0.1 % of its parameters) are not described"
)


@architecture("moondream3")
def moondream3(config: Config) -> ModelSpec:
    """Both blocks of a layer read one norm; dense layers have biases, experts have none.

    Sources: moondream/moondream3-preview, model card; vLLM, models/moondream3.py.
    """
    mixer = attention(config, qkv_bias=True, output_bias=True)
    dense = feed_forward(config, gated=False, bias=True)
    experts = mixture(config, router_bias=True)
    layers = [
        Layer((mixer, experts if on else dense), parallel=True)
        for on in experts_at(config, first_dense=4)
    ]
    return decoder(config, layers, norm="layer", head_bias=True, notes=(_NOTE,))
