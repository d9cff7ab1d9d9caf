"""Multi-head attention with grouped keys and values, windows, chunks, sinks and gates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Op
from genz_core.operators import (
    Heads,
    attention,
    pointwise,
    rope,
    sparse_attention,
)
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num
from model_registry.blocks.context import context_exchange, context_part
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops, with_small_weights
from model_registry.blocks.indexer import index_scores
from model_registry.spec import Attention, Indexer


@block_ops.register
def attention_block(mixer: Attention, frame: DeviceFrame) -> Ops:
    """Operators: qkv_proj, norms of queries and keys, rope, attention, gate, o_proj.

    Queries, keys and values that a checkpoint stores in different formats are separate products.
    """
    heads, hidden = device_heads(mixer, frame), frame.spec.hidden
    made = heads.query * mixer.values
    where = "attention"
    out = frame.linear("o_proj", "attention.o", hidden, made, module=where, bias=mixer.output_bias)
    return (
        *_projections(mixer, heads, frame),
        *_norms(mixer, heads, frame),
        *_rope(mixer, heads, frame),
        *_block_indexer(mixer.indexer, frame),
        *attention_over_groups(mixer, heads, frame),
        *_gate(mixer, frame),
        *_inner_norm(mixer, heads, frame),
        out,
    )


def _inner_norm(mixer: Attention, heads: Heads, frame: DeviceFrame) -> Ops:
    if not mixer.inner_norm:
        return ()
    width = heads.query * mixer.values
    return (frame.small_norm("attention_inner_norm", frame.tokens, width, "attention"),)


def _projections(mixer: Attention, heads: Heads, frame: DeviceFrame) -> Ops:
    """One product for queries, keys and values, or one for each of their formats."""
    columns = _columns(mixer, heads, frame)
    read = mixer.inputs or frame.spec.hidden
    formats: dict[str, list[str]] = {}
    for name in columns:
        formats.setdefault(frame.types(f"attention.{name}").weights, []).append(name)
    if len(formats) == 1:
        return (_one_product(mixer, heads, frame, sum(columns.values()), read),)
    ops: list[Op] = []
    for names in formats.values():
        width = sum(columns[name] for name in names)
        op = frame.linear(
            f"{''.join(names)}_proj", f"attention.{names[0]}", width, read, module="attention"
        )
        biased = [name for name in names if mixer.qkv_bias and (mixer.key_bias or name != "k")]
        ops.append(with_small_weights(op, sum(columns[name] for name in biased)))
    return tuple(ops)


def _one_product(mixer: Attention, heads: Heads, frame: DeviceFrame, width: Num, read: int) -> Op:
    """A product with `width` output columns for queries, keys and values; `read`: width of its
    input.
    """
    whole = mixer.qkv_bias and mixer.key_bias
    qkv = frame.linear("qkv_proj", "attention.qkv", width, read, module="attention", bias=whole)
    if mixer.qkv_bias and not whole:
        return with_small_weights(qkv, width - heads.kv * mixer.head_dim)
    return qkv


def _columns(mixer: Attention, heads: Heads, frame: DeviceFrame) -> dict[str, Num]:
    """{"q", "k", "v": columns on one device}; the gate's columns are counted with the queries."""
    columns = {"q": heads.query * mixer.head_dim + mixer.gate_width / frame.par.tp}
    if mixer.shares_kv:
        return columns
    columns["k"] = heads.kv * mixer.head_dim
    return columns if mixer.keys_are_values else {**columns, "v": heads.kv * mixer.values}


def device_heads(mixer: Attention, frame: DeviceFrame) -> Heads:
    """Heads on one device; keys and values are replicated where tp exceeds their heads.

    Where neither number divides the other, an engine that pads heads gives each query head its own
    keys and values (NxD Inference, modules/attention/gqa.py, CONVERT_TO_MHA).
    """
    queries, shared = frame.part(mixer.heads), frame.shared_heads(mixer.kv_heads)
    tp, each = number(frame.par.tp), max(mixer.kv_heads, 1)
    even = (each % tp == 0) | (tp % each == 0)
    return Heads(
        query=queries,
        kv=np.where(even, shared, queries),
        dim=mixer.head_dim,
        value_dim=mixer.value_dim,
        window=mixer.window,
        causal=mixer.causal,
    )


