"""Multi-head latent attention, dense and sparse.

Two forms of the same attention, each with its own cost.  Expanded: keys and values of all tokens
in reach are made from the latents and attended head by head.  Absorbed: queries are carried into
the latent space and attend to the one shared latent.  Every group takes the form with fewer FLOPs
(one that generates, and a sparse attention that leaves tokens out, always the absorbed one); both
are in the graph, the other without work.
Source: arXiv:2405.04434, section 2.1; arXiv:2412.19437, section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genz_core.operators import (
    Heads,
    attended_pairs,
    attention,
    batched_gemm,
    gemm,
    pointwise,
    rope,
    sparse_attention,
)
from genz_core.precision import bytes_of
from genz_core.types import Group, Num, Op
from model_registry.blocks.context import context_exchange, context_part
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops
from model_registry.blocks.indexer import index_scores
from model_registry.spec import LatentAttention


@block_ops.register
def latent_block(mixer: LatentAttention, frame: DeviceFrame) -> Ops:
    """Operators: projections of queries and latents, attention in both forms, o_proj."""
    heads = mixer.heads / np.asarray(frame.par.tp, dtype=float)
    parts = [_GroupForm.of(mixer, group) for group in frame.groups]
    out = frame.linear(
        "o_proj",
        "attention.o",
        frame.spec.hidden,
        heads * mixer.value_dim,
        module="attention",
        bias=mixer.bias,
    )
    where = frame.at("attention")
    turned = rope("rope", frame.tokens, heads, 1.0, mixer.rope_dim, frame.plain, **where)
    return (
        *_queries(mixer, frame, heads),
        *_latents(mixer, frame),
        *((turned,) if mixer.rotates else ()),
        *_indexer(mixer, frame),
        *_expanded(mixer, frame, heads, parts),
        *_absorbed(mixer, frame, heads, parts),
        *context_exchange(mixer.cache_width, heads * mixer.kv_rank, frame),
        *_output_gate(mixer, frame, heads),
        out,
    )


# ------------------------------------------------------------------------------- projections


def _queries(mixer: LatentAttention, frame: DeviceFrame, heads: Num) -> Ops:
    """q_proj, or projections down to the queries' rank and up, with a norm between."""
    width, hidden = heads * mixer.query_dim, frame.spec.hidden
    if not mixer.query_rank:
        return (frame.linear("q_proj", "attention.q", width, hidden, module="attention"),)
    return (
        frame.linear(
            "q_a_proj",
            "attention.q_a",
            mixer.query_rank,
            hidden,
            module="attention",
            bias=mixer.bias,
        ),
        frame.small_norm("q_a_norm", frame.tokens, mixer.query_rank, "attention"),
        frame.linear("q_b_proj", "attention.q_b", width, mixer.query_rank, module="attention"),
    )


def _latents(mixer: LatentAttention, frame: DeviceFrame) -> Ops:
    """The latent and the rotary key of every new token; copied on every tp device."""
    return (
        frame.linear(
            "kv_a_proj",
            "attention.kv_a",
            mixer.cache_width,
            frame.spec.hidden,
            module="attention",
            bias=mixer.bias,
        ),
        frame.small_norm("kv_a_norm", frame.tokens, mixer.kv_rank, "attention"),
    )


def _output_gate(mixer: LatentAttention, frame: DeviceFrame, heads: Num) -> Ops:
    if not mixer.output_gate:
        return ()
    width = heads * mixer.value_dim
    gate = frame.linear("gate_proj", "attention.q", width, frame.spec.hidden, module="attention")
    scaled = pointwise(
        "output_gate",
        "activation",
        frame.tokens * width,
        5.0,
        frame.plain,
        reads=2.0,
        **frame.at("attention"),
    )
    return (gate, scaled)


# ------------------------------------------------------------------------------- the two forms


@dataclass(frozen=True, slots=True)
class _GroupForm:
    """A group of the step and the form it takes: absorbed is 1 or 0 for each configuration."""

    group: Group
    absorbed: Num

    @classmethod
    def of(cls, mixer: LatentAttention, group: Group) -> _GroupForm:
        """The form with fewer FLOPs a head; the absorbed one where a sparse attention leaves tokens
        out, which only it can."""
        n, c = np.asarray(group.new_tokens, float), np.asarray(group.cached_tokens, float)
        made, pairs = mixer.nope_dim + mixer.value_dim, attended_pairs(n, c)
        expanded = (n + c) * mixer.kv_rank * made + pairs * (mixer.query_dim + mixer.value_dim)
        absorbed = n * mixer.kv_rank * made + pairs * (mixer.cache_width + mixer.kv_rank)
        chosen = group.generates | (absorbed < expanded)
        if mixer.indexer:
            chosen = chosen | (n + c > mixer.indexer.top_k)
        return cls(group, chosen * 1.0)

    def sequences(self, *, absorbed: bool) -> Num:
        """Sequences of the group, if it takes this form; else 0."""
        return self.group.sequences * (self.absorbed if absorbed else 1.0 - self.absorbed)


def _tokens(
    parts: list[_GroupForm], frame: DeviceFrame, *, absorbed: bool, cached: bool = False
) -> Num:
    """Tokens of the groups that take a form: the new ones, or the cached ones."""
    return sum(
        (
            part.sequences(absorbed=absorbed)
            * (part.group.cached_tokens / frame.par.cp if cached else frame.local(part.group))
            for part in parts
        ),
        start=np.float64(0.0),
    )


