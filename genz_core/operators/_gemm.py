"""Matrix products: dense, batched, as an einsum, as a convolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from genz_core.common.registry import operator_kind
from genz_core.graphs import Op
from genz_core.operators._types import BF16, Types
from genz_core.symbolic.symbols import number
from genz_core.types import Num

_PRODUCT = "2 × {m} × {n} × {k}"


@operator_kind("gemm", "gemm", _PRODUCT)
def gemm(
    name: str, m: Num, n: Num, k: Num, types: Types = BF16, *, bias: bool = False, **where: Any
) -> Op:
    """Dense product  x[m, k] @ w[k, n] (+ b[n]) -> y[m, n].

    m: tokens.  n, k: output and input features.  flops = 2mnk (+ mn for the bias).
    Source: scaling book, ch. 1; Williams et al. 2009, doi:10.1145/1498765.1498785.
    """
    weights = n * k * types.w + (n * types.a if bias else 0.0)
    return Op(
        name,
        "gemm",
        flops=2.0 * m * n * k + (m * n if bias else 0.0),
        weight_bytes=np.where(number(m) > 0, weights, 0.0),
        input_bytes=m * k * types.a,
        output_bytes=m * n * types.a,
        held_weight_bytes=weights,
        dims={"m": m, "n": n, "k": k},
        **types.fields(),
        **where,
    )


def batched_gemm(
    name: str, batch: Num, m: Num, n: Num, k: Num, types: Types = BF16, **where: Any
) -> Op:
    """`batch` products with a weight each  x[b, m, k] @ w[b, k, n] -> y[b, m, n].

    The per-head products of latent attention are of this form.  flops = 2bmnk.
    """
    single = gemm(name, m, n, k, types, **where)
    return replace(
        single,
        flops=single.flops * batch,
        weight_bytes=single.weight_bytes * batch,
        input_bytes=single.input_bytes * batch,
        output_bytes=single.output_bytes * batch,
        held_weight_bytes=single.held_weight_bytes * batch,
        dims={"m": m, "n": n * batch, "k": k, "batch": batch},
    )


@operator_kind("einsum", "gemm", _PRODUCT)
def einsum(
    name: str, equation: str, sizes: Mapping[str, Num], types: Types = BF16, **where: Any
) -> Op:
    """Einsum of two operands; the second operand is the weight.

    equation: "bsd,de->bse".  sizes: {label: length}.
    flops = 2 x product of all labels; bytes = product of each operand's labels.
    """
    operands, result = equation.replace(" ", "").split("->")
    left, right = operands.split(",")

    def volume(labels: str) -> Num:
        """Product of the lengths of the labels."""
        return prod((number(sizes[label]) for label in labels), start=np.ones(()))

    inner = "".join(sorted(set(left) & set(right) - set(result)))
    rows = "".join(label for label in result if label in left)
    columns = "".join(label for label in result if label not in left)
    return Op(
        name,
        "einsum",
        flops=2.0 * volume("".join(sorted(set(left + right)))),
        weight_bytes=np.where(volume(rows) > 0, volume(right) * types.w, 0.0),
        input_bytes=volume(left) * types.a,
        output_bytes=volume(result) * types.a,
        held_weight_bytes=volume(right) * types.w,
        dims={"m": volume(rows), "n": volume(columns), "k": volume(inner)},
        **types.fields(),
        **where,
    )


@operator_kind("convolution", "convolution", _PRODUCT)
def convolution(
    name: str,
    positions: Num,
    out_channels: Num,
    in_channels: Num,
    kernel: Num,
    types: Types = BF16,
    *,
    groups: Num = 1.0,
    state_sequences: Num = 0.0,
    **where: Any,
) -> Op:
    """Convolution with `kernel` taps (their product for 2-D), e.g. patch embedding, causal conv1d.

    positions: output positions over the batch.  flops = 2 * positions * out * in/groups * kernel.
    state_sequences: sequences whose last kernel-1 inputs are kept as state (causal conv1d).
    """
    weights = out_channels * in_channels / groups * kernel * types.w
    state = state_sequences * in_channels * np.maximum(kernel - 1.0, 0.0) * types.a
    return Op(
        name,
        "convolution",
        flops=2.0 * positions * out_channels * in_channels / groups * kernel,
        weight_bytes=np.where(number(positions) > 0, weights, 0.0),
        input_bytes=positions * in_channels * types.a,
        output_bytes=positions * out_channels * types.a,
        kv_read_bytes=state,
        kv_write_bytes=state,
        held_weight_bytes=weights,
        held_kv_bytes=state,
        dims={"m": positions, "n": out_channels, "k": in_channels / groups * kernel},
        **types.fields(),
        **where,
    )
