"""Attention of a decoder over the output of an encoder."""

from __future__ import annotations

import numpy as np

from genz_core.graphs import Op
from genz_core.operators import Heads, cross_attention, gemm
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops, with_small_weights
from model_registry.spec import CrossAttention


@block_ops.register
def cross_attention_block(mixer: CrossAttention, frame: DeviceFrame) -> Ops:
    """Operators: cross_q_proj, cross_kv_proj of what is newly encoded, attention, cross_o_proj."""
    heads = Heads(
        frame.part(mixer.heads),
        frame.shared_heads(mixer.kv_heads),
        mixer.head_dim,
        causal=False,
    )
    hidden, width, module = frame.spec.hidden, heads.query * mixer.head_dim, "cross_attention"
    role = "attention.qkv"
    query = frame.linear("cross_q_proj", role, width, hidden, module=module, bias=mixer.qkv_bias)
    out = frame.linear(
        "cross_o_proj", "attention.o", hidden, width, module=module, bias=mixer.output_bias
    )
    return (
        query,
        _keys_and_values(mixer, heads, frame),
        *_norms(mixer, heads, frame),
        *_over_groups(mixer, heads, frame),
        out,
    )


def _keys_and_values(mixer: CrossAttention, heads: Heads, frame: DeviceFrame) -> Op:
    """Keys and values of what the step encoded; weights are read only if it encoded anything."""
    rows = frame.newly_encoded
    types, where = frame.types("attention.qkv"), frame.at("cross_attention")
    inputs = mixer.inputs or frame.spec.hidden
    made = gemm("cross_kv_proj", rows, heads.kv_width, inputs, types, **where)
    biases = (mixer.qkv_bias + mixer.key_bias) * heads.kv * mixer.head_dim
    return with_small_weights(made, biases) if np.any(biases) else made


def _norms(mixer: CrossAttention, heads: Heads, frame: DeviceFrame) -> Ops:
    if not mixer.norm:
        return ()
    sides = (
        ("cross_q_norm", frame.tokens * heads.query),
        ("cross_k_norm", frame.newly_encoded * heads.kv),
    )
    return tuple(
        frame.small_norm(name, rows, mixer.head_dim, "cross_attention") for name, rows in sides
    )


def _over_groups(mixer: CrossAttention, heads: Heads, frame: DeviceFrame) -> Ops:
    """One attention for each group of the step, over everything that was encoded for it."""
    ops: list[Op] = []
    pairs = zip(frame.numbered("cross_attention"), frame.encoded, strict=True)
    for (name, group), source in pairs:
        op = cross_attention(
            name,
            group.sequences,
            group.new_tokens,
            source.tokens,
            heads,
            frame.plain,
            projected=source.fresh,
            **frame.at("cross_attention"),
        )
        ops.append(with_small_weights(op, mixer.gates) if mixer.gates and not ops else op)
    return tuple(ops)