def _expanded(
    mixer: LatentAttention, frame: DeviceFrame, heads: Num, parts: list[_GroupForm]
) -> Ops:
    """kv_b_proj over every token in reach, then attention with as many key heads as queries."""
    reach = _tokens(parts, frame, absorbed=False) + _tokens(
        parts, frame, absorbed=False, cached=True
    )
    where = frame.at("attention")
    up = gemm(
        "kv_b_proj",
        reach,
        heads * (mixer.nope_dim + mixer.value_dim),
        mixer.kv_rank,
        frame.types("attention.kv_b"),
        **where,
    )
    shape = Heads(heads, heads, mixer.query_dim, mixer.value_dim)
    ops = [
        _group_expanded(name, part, mixer, shape, frame)
        for (name, _), part in zip(frame.numbered("attention_expanded"), parts, strict=True)
    ]
    return (up, *ops)


def _group_expanded(
    name: str, part: _GroupForm, mixer: LatentAttention, shape: Heads, frame: DeviceFrame
) -> Op:
    """Cached tokens are read as latents, to be expanded; keys and values are not kept."""
    group, sequences = part.group, part.sequences(absorbed=False)
    cached = np.asarray(group.cached_tokens, dtype=float)
    where = {"kind": "mla_attention", "drafted": group.drafted, **frame.at("attention")}
    op = attention(name, sequences, group.new_tokens, cached, shape, frame.plain, **where)
    op = _caching(mixer, context_part(op, group, frame), sequences, group, frame)
    return replace(op, kv_read_bytes=_latent_bytes(mixer, sequences, frame) * cached)


def _absorbed(
    mixer: LatentAttention, frame: DeviceFrame, heads: Num, parts: list[_GroupForm]
) -> Ops:
    """q_absorb, attention over the latents with one key head, value_up."""
    tokens, where = _tokens(parts, frame, absorbed=True), frame.at("attention")
    types = frame.types("attention.kv_b")
    into = batched_gemm("q_absorb", heads, tokens, mixer.kv_rank, mixer.nope_dim, types, **where)
    out = batched_gemm("value_up", heads, tokens, mixer.value_dim, mixer.kv_rank, types, **where)
    shape = Heads(heads, 1.0, mixer.cache_width, mixer.kv_rank, shared_kv=True)
    ops = [
        _group_absorbed(name, part, mixer, shape, frame)
        for (name, _), part in zip(frame.numbered("attention"), parts, strict=True)
    ]
    return (_sharing_weights(into), *ops, _sharing_weights(out))


def _group_absorbed(
    name: str, part: _GroupForm, mixer: LatentAttention, shape: Heads, frame: DeviceFrame
) -> Op:
    """Attention over the latents, or over those that the indexer keeps."""
    group, sequences = part.group, part.sequences(absorbed=True)
    new, cached = group.new_tokens, group.cached_tokens
    where = {"drafted": group.drafted, **frame.at("attention")}
    if mixer.indexer:
        kept = mixer.indexer.top_k
        op = sparse_attention(name, sequences, new, cached, shape, kept, frame.plain, **where)
    else:
        where["kind"] = "mla_attention"
        op = attention(name, sequences, new, cached, shape, frame.plain, **where)
    return _caching(mixer, context_part(op, group, frame), sequences, group, frame)


def _sharing_weights(op: Op) -> Op:
    """`op` without weights held: absorbed products read parts of kv_b_proj, which holds them."""
    return replace(op, held_weight_bytes=0.0)


def _caching(
    mixer: LatentAttention, op: Op, sequences: Num, group: Group, frame: DeviceFrame
) -> Op:
    """`op` with a cache of latents and rotary keys, complete on every tp device."""
    token = _latent_bytes(mixer, sequences, frame)
    new, cached = group.new_tokens, np.asarray(group.cached_tokens, dtype=float)
    return replace(op, kv_write_bytes=token * new, held_kv_bytes=token * (new + cached))


def _latent_bytes(mixer: LatentAttention, sequences: Num, frame: DeviceFrame) -> Num:
    """Bytes that one token of each of `sequences` sequences takes in the cache."""
    return sequences * mixer.cache_width * bytes_of(frame.precision.kv) / frame.par.cp


# ------------------------------------------------------------------------------- the indexer


def _indexer(mixer: LatentAttention, frame: DeviceFrame) -> Ops:
    """Scores of every cached token for every new one, and the choice of the best.

    Index queries come of the queries' rank, index keys and head weights of the stream; all of
    it is copied on every tp device, as engines run it.
    """
    index = mixer.indexer
    if index is None or not index.owner:
        return ()
    hidden, role = frame.spec.hidden, "attention.indexer"
    source = mixer.query_rank or hidden
    return (
        frame.linear(
            "indexer_q_proj", role, index.heads * index.dim, source, module="attention.indexer"
        ),
        frame.linear("indexer_k_proj", role, index.dim, hidden, module="attention.indexer"),
        frame.small_norm(
            "indexer_k_norm", frame.tokens, index.dim, "attention.indexer", weights=2 * index.dim
        ),
        frame.linear("indexer_weights_proj", role, index.heads, hidden, module="attention.indexer"),
        *index_scores(index, frame, index.heads * 1.0),
    )
