"""Operators with one pass over their operands: norms, activations, embedding, sampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from genz_core.common.registry import operator_kind
from genz_core.graphs import Op
from genz_core.operators._types import BF16, Types
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Num


def pointwise(
    name: str,
    kind: str,
    elements: Num,
    flops_per_element: float,
    types: Types = BF16,
    *,
    reads: float = 1.0,
    writes: float = 1.0,
    weights: Num = 0.0,
    **where: Any,
) -> Op:
    """An element-wise or row-wise operator in one fused pass.

    elements: of the result.  reads, writes: number of operands of that size.  weights: elements of
    weights.
    """
    weight_bytes = weights * bytes_of("bf16")
    return Op(
        name,
        kind,
        flops=elements * flops_per_element,
        weight_bytes=np.where(number(elements) > 0, weight_bytes, 0.0),
        input_bytes=elements * reads * types.a,
        output_bytes=elements * writes * types.a,
        held_weight_bytes=weight_bytes,
        dims={"elements": elements},
        **{**types.fields(), "compute": "fp32", "weights": "bf16"},
        **where,
    )


@operator_kind("norm", "norm")
def norm(
    name: str, tokens: Num, width: Num, types: Types = BF16, *, bias: bool = False, **where: Any
) -> Op:
    """RMS norm (4 FLOPs per element) or layer norm with bias (7), over rows of `width`."""
    weights = width * (2.0 if bias else 1.0)
    cost = 7.0 if bias else 4.0
    return pointwise(name, "norm", tokens * width, cost, types, weights=weights, **where)


def residual_norm(
    name: str, tokens: Num, width: Num, types: Types = BF16, *, bias: bool = False, **where: Any
) -> Op:
    """Residual addition fused with the norm that follows, as engines run it.

    Reads the branch and the stream, writes the new stream and its norm.
    """
    cost = 8.0 if bias else 5.0
    weights = width * (2.0 if bias else 1.0)
    return pointwise(
        name, "norm", tokens * width, cost, types, reads=2.0, writes=2.0, weights=weights, **where
    )


@operator_kind("residual", "pointwise")
def residual(name: str, tokens: Num, width: Num, types: Types = BF16, **where: Any) -> Op:
    """x + y: one FLOP per element, two reads, one write."""
    return pointwise(name, "residual", tokens * width, 1.0, types, reads=2.0, **where)


@operator_kind("rope", "pointwise")
def rope(
    name: str, tokens: Num, heads: Num, kv_heads: Num, dim: float, types: Types = BF16, **where: Any
) -> Op:
    """Rotary position embedding of queries and keys: 3 FLOPs per element."""
    return pointwise(name, "rope", tokens * (heads + kv_heads) * dim, 3.0, types, **where)


def gated_activation(name: str, tokens: Num, width: Num, types: Types = BF16, **where: Any) -> Op:
    """silu(gate) * up -> [tokens, width]: two reads, one write, 5 FLOPs per element."""
    return pointwise(name, "activation", tokens * width, 5.0, types, reads=2.0, **where)


@operator_kind("activation", "pointwise")
def activation(
    name: str, tokens: Num, width: Num, types: Types = BF16, *, cost: float = 8.0, **where: Any
) -> Op:
    """A plain activation (GELU 8 FLOPs, SiLU 4, ReLU 1) over [tokens, width]."""
    return pointwise(name, "activation", tokens * width, cost, types, **where)


@operator_kind("routing", "pointwise")
def route(name: str, tokens: Num, experts: Num, types: Types = BF16, **where: Any) -> Op:
    """Softmax or sigmoid over the router's logits, and selection of the largest."""
    return pointwise(name, "routing", tokens * experts, 6.0, types, writes=0.0, **where)


@operator_kind("copy", "pointwise")
def copy(name: str, read_bytes: Num, written_bytes: Num, **where: Any) -> Op:
    """Copy of bytes from one place in memory to another, without arithmetic."""
    return Op(name, "copy", input_bytes=read_bytes, output_bytes=written_bytes, **where)


@operator_kind("embedding", "embedding")
def embedding(
    name: str, tokens: Num, rows: Num, width: Num, types: Types = BF16, **where: Any
) -> Op:
    """Look-up of `tokens` rows of a [rows, width] table: no FLOPs, and only these rows are read."""
    return Op(
        name,
        "embedding",
        weight_bytes=tokens * width * types.w,
        output_bytes=tokens * width * types.a,
        held_weight_bytes=rows * width * types.w,
        dims={"tokens": tokens, "width": width},
        **types.fields(),
        **where,
    )


@operator_kind("sampling", "sampling", "5 × {sequences} × {vocabulary}")
def sampling(name: str, sequences: Num, vocabulary: Num, types: Types = BF16, **where: Any) -> Op:
    """Softmax over fp32 logits [sequences, vocabulary], and selection of one token each."""
    elements = sequences * vocabulary
    return Op(
        name,
        "sampling",
        flops=5.0 * elements,
        input_bytes=elements * 4.0,
        output_bytes=sequences * 4.0,
        dims={"sequences": sequences, "vocabulary": vocabulary},
        **{**types.fields(), "compute": "fp32"},
        **where,
    )
