"""Llama 3.2 Vision: Llama's layers, interleaved with layers that attend only to an image."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, layer_count
from model_registry.spec import CrossAttention, Layer, ModelSpec

_USUAL = (3, 8, 13, 18, 23, 28, 33, 38)


@architecture("mllama_text_model")
def mllama(config: Config) -> ModelSpec:
    """Layers with cross-attention are skipped for a request without an image (arXiv:2407.21783).

    The token table has eight rows for image placeholders, which the head does not score.
    """
    mixer, dense = attention(config), feed_forward(config)
    cross = CrossAttention(mixer.heads, mixer.kv_heads, mixer.head_dim, norm=True, gates=2)
    across = set(config.integers("cross_attention_layers", _USUAL))
    layers = [Layer((cross if at in across else mixer, dense)) for at in range(layer_count(config))]
    return decoder(config, layers, table_rows=8)
