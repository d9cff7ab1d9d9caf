"""Recurrences over the sequence: state-space scans and linear attention.

Engines that verify drafted tokens keep the state after each of them until they know how many were
accepted: vLLM in a slot for each (`spec_state_indices_tensor` of vllm/v1/attention/backends/
gdn_attn.py), SGLang and TensorRT-LLM in `intermediate_ssm`
(sglang/srt/mem_cache/memory_pool.py, tensorrt_llm/_torch/pyexecutor/mamba_cache_manager.py).  The
memory of these states is not counted: SGLang 0.5.9 ran 256 requests of Qwen3.5-397B with three
drafts on four B200, where states of four bytes for every draft would not fit.
"""

from __future__ import annotations

from typing import Any

from genz_core.common.registry import operator_kind
from genz_core.graphs import Op
from genz_core.operators._types import BF16, Types
from genz_core.precision import bytes_of
from genz_core.types import Num


@operator_kind("ssm", "ssm", "{sequences} × {new_tokens} × {channels} × (6 × {state} + 2)")
def ssm_scan(
    name: str,
    sequences: Num,
    new_tokens: Num,
    channels: Num,
    state: Num,
    types: Types = BF16,
    *,
    drafted: Num = 0.0,
    state_format: str = "fp32",
    **where: Any,
) -> Op:
    """Selective state-space recurrence (Mamba 1 and 2), one fused scan.

    h[c, s] <- a * h + (dt * x) b ;  y[c] = sum_s h c + d x: per token, channel and state element
    one decay product, two multiply-adds: 6 FLOPs.  State [channels, state] is read once per
    sequence, and written once and after each of its `drafted` tokens.
    Source: arXiv:2312.00752, algorithm 2; arXiv:2405.21060.
    """
    tokens = sequences * new_tokens
    state_bytes = sequences * channels * state * bytes_of(state_format)
    return Op(
        name,
        "ssm",
        flops=tokens * channels * (6.0 * state + 2.0),
        input_bytes=tokens * (2.0 * channels + 2.0 * state) * types.a,
        output_bytes=tokens * channels * types.a,
        kv_read_bytes=state_bytes,
        kv_write_bytes=state_bytes * (1.0 + drafted),
        held_kv_bytes=state_bytes,
        dims={
            "sequences": sequences,
            "new_tokens": new_tokens,
            "channels": channels,
            "state": state,
            "drafted": drafted,
        },
        **types.fields(),
        **where,
    )


@operator_kind(
    "linear_attention", "ssm", "7 × {sequences} × {new_tokens} × {heads} × {key_dim} × {value_dim}"
)
def linear_attention(
    name: str,
    sequences: Num,
    new_tokens: Num,
    heads: Num,
    key_dim: float,
    value_dim: float,
    types: Types = BF16,
    *,
    drafted: Num = 0.0,
    state_format: str = "fp32",
    **where: Any,
) -> Op:
    """Gated delta rule (Gated DeltaNet, Kimi delta attention): a matrix state per head.

    Per token and head: S^T k (read-out of the old value), the rank-one update and S^T q, each
    2 * key * value, and the decay: 7 * key * value FLOPs.  State [heads, key, value] is read once
    per sequence, and written once and after each of its `drafted` tokens.
    Source: arXiv:2412.06464, eq. 10; arXiv:2510.26692.
    """
    tokens = sequences * new_tokens
    state_bytes = sequences * heads * key_dim * value_dim * bytes_of(state_format)
    return Op(
        name,
        "linear_attention",
        flops=tokens * heads * 7.0 * key_dim * value_dim,
        input_bytes=tokens * heads * (2.0 * key_dim + value_dim) * types.a,
        output_bytes=tokens * heads * value_dim * types.a,
        kv_read_bytes=state_bytes,
        kv_write_bytes=state_bytes * (1.0 + drafted),
        held_kv_bytes=state_bytes,
        dims={
            "sequences": sequences,
            "new_tokens": new_tokens,
            "heads": heads,
            "key_dim": key_dim,
            "value_dim": value_dim,
            "drafted": drafted,
        },
        **types.fields(),
        **where,
    )
