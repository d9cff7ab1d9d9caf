"""Attention operators: (query, key) pairs, cache traffic, dense and sparse."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.common.registry import operator_kind
from genz_core.graphs import Op
from genz_core.operators._types import BF16, Types
from genz_core.precision import arithmetic, bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Num


def attended_pairs(new_tokens: Num, cached_tokens: Num, window: Num = 0.0) -> Num:
    """(query, key) pairs of one causal sequence; numbers or arrays that broadcast.

    Query i of `new_tokens` (from 1) sees min(cached + i, window) keys; window 0 is none.
    Without a window: n*c + n(n+1)/2.  Exact for whole tokens, or whole blocks of them.
    """
    n, c = number(new_tokens), number(cached_tokens)
    w = number(window)
    # queries whose window reaches back to the first token
    growing = np.where(w > 0, np.clip(w - c, 0.0, n), n)
    pairs: Num = growing * c + growing * (growing + 1.0) / 2.0 + (n - growing) * w
    return pairs


def mutual_pairs(tokens: Num, window: Num = 0.0) -> Num:
    """(query, key) pairs of one sequence whose tokens attend in both directions.

    A token attends to `window` tokens centred on itself, fewer at the ends; 0: to all, n * n.
    """
    n, w = number(tokens), number(window)
    side = np.minimum((w - 1.0) / 2.0, np.maximum(n - 1.0, 0.0))
    pairs: Num = np.where(w > 0, n + 2.0 * side * n - side * (side + 1.0), n * n)
    return pairs


def kept_tokens(tokens: Num, window: Num = 0.0) -> Num:
    """Tokens whose keys and values are kept after a step: all, or at most the window's."""
    return np.where(number(window) > 0, np.minimum(tokens, window), tokens)


@dataclass(frozen=True, slots=True)
class Heads:
    """Shape of an attention on one device.

    query, kv: heads.  dim: of queries and keys.  value_dim: of values (0: as dim).
    window: tokens a query sees, itself included (0: all).  causal: False in encoders, whose tokens
    attend in both directions.
    shared_kv: values are read from the keys' own storage (latent attention).
    """

    query: Num
    kv: Num
    dim: Num
    value_dim: Num = 0.0
    window: Num = 0.0
    causal: bool = True
    shared_kv: bool = False

    @property
    def values(self) -> Num:
        """Head size of the values."""
        return self.value_dim if np.any(self.value_dim) else self.dim

    @property
    def kv_width(self) -> Num:
        """Elements that a cached token takes in one layer."""
        return self.kv * (self.dim + (0.0 if self.shared_kv else self.values))


_PAIRS = "2 × {sequences} × {pairs} × {heads} × ({head_dim} + {value_dim})"


@operator_kind("attention", "attention", _PAIRS)
@operator_kind("mla_attention", "attention", _PAIRS)
def attention(
    name: str,
    sequences: Num,
    new_tokens: Num,
    cached_tokens: Num,
    heads: Heads,
    types: Types = BF16,
    *,
    kind: str = "attention",
    cached: bool = True,
    whole_cache: bool = False,
    drafted: Num = 0.0,
    **where: Any,
) -> Op:
    """Fused attention: scores, softmax and values in one pass over queries, keys, values.

    q: [sequences, new, heads, dim], k, v: [sequences, cached + new, kv heads, dim].
    flops = 2 * pairs * heads * (dim + value_dim); softmax is not counted, as is usual.
    kv_read counts the cached tokens in reach, kv_write the new ones; the new tokens' own keys
    and values come as input.

    Args:
        sequences, new_tokens, cached_tokens: of the group, numbers or arrays [configs].
        heads: their shape on one device.  types: number formats.
        kind: operator kind.  cached: False for encoders, which keep no cache.
        whole_cache: tokens outside the window stay in the cache, too.
        drafted: new tokens that a draft proposed, see `Group`.
        where: fields of the `Op` that say where it is in the model (layers, module, stage ...).

    Source: Dao 2022, arXiv:2205.14135 (traffic of the fused form).
    """
    n, c = number(new_tokens), number(cached_tokens)
    pairs = _pairs(n, c, heads)
    kv_token = heads.kv_width * bytes_of(types.kv)
    reach = kept_tokens(n + c, np.where(number(heads.window) > 0, heads.window + n - 1.0, 0.0))
    keep = n + c if whole_cache else kept_tokens(n + c, heads.window)
    queries = sequences * n * heads.query
    return Op(
        name,
        kind,
        flops=2.0 * sequences * pairs * heads.query * (heads.dim + heads.values),
        input_bytes=queries * heads.dim * types.a + sequences * n * heads.kv_width * types.a,
        output_bytes=queries * heads.values * types.a,
        kv_read_bytes=sequences * np.maximum(reach - n, 0.0) * kv_token if cached else 0.0,
        kv_write_bytes=sequences * n * kv_token if cached else 0.0,
        held_kv_bytes=sequences * keep * kv_token if cached else 0.0,
        dims=_attention_dims(sequences, n, c, heads, pairs) | _of_drafts(drafted),
        **_attention_types(types),
        **where,
    )


