"""Multi-head latent attention, dense and sparse.

The same attention has two forms with different costs.  Expanded: keys and values of all visible
tokens are computed from the latents, and attention runs head by head.  Absorbed: queries are
projected into the latent space and attend to the shared latents.  Every group uses the form with
fewer FLOPs (generating ones always the absorbed form); the graph holds both, the unused one without
work.  In a prompt longer than the number of tokens that a sparse attention keeps, the queries that
attend to everything may be expanded while the later ones are absorbed, so the form never changes
for a whole prompt at some length.
Source: arXiv:2405.04434, section 2.1; arXiv:2412.19437, section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from genz_core.graphs import Op
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
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num
from model_registry.blocks.context import context_exchange, context_part
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops
from model_registry.blocks.indexer import index_scores
from model_registry.spec import LatentAttention


@block_ops.register
def latent_block(mixer: LatentAttention, frame: DeviceFrame) -> Ops:
    """Operators: projections of queries and latents, attention in both forms, o_proj."""
    heads = frame.part(mixer.heads)
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
    """The latent and the rotary key of every new token; replicated on every tp device."""
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
    """A group of the step, split by form: tokens before some position expanded, later ones
    absorbed; either part may be empty.

    group: the original group.  expanded, absorbed: its parts, without sequences where they have no
    tokens.
    """

    group: Group
    expanded: Group
    absorbed: Group

    @classmethod
    def of(cls, mixer: LatentAttention, group: Group) -> _GroupForm:
        """The form with fewer FLOPs per head.

        Where an indexer leaves tokens out, only the absorbed form is possible: queries beyond its
        `top_k` use it, and earlier ones, which attend to everything, use the cheaper form.
        """
        n, c = number(group.new_tokens), number(group.cached_tokens)
        early = np.clip(mixer.indexer.top_k - c, 0.0, n) if mixer.indexer else n
        made, pairs = mixer.nope_dim + mixer.value_dim, attended_pairs(early, c)
        expanded = (early + c) * mixer.kv_rank * made + pairs * (mixer.query_dim + mixer.value_dim)
        absorbed = early * mixer.kv_rank * made + pairs * (mixer.cache_width + mixer.kv_rank)
        early = np.where(group.generates | (absorbed < expanded), 0.0, early)
        return cls(group, _span(group, early, c), _span(group, n - early, c + early))


def _span(group: Group, tokens: Num, before: Num) -> Group:
    """`tokens` of the group's new tokens, preceded by `before` tokens."""
    some = number(tokens) > 0
    return replace(
        group,
        sequences=group.sequences * np.where(some, 1.0, 0.0),
        new_tokens=np.where(some, tokens, group.new_tokens),
        cached_tokens=np.where(some, before, group.cached_tokens),
    )


def _tokens(groups: Iterable[Group], frame: DeviceFrame, *, cached: bool = False) -> Num:
    """New tokens of groups on this device, or their cached tokens."""
    return sum(
        (
            group.sequences * (group.cached_tokens / frame.par.cp if cached else frame.local(group))
            for group in groups
        ),
        start=np.float64(0.0),
    )


def _expanded(
    mixer: LatentAttention, frame: DeviceFrame, heads: Num, parts: list[_GroupForm]
) -> Ops:
    """kv_b_proj over every visible token, then attention with as many key heads as queries."""
    groups = [part.expanded for part in parts]
    reach = _tokens(groups, frame) + _tokens(groups, frame, cached=True)
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
    """Cached tokens are read as latents and expanded; keys and values are not stored."""
    group, sequences = part.expanded, part.expanded.sequences
    cached = number(group.cached_tokens)
    where = {"kind": "mla_attention", "drafted": group.drafted, **frame.at("attention")}
    op = attention(name, sequences, group.new_tokens, cached, shape, frame.plain, **where)
    op = _caching(mixer, context_part(op, group, frame), sequences, group, frame)
    # otherwise the later part holds all tokens
    alone = np.where(number(part.absorbed.sequences) > 0, 0.0, 1.0)
    return replace(
        op,
        kv_read_bytes=_latent_bytes(mixer, sequences, frame) * cached,
        held_kv_bytes=op.held_kv_bytes * alone,
    )


def _absorbed(
    mixer: LatentAttention, frame: DeviceFrame, heads: Num, parts: list[_GroupForm]
) -> Ops:
    """q_absorb, attention over the latents with one key head, value_up."""
    tokens = _tokens([part.absorbed for part in parts], frame)
    where = frame.at("attention")
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
    """Attention over all latents, or only over the latents that the indexer keeps."""
    group, sequences = part.absorbed, part.absorbed.sequences
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
    """`op` without held weights: absorbed products use parts of kv_b_proj, which holds them."""
    return replace(op, held_weight_bytes=0.0)


def _caching(
    mixer: LatentAttention, op: Op, sequences: Num, group: Group, frame: DeviceFrame
) -> Op:
    """`op` with a cache of latents and rotary keys, replicated on every tp device."""
    token = _latent_bytes(mixer, sequences, frame)
    new, cached = group.new_tokens, number(group.cached_tokens)
    return replace(op, kv_write_bytes=token * new, held_kv_bytes=token * (new + cached))


def _latent_bytes(mixer: LatentAttention, sequences: Num, frame: DeviceFrame) -> Num:
    """Bytes of one token in the cache, for each of `sequences` sequences."""
    return sequences * mixer.cache_width * bytes_of(frame.precision.kv) / frame.par.cp


# ------------------------------------------------------------------------------- the indexer


def _indexer(mixer: LatentAttention, frame: DeviceFrame) -> Ops:
    """Scores of every cached token for every new one, and the selection of the best.

    Index queries are computed from the queries' low-rank input, index keys and head weights from
    the stream; all of it is replicated on every tp device, as in engines.
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
