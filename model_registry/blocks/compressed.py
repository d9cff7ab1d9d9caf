"""Attention over a window and compressed tokens (DeepSeek-V4, section 2.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Op
from genz_core.operators import (
    Heads,
    attended_pairs,
    attention,
    batched_gemm,
    pointwise,
    rope,
)
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num
from model_registry.blocks.context import context_exchange, context_part
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops, with_small_weights
from model_registry.blocks.indexer import index_scores
from model_registry.spec import CompressedAttention


@block_ops.register
def compressed_block(mixer: CompressedAttention, frame: DeviceFrame) -> Ops:
    """Operators: projections, compressor, indexer, attention, grouped output projection."""
    heads = Heads(frame.part(mixer.heads), 1.0, mixer.head_dim, shared_kv=True)
    where = frame.at("attention")
    return (
        *_projections(mixer, frame, heads),
        rope("rope", frame.tokens, 2.0 * heads.query, 1.0, mixer.rope_dim, frame.plain, **where),
        *_compressor("compressor", mixer, frame, mixer.head_dim),
        *_indexer(mixer, frame),
        *_attentions(mixer, heads, frame),
        *context_exchange(heads.kv_width, heads.query * heads.values, frame),
        *_output(mixer, frame),
    )


def _projections(mixer: CompressedAttention, frame: DeviceFrame, heads: Heads) -> Ops:
    hidden, module = frame.spec.hidden, "attention"
    width = heads.query * mixer.head_dim
    rows = frame.tokens * heads.query
    return (
        frame.linear("q_a_proj", "attention.q_a", mixer.query_rank, hidden, module=module),
        frame.small_norm("q_a_norm", frame.tokens, mixer.query_rank, module),
        frame.linear("q_b_proj", "attention.q_b", width, mixer.query_rank, module=module),
        frame.small_norm("q_b_norm", rows, mixer.head_dim, module, weights=0.0),
        frame.linear("kv_proj", "attention.kv_a", mixer.head_dim, hidden, module=module),
        frame.small_norm("kv_norm", frame.tokens, mixer.head_dim, module),
    )


def _compressor(name: str, mixer: CompressedAttention, frame: DeviceFrame, width: int) -> Ops:
    """Keys and gates of every series, a softmax over each window's tokens, a norm on the entry."""
    if not mixer.ratio:
        return ()
    module, columns = f"attention.{name}", mixer.series * width
    entries = frame.tokens / mixer.ratio
    role = "attention.kv_a" if name == "compressor" else "attention.indexer"
    where = frame.at(module)
    pooled = pointwise(
        f"{name}_pool",
        "activation",
        frame.tokens * columns,
        8.0,
        frame.plain,
        reads=2.0,
        writes=1.0 / mixer.ratio / mixer.series,
        weights=mixer.ratio * columns,
        **where,
    )
    return (
        frame.linear(f"{name}_proj", role, 2.0 * columns, frame.spec.hidden, module=module),
        pooled,
        frame.small_norm(f"{name}_norm", entries, width, module),
    )


def _indexer(mixer: CompressedAttention, frame: DeviceFrame) -> Ops:
    """Scores of compressed index keys; index queries are projected from the queries' rank."""
    index = mixer.indexer
    if index is None:
        return ()
    role, module = "attention.indexer", "attention.indexer"
    width = index.heads * index.dim
    return (
        *_compressor("indexer", mixer, frame, index.dim),
        frame.linear("indexer_q_proj", role, width, mixer.query_rank, module=module),
        frame.linear("indexer_weights_proj", role, index.heads, frame.spec.hidden, module=module),
        *index_scores(index, frame, index.heads * 1.0, ratio=mixer.ratio),
    )


def _attentions(mixer: CompressedAttention, heads: Heads, frame: DeviceFrame) -> Ops:
    ops = [
        _group_attention(name, mixer, heads, group, frame)
        for name, group in frame.numbered("attention")
    ]
    return (with_small_weights(ops[0], heads.query), *ops[1:])


