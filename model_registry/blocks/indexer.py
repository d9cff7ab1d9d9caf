"""The scores by which a sparse attention selects tokens."""

from __future__ import annotations

from dataclasses import replace

from genz_core.graphs import Op
from genz_core.operators import Heads, attention
from genz_core.types import Group, Num
from model_registry.blocks.context import context_part
from model_registry.blocks.frame import DeviceFrame, Ops
from model_registry.spec import Indexer


def index_scores(index: Indexer, frame: DeviceFrame, heads: Num, *, ratio: int = 1) -> Ops:
    """Scores sum_h w_h relu(q_h . k) of every visible key: 2 * pairs * heads * dim FLOPs.

    Index keys are cached beside the attention's own, one per `ratio` tokens.
    """
    shape = Heads(heads, 1.0, index.dim, index.dim, shared_kv=True)
    return tuple(
        _scores(name, index, group, shape, frame, ratio)
        for name, group in frame.numbered("indexer_scores")
    )


def _scores(
    name: str, index: Indexer, group: Group, shape: Heads, frame: DeviceFrame, ratio: int
) -> Op:
    """The scores of a group: attention without its second product, over 1 / `ratio` of the keys."""
    where = {"drafted": group.drafted, **frame.at("attention.indexer")}
    new, cached = group.new_tokens, group.cached_tokens
    op = attention(name, group.sequences, new, cached, shape, frame.plain, **where)
    part = context_part(op, group, frame)
    return replace(
        part,
        flops=part.flops / 2.0 / ratio,
        output_bytes=group.sequences * frame.local(group) * index.top_k * 4.0,
        kv_read_bytes=part.kv_read_bytes / ratio,
        kv_write_bytes=part.kv_write_bytes / ratio,
        held_kv_bytes=part.held_kv_bytes / ratio,
        dims={**part.dims, "cached_tokens": part.dims["cached_tokens"] / ratio},
    )
