"""Operators: one function for each, from its shape to an `Op` (FLOPs, bytes, messages).

Rules of counting, the same everywhere:

- a multiply-add is two FLOPs; each operand crosses memory once; a view costs nothing;
- attention counts the causal (query, key) pairs exactly, inside the window where there is one;
- a mixture of experts reads the experts that the step's tokens are expected to reach,
  ``E * (1 - (1 - k/E)^T)``, exactly ``k`` for one token;
- a collective over one device is an operator of zero bytes, so no graph changes shape with tp.

Arguments named m, n, k, tokens, sequences ... are per device: a builder divides before it calls.
All of them may be arrays [configs], one value per configuration.  `types` are the number formats;
keyword arguments `where` are the fields of `Op` that say where it is in the model (layers, repeat,
stage, module).
"""

from genz_core.operators._attention import (
    Heads,
    attended_pairs,
    attention,
    cross_attention,
    kept_tokens,
    mutual_pairs,
    sparse_attention,
)
from genz_core.operators._collectives import (
    ROUTED,
    Routing,
    all_gather,
    all_reduce,
    all_to_all,
    collective,
    places_reached,
    reduce_scatter,
    send_recv,
)
from genz_core.operators._gemm import batched_gemm, convolution, einsum, gemm
from genz_core.operators._moe import (
    Experts,
    activated_experts,
    moe,
    on_the_busiest_rank,
    to_the_busiest_rank,
)
from genz_core.operators._pointwise import (
    activation,
    copy,
    embedding,
    gated_activation,
    norm,
    pointwise,
    residual,
    residual_norm,
    rope,
    route,
    sampling,
)
from genz_core.operators._scan import linear_attention, ssm_scan
from genz_core.operators._types import BF16, Types

__all__ = [
    "BF16",
    "ROUTED",
    "Experts",
    "Heads",
    "Routing",
    "Types",
    "activated_experts",
    "activation",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "attended_pairs",
    "attention",
    "batched_gemm",
    "collective",
    "convolution",
    "copy",
    "cross_attention",
    "einsum",
    "embedding",
    "gated_activation",
    "gemm",
    "kept_tokens",
    "linear_attention",
    "moe",
    "mutual_pairs",
    "norm",
    "on_the_busiest_rank",
    "places_reached",
    "pointwise",
    "reduce_scatter",
    "residual",
    "residual_norm",
    "rope",
    "route",
    "sampling",
    "send_recv",
    "sparse_attention",
    "ssm_scan",
    "to_the_busiest_rank",
]