def _norms(mixer: Attention, heads: Heads, frame: DeviceFrame) -> Ops:
    """Norms of queries and keys; "full" ones are split over tp, "head" ones are replicated."""
    if not mixer.norm:
        return ()
    sides = [("q_norm", heads.query)] + ([] if mixer.shares_kv else [("k_norm", heads.kv)])
    twice = 2.0 if mixer.norm_bias else 1.0
    return tuple(
        frame.small_norm(
            name,
            frame.tokens * count,
            mixer.head_dim,
            "attention",
            weights=twice * mixer.head_dim * (1.0 if mixer.norm == "head" else count),
        )
        for name, count in sides
    )


def _rope(mixer: Attention, heads: Heads, frame: DeviceFrame) -> Ops:
    if not mixer.rope:
        return ()
    keys = 0.0 if mixer.shares_kv else heads.kv
    where = frame.at("attention")
    return (rope("rope", frame.tokens, heads.query, keys, mixer.head_dim, frame.plain, **where),)


def _gate(mixer: Attention, frame: DeviceFrame) -> Ops:
    """Sigmoid gate on the heads' output: 5 FLOPs per element."""
    if not mixer.output_gate:
        return ()
    width = mixer.heads * mixer.values / frame.par.tp
    where = frame.at("attention")
    return (
        pointwise(
            "output_gate", "activation", frame.tokens * width, 5.0, frame.plain, reads=2.0, **where
        ),
    )


def attention_over_groups(mixer: Attention, heads: Heads, frame: DeviceFrame) -> Ops:
    """One attention for each group of the step, then the exchange of context parallelism."""
    ops: list[Op] = []
    for name, group in frame.numbered("attention"):
        op = context_part(_group_attention(name, mixer, heads, group, frame), group, frame)
        if mixer.shares_kv:
            op = replace(op, kv_write_bytes=0.0, held_kv_bytes=0.0)
        small = heads.query * (mixer.sinks + mixer.distances)
        ops.append(with_small_weights(op, small) if np.any(small) and not ops else op)
    return (*ops, *context_exchange(heads.kv_width, heads.query * heads.values, frame))


def _block_indexer(index: Indexer | None, frame: DeviceFrame) -> Ops:
    """Projection of index queries and keys, their norms, and a score per token and head."""
    if index is None:
        return ()
    heads, where = frame.shared_heads(index.heads), "attention.indexer"
    width = (heads + 1.0) * index.dim
    normed = frame.tokens * (heads + 1.0)
    return (
        frame.linear("indexer_proj", "attention.indexer", width, frame.spec.hidden, module=where),
        frame.small_norm("indexer_norm", normed, index.dim, where, weights=2 * index.dim),
        *index_scores(index, frame, heads),
    )


def _group_attention(
    name: str, mixer: Attention, heads: Heads, group: Group, frame: DeviceFrame
) -> Op:
    """The attention of a group before context parallelism divides it."""
    where = {"drafted": group.drafted, **frame.at("attention")}
    cached = number(group.cached_tokens)
    if mixer.indexer:
        return sparse_attention(
            name,
            group.sequences,
            group.new_tokens,
            cached,
            heads,
            mixer.indexer.top_k,
            frame.plain,
            **where,
        )
    inside = np.mod(cached, float(mixer.chunk)) if mixer.chunk else cached
    where |= {"cached": mixer.causal, "whole_cache": mixer.whole_cache}
    op = attention(name, group.sequences, group.new_tokens, inside, heads, frame.plain, **where)
    return _chunked(op, group, heads, frame, mixer) if mixer.chunk else op


def _chunked(op: Op, group: Group, heads: Heads, frame: DeviceFrame, mixer: Attention) -> Op:
    """Chunked attention: a query at position p sees the p mod chunk tokens before it.

    Pairs up to position t: w(w+1)/2 for every whole chunk of w and r(r+1)/2 for the rest.
    """
    new, cached = number(group.new_tokens), number(group.cached_tokens)
    chunk = mixer.chunk

    def pairs_to(position: Num) -> Num:
        whole, rest = np.divmod(position, float(chunk))
        return whole * chunk * (chunk + 1.0) / 2.0 + rest * (rest + 1.0) / 2.0

    pairs = pairs_to(cached + new) - pairs_to(cached)
    kept = cached + new if mixer.whole_cache else np.minimum(cached + new, float(chunk))
    token = heads.kv_width * bytes_of(frame.precision.kv)
    return replace(
        op,
        flops=2.0 * group.sequences * pairs * heads.query * (heads.dim + heads.values),
        held_kv_bytes=group.sequences * kept * token,
        dims={**op.dims, "pairs": pairs},
    )
