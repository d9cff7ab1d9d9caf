"""Context parallelism: one rank's part of an attention over sequences that several ranks share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Op
from genz_core.operators import all_gather, all_reduce
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num
from model_registry.blocks.frame import DeviceFrame, Ops, message_bytes


def context_part(op: Op, group: Group, frame: DeviceFrame) -> Op:
    """One rank's equal part of a whole attention: of its (query, key) pairs and of its cache.

    A prompt's queries are split over the ranks; a single query is replicated, and the cache that it
    reads is split.
    """
    cp = number(frame.par.cp)
    new, local = number(group.new_tokens), frame.local(group)
    share = local / np.maximum(new, 1.0)
    # A plain attention with as many pairs as one rank processes: on average (new - local) / 2
    # tokens of other ranks precede the new tokens of a rank.
    cached = op.dims["cached_tokens"]
    seen = np.where(local < new, cached + (new - local) / 2.0, cached / cp)
    pairs = op.dims["pairs"] / cp
    return replace(
        op,
        flops=op.flops / cp,
        input_bytes=op.input_bytes * share,
        output_bytes=op.output_bytes * share,
        kv_read_bytes=op.kv_read_bytes / cp,
        kv_write_bytes=op.kv_write_bytes / cp,
        held_kv_bytes=op.held_kv_bytes / cp,
        dims={**op.dims, "new_tokens": local, "cached_tokens": seen, "pairs": pairs},
    )


def context_exchange(cache_width: Num, output_width: Num, frame: DeviceFrame) -> Ops:
    """Collectives over cp: keys and values of prompts gathered, parts of a query's output summed.

    cache_width: elements a token has in the cache; output_width: of the heads' output.
    """
    cache = frame.prompt_tokens * cache_width * bytes_of(frame.precision.kv)
    parts = message_bytes(frame.query_tokens, output_width)
    where = {"stride": frame.cp_stride, **frame.at("attention")}
    return (
        all_gather("attention_context_all_gather", cache, frame.par.cp, **where),
        all_reduce("attention_context_all_reduce", parts, frame.par.cp, **where),
    )
