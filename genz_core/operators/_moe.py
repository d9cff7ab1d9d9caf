"""Mixture of experts: the experts that tokens reach, and their grouped product."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.common.registry import operator_kind
from genz_core.graphs import Op
from genz_core.operators._types import BF16, Types
from genz_core.symbolic.symbols import number
from genz_core.types import Num


def activated_experts(experts: Num, top_k: Num, tokens: Num) -> Num:
    """Expected number of experts that `tokens` tokens reach under uniform routing.

    E * (1 - (1 - k/E)^T), with k distinct experts per token; exactly k for one token, 0 for none.
    Numbers or arrays [configs] that broadcast.
    """
    e, k = number(experts), number(top_k)
    activated: Num = e * (1.0 - np.power(1.0 - np.minimum(k / e, 1.0), tokens))
    return activated


@dataclass(frozen=True, slots=True)
class Experts:
    """The routed experts of a layer on one device.

    total: experts of the layer.  local: experts on this device.  top_k: experts that a token
    chooses.
    hidden: model width.  intermediate: width of one expert on this device.
    gated: two input projections (SwiGLU), otherwise one.  bias: biases on every projection.
    """

    total: Num
    local: Num
    top_k: Num
    hidden: Num
    intermediate: Num
    gated: bool = True
    bias: bool = False

    @property
    def matrices(self) -> int:
        """Projections of an expert: up, down, and gate where there is one."""
        return 3 if self.gated else 2


@operator_kind("moe", "moe", "2 × {rows} × {matrices} × {hidden} × {intermediate}")
def moe(name: str, tokens: Num, experts: Experts, types: Types = BF16, **where: Any) -> Op:
    """Grouped product of the routed experts: up (and gate), activation, down.

    tokens: of all devices that share the experts, [tokens, hidden].  This device computes
    tokens * top_k * local / total rows and reads the local part of the activated experts.
    flops = rows * 2 * matrices * hidden * intermediate; the activation between them, about five
    FLOPs per element, is fused and not counted.
    Source: scaling book, ch. "Transformers"; arXiv:2101.03961 for the routing.
    """
    share = experts.local / number(experts.total)
    rows = tokens * experts.top_k * share
    active = activated_experts(experts.total, experts.top_k, tokens) * share
    inner = experts.hidden * experts.intermediate
    expert_bytes = experts.matrices * inner * types.w
    if experts.bias:
        up = experts.matrices - 1
        expert_bytes = expert_bytes + (up * experts.intermediate + experts.hidden) * types.a
    return Op(
        name,
        "moe",
        flops=rows * 2.0 * experts.matrices * inner,
        weight_bytes=active * expert_bytes,
        input_bytes=np.minimum(rows, tokens) * experts.hidden * types.a,
        output_bytes=np.minimum(rows, tokens) * experts.hidden * types.a,
        held_weight_bytes=experts.local * expert_bytes,
        dims={
            "tokens": tokens,
            "rows": rows,
            "experts": experts.local,
            "experts_total": experts.total,
            "active_experts": active,
            "top_k": experts.top_k,
            "hidden": experts.hidden,
            "intermediate": experts.intermediate,
            "gated": float(experts.gated),
        },
        **types.fields(),
        **where,
    )


def on_the_busiest_rank(op: Op, imbalance: Num) -> Op:
    """The routed experts `op` (of `moe`) on the busiest expert-parallel rank.

    imbalance: its routed rows over the mean of all ranks, capped at all rows.  It works like a rank
    under even routing with `imbalance` times the tokens: it has more rows and more experts to read.
    Shared experts in the same product (`genz_core.beside`) have the same rows on every rank.
    """
    d = op.dims
    ranks = number(d["experts_total"]) / d["experts"]
    busy = np.clip(imbalance, 1.0, ranks)
    shared_rows, shared_experts = d.get("shared_rows", 0.0), d.get("shared_experts", 0.0)
    routed = d["rows"] - shared_rows
    rows = routed * busy + shared_rows
    active = activated_experts(d["experts_total"], d["top_k"], d["tokens"] * busy) / ranks
    active = active + shared_experts
    streamed = np.minimum(routed * busy, d["tokens"]) / _divisor(np.minimum(routed, d["tokens"]))
    return replace(
        op,
        flops=op.flops * (rows / _divisor(d["rows"])),
        weight_bytes=op.weight_bytes * (active / _divisor(d["active_experts"])),
        input_bytes=op.input_bytes * streamed,
        output_bytes=op.output_bytes * streamed,
        dims={**d, "rows": rows, "active_experts": active},
    )


def _divisor(value: Num) -> Num:
    """The value, above zero, where it divides zero."""
    return np.maximum(value, 1e-300)


def to_the_busiest_rank(op: Op, imbalance: Num) -> Op:
    """The exchange `op` (an `all_to_all`) on the busiest expert-parallel rank."""
    busy = np.clip(imbalance, 1.0, np.maximum(op.group, 1.0))
    scaled = {name: op.dims[name] * busy for name in ("message_bytes", "merged_bytes")}
    return replace(op, message_bytes=op.message_bytes * busy, dims={**op.dims, **scaled})