def _group_attention(
    name: str, mixer: CompressedAttention, heads: Heads, group: Group, frame: DeviceFrame
) -> Op:
    """One attention with as many pairs as the window and the compressed entries together."""
    new, cached = number(group.new_tokens), number(group.cached_tokens)
    pairs = attended_pairs(new, cached, mixer.window) + _entry_pairs(mixer, new, cached)
    where = {"kind": "sparse_attention", "drafted": group.drafted, **frame.at("attention")}
    op = attention(name, group.sequences, new, cached, heads, frame.plain, **where)
    token = group.sequences * mixer.head_dim * bytes_of(frame.precision.kv)
    whole = replace(
        op,
        flops=4.0 * group.sequences * pairs * heads.query * mixer.head_dim,
        kv_read_bytes=token * _kept(mixer, cached, new),
        kv_write_bytes=token * new * (1.0 + (1.0 / mixer.ratio if mixer.ratio else 0.0)),
        held_kv_bytes=token * _held(mixer, cached + new),
        dims={**op.dims, "pairs": pairs},
    )
    part = context_part(whole, group, frame)
    return replace(part, dims={**part.dims, **_as_plain(part.dims["pairs"], frame.local(group))})


def _entry_pairs(mixer: CompressedAttention, new: Num, cached: Num) -> Num:
    """(query, compressed entry) pairs: a query at position p attends to floor(p / ratio) entries,
    or to those that its indexer keeps.
    """
    if not mixer.ratio:
        return np.float64(0.0)
    return _entries_to(mixer, cached + new) - _entries_to(mixer, cached)


def _entries_to(mixer: CompressedAttention, position: Num) -> Num:
    """Sum of floor(p / ratio) for p up to `position`, each at most the indexer's choice."""
    limit = mixer.indexer.top_k if mixer.indexer else np.inf
    counted = np.minimum(position, limit * mixer.ratio)
    whole, rest = np.divmod(counted, float(mixer.ratio))
    full = mixer.ratio * whole * (whole - 1.0) / 2.0 + whole * (rest + 1.0)
    beyond = np.maximum(position - counted, 0.0)
    return full + np.where(beyond > 0, beyond * (limit if np.isfinite(limit) else 0.0), 0.0)


def _kept(mixer: CompressedAttention, cached: Num, new: Num) -> Num:
    """Cached entries that the new queries read: the rest of the window and the compressed ones."""
    window = np.minimum(cached, mixer.window - 1.0)
    if not mixer.ratio:
        return window
    entries = np.floor(cached / mixer.ratio)
    return window + (np.minimum(entries, new * mixer.indexer.top_k) if mixer.indexer else entries)


def _held(mixer: CompressedAttention, tokens: Num) -> Num:
    """Entries of a sequence in the cache: its window and every compressed one."""
    entries = np.floor(tokens / mixer.ratio) if mixer.ratio else 0.0
    return np.minimum(tokens, float(mixer.window)) + entries


def _as_plain(pairs: Num, new: Num) -> dict[str, Num]:
    """Dimensions of a plain attention with as many pairs for as many new tokens."""
    mean = pairs / np.maximum(new, 1.0)
    rest = mean - (new + 1.0) / 2.0
    return {
        "new_tokens": new,
        "cached_tokens": np.maximum(rest, 0.0),
        "window": np.where(rest < 0, np.maximum(mean, 1.0), 0.0),
    }


def _output(mixer: CompressedAttention, frame: DeviceFrame) -> Ops:
    """Projections of each group of heads to its rank, then of all ranks to the model's width."""
    groups = frame.shared_heads(mixer.output_groups)
    inner = frame.part(mixer.heads) * mixer.head_dim / groups
    return (
        batched_gemm(
            "o_a_proj",
            groups,
            frame.tokens,
            float(mixer.output_rank),
            inner,
            frame.types("attention.o"),
            **frame.at("attention"),
        ),
        frame.linear(
            "o_b_proj",
            "attention.o",
            frame.spec.hidden,
            groups * mixer.output_rank,
            module="attention",
        ),
    )
