"""T5Gemma: two stacks of Gemma 2's layers, each with its own sizes and token table."""

from __future__ import annotations

from dataclasses import replace

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, feed_forward, windows
from model_registry.spec import CrossAttention, Layer, ModelSpec


@architecture("t5gemma")
def t5gemma(config: Config) -> ModelSpec:
    """T5Gemma (arXiv:2504.06225): windows in every other layer, norms before and after each block.

    The decoder attends to all of the encoder's output between its attention and feed-forward.
    """
    config.ignore("encoder", "decoder", "vocab_size")
    tied = config.flag("tie_word_embeddings", True)
    first, second = (_stack(config, side) for side in ("encoder", "decoder"))
    inner = decoder(first, _encoder_layers(first), tied=True, kind="encoder")
    layers = _decoder_layers(second, inner.hidden)
    own = decoder(second, layers, kind="encoder-decoder", encoder=inner)
    for stack in (first, second):
        stack.refuse_unknown()
    return replace(own, tied=tied)


def _stack(config: Config, side: str) -> Config:
    """The reader of one stack's keys."""
    own = Config({**config.section(side).raw, "model_type": config.model_type}, config.name)
    own.ignore("cross_attention_hidden_size", "tie_word_embeddings", "max_position_embeddings")
    return own


def _encoder_layers(config: Config) -> list[Layer]:
    """Attention windows extend in both directions."""
    dense = feed_forward(config)
    return [
        Layer((attention(config, window=around, causal=False), dense), norms="both")
        for around in (2 * window + 1 if window else 0 for window in windows(config, every=2))
    ]


def _decoder_layers(config: Config, encoded: int) -> list[Layer]:
    """encoded: width of what the layers attend to."""
    dense = feed_forward(config)
    layers = []
    for window in windows(config, every=2):
        own = attention(config, window=window)
        across = CrossAttention(own.heads, own.kv_heads, own.head_dim, inputs=encoded)
        layers.append(Layer((own, across, dense), norms="both"))
    return layers
