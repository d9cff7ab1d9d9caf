"""BitNet b1.58: Llama's layers with ternary weights and a norm inside each block."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward
from model_registry.spec import Layer, ModelSpec


@architecture("bitnet")
def bitnet(config: Config) -> ModelSpec:
    """BitNet b1.58 2B4T (arXiv:2504.12285): squared ReLU, norms in front of both last products."""
    layer = Layer(
        (attention(config, inner_norm=True), feed_forward(config, inner_norm=True)),
    )
    return decoder(config, layer)
