"""Readers of the parts that encoder-decoders share: two stacks with one token table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from model_registry.graph.keys import Config
from model_registry.spec import (
    Attention,
    CrossAttention,
    FeedForward,
    Layer,
    ModelSpec,
    SoundInput,
)
from model_registry.spec.norms import Norm


@dataclass(frozen=True, slots=True)
class Stack:
    """One of two stacks: its layers, input and output, see `ModelSpec`."""

    layers: tuple[Layer, ...]
    positions: int = 0
    embedding_norm: bool = False
    final_norm: bool = True
    sound: SoundInput | None = None


def encoder_decoder(
    config: Config,
    encoder: Stack,
    decoder: Stack,
    *,
    norm: Norm = "layer",
    tied: bool = True,
    **more: Any,
) -> ModelSpec:
    """The spec of two stacks; the encoder uses the decoder's table, if it has one.

    tied: whether the head is the table where the config does not state it.  more: fields of
    `ModelSpec`.
    """
    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    common: dict[str, Any] = {
        "name": config.name,
        "model_type": config.model_type,
        "hidden": hidden,
        "vocabulary": rows,
        "norm": norm,
    }
    first, second = (
        ModelSpec(
            **common,
            layers=stack.layers,
            positions=stack.positions,
            embedding_norm=stack.embedding_norm,
            final_norm=stack.final_norm,
            sound=stack.sound,
            tied=True if kind == "encoder" else config.flag("tie_word_embeddings", tied),
            kind=kind,  # type: ignore[arg-type]
            **extra,
        )
        for stack, kind, extra in (
            (encoder, "encoder", {}),
            (decoder, "encoder-decoder", more),
        )
    )
    return replace(second, encoder=first, shared_table=encoder.sound is None)


def biased_layers(
    config: Config, side: str, *, norm_first: bool, key_bias: bool = True
) -> tuple[Layer, ...]:
    """Layers of BART's kind: biases everywhere, a plain feed-forward, no rotary positions.

    side: "encoder" or "decoder", the prefix of its keys.  norm_first: norms before blocks.
    key_bias: of the projections to keys.
    """
    heads = config.integer(f"{side}_attention_heads")
    width = config.integer("hidden_size") // heads
    dense = FeedForward(config.integer(f"{side}_ffn_dim"), gated=False, bias=True)
    mixer = Attention(
        heads, heads, width, qkv_bias=True, key_bias=key_bias, output_bias=True, rope=False,
        causal=side == "decoder",
    )  # fmt: skip
    cross = CrossAttention(heads, heads, width, qkv_bias=True, key_bias=key_bias, output_bias=True)
    blocks = (mixer, dense) if side == "encoder" else (mixer, cross, dense)
    layer = Layer(blocks, norms="before" if norm_first else "after")
    return (layer,) * config.integer(f"{side}_layers")