@operator_kind("sparse_attention", "attention", _PAIRS)
def sparse_attention(
    name: str,
    sequences: Num,
    new_tokens: Num,
    cached_tokens: Num,
    heads: Heads,
    top_k: Num,
    types: Types = BF16,
    *,
    kind: str = "sparse_attention",
    **where: Any,
) -> Op:
    """Attention of each query over its `top_k` selected tokens (DeepSeek sparse attention).

    Query i sees min(cached + i, top_k) keys.  Each query gathers its own keys: in decode top_k
    tokens per sequence are read;  in prefill the union is bounded by the whole context.
    """
    dense = attention(name, sequences, new_tokens, cached_tokens, heads, types, kind=kind, **where)
    n, c = number(new_tokens), number(cached_tokens)
    pairs = attended_pairs(n, c, top_k)
    gathered = np.minimum(c, n * number(top_k))
    return replace(
        dense,
        flops=2.0 * sequences * pairs * heads.query * (heads.dim + heads.values),
        kv_read_bytes=sequences * gathered * heads.kv_width * bytes_of(types.kv),
        dims={**dense.dims, "pairs": pairs, "top_k": top_k},
    )


@operator_kind("cross_attention", "attention", _PAIRS)
def cross_attention(
    name: str,
    sequences: Num,
    new_tokens: Num,
    encoded_tokens: Num,
    heads: Heads,
    types: Types = BF16,
    *,
    projected: Num = 0.0,
    **where: Any,
) -> Op:
    """Attention of new tokens over the whole output of an encoder, cached since the first step.

    q: [sequences, new, heads, dim], k, v: [sequences, encoded, kv heads, dim].
    flops = 2 * new * encoded * heads * (dim + value_dim).

    projected: encoded tokens whose keys and values this step computes: they are inputs and are
    written; the others are read from the cache.

    Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3.
    """
    n, e = number(new_tokens), number(encoded_tokens)
    kv_token, fresh = heads.kv_width * bytes_of(types.kv), number(projected)
    queries = sequences * n * heads.query
    return Op(
        name,
        "cross_attention",
        flops=2.0 * sequences * n * e * heads.query * (heads.dim + heads.values),
        input_bytes=queries * heads.dim * types.a + sequences * fresh * heads.kv_width * types.a,
        output_bytes=queries * heads.values * types.a,
        kv_read_bytes=sequences * (e - fresh) * kv_token,
        kv_write_bytes=sequences * fresh * kv_token,
        held_kv_bytes=sequences * e * kv_token,
        dims=_attention_dims(
            sequences, n, np.maximum(e - n, 0.0), replace(heads, causal=False), n * e
        ),
        **_attention_types(types),
        **where,
    )


def _pairs(new: Num, cached: Num, heads: Heads) -> Num:
    """(query, key) pairs of one sequence."""
    if heads.causal:
        return attended_pairs(new, cached, heads.window)
    if np.any(number(heads.window) > 0):
        return mutual_pairs(new, heads.window)
    return new * (new + cached)


def _attention_dims(
    sequences: Num, new_tokens: Num, cached_tokens: Num, heads: Heads, pairs: Num
) -> dict[str, Num]:
    """Dimensions of an attention, as the latency models use them."""
    return {
        "sequences": sequences,
        "new_tokens": new_tokens,
        "cached_tokens": cached_tokens,
        "heads": heads.query,
        "kv_heads": heads.kv,
        "head_dim": heads.dim,
        "value_dim": heads.values,
        "window": heads.window,
        # Blocks outside a window are skipped on both sides: as many as for a causal window.
        "causal": float(heads.causal or bool(np.any(number(heads.window) > 0))),
        "shared_kv": float(heads.shared_kv),
        "pairs": pairs,
    }


def _of_drafts(drafted: Num) -> dict[str, Num]:
    """The dimension that distinguishes a draft from a prompt of as many tokens."""
    return {"drafted": drafted} if np.any(number(drafted) > 0) else {}


def _attention_types(types: Types) -> dict[str, Any]:
    """Attention multiplies activations by the cache, in 8 bits only when both have 8 bits."""
    eight = bytes_of(types.kv) <= 1.0 and bytes_of(types.activations) <= 1.0
    compute = types.compute or ("fp8" if eight else arithmetic(types.activations))
    return {**types.fields(), "compute": compute}
