"""Attention of a prompt: products and exponentials in blocks."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.attention_kinds import ACTIVATION_BYTES, KINDS, absorbed, sparse_context
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.kernel_time import KernelTime, Stages
from genz_core.latency.models import prices
from genz_core.latency.numerics import p_norm
from genz_core.latency.parameters import PrefillAttentionParameters
from genz_core.latency.profile import attention_format
from genz_core.operators import attended_pairs
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

_ROWS = 128.0  # query rows of one block
_EXP_PER_UNIT_CLOCK = 16.0


def prefill_attention_time(
    sequences: Num,
    new_tokens: Num,
    cached_tokens: Num,
    *,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    value_dim: Num | None = None,
    window: Num = 0,
    causal: bool = True,
    kv_bytes: float = 2.0,
    peak_flops_per_s: float,
    device: Device,
    parameters: PrefillAttentionParameters,
    score_bytes: float = 0.0,
    floor_s: float | None = None,
) -> KernelTime:
    """Time of attention of `new_tokens` queries over cached and new keys [s].

    With P the (query, key) pairs in whole blocks of 128 (16 below 128 tokens)::

        t_mma = 2 B H (D + Dv) P / (efficiency(D) peak)
        t_exp = B H P / (exp_efficiency 16 units clock)
        c     = p_norm(overlap, t_mma, t_exp) + block max(1, B H ceil(S/128) / units)
        c     = max(c, longest_block x a block of 128 rows over all its keys on one unit)
        T     = launch + p_norm(overlap, c, bytes / (memory_efficiency bandwidth))
                + append_passes (new q, k, v) / bandwidth
                + score_bytes B H pairs / bandwidth

    Args:
        sequences, new_tokens, cached_tokens: of the group; numbers or arrays [shapes] that
            broadcast; zero costs nothing.
        heads, kv_heads, head_dim, value_dim: on this device (value_dim defaults to head_dim).
        window: keys a query sees at most (0: all).  causal: False for encoders.
        kv_bytes: per element of the cache.  peak_flops_per_s: of the arithmetic type.
        device: units, clock and bandwidth of the datasheet.
        parameters: fitted constants of the device and (compute, cache) format.
        score_bytes: moved for each query, key and head by kernels that keep the scores in memory.
        floor_s: replaces `parameters.launch_s`.

    Source: block structure of Dao, FlashAttention-2 (arXiv:2307.08691); the exponential unit as a
    second roof, Shah et al., FlashAttention-3 (arXiv:2407.08608), 3.2.
    """
    stages = partial(
        _prefill_stages,
        causal=causal,
        kv_bytes=kv_bytes,
        peak_flops_per_s=peak_flops_per_s,
        device=device,
        parameters=parameters,
        score_bytes=score_bytes,
    )
    value_dim = head_dim if value_dim is None else value_dim
    return KernelTime(
        stages,
        (sequences, new_tokens, cached_tokens, heads, kv_heads, head_dim, value_dim, window),
        work=number(sequences) * new_tokens,
        launch_s=parameters.launch_s if floor_s is None else floor_s,
        chunk=16384,
    )


class _Prefill(NamedTuple):
    """Shapes of prefill attention, [shapes] each, as in `prefill_attention_time`."""

    sequences: Array
    new: Array
    cached: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    value_dim: Array
    window: Array


def _prefill_stages(
    *axes: Array,
    causal: bool,
    kv_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: PrefillAttentionParameters,
    score_bytes: float,
) -> Stages:
    """Products with exponentials, and memory, side by side; then the write to the cache."""
    shape = _Prefill(*axes)
    sequences, new, cached, heads, kv_heads, head_dim, value_dim, window = shape
    seen = np.where(window > 0, np.minimum(cached, window), cached)
    appended = sequences * new * kv_heads * (head_dim + value_dim) * ACTIVATION_BYTES
    queries = sequences * new * heads * head_dim * ACTIVATION_BYTES
    moved = (
        queries
        + appended
        + sequences * new * heads * value_dim * ACTIVATION_BYTES
        + sequences * seen * kv_heads * (head_dim + value_dim) * kv_bytes
    )
    stages = {
        "compute": _prefill_compute_s(shape, causal, peak_flops_per_s, device, parameters),
        "memory": moved / (parameters.memory_efficiency * device.memory_bytes_per_s),
    }
    after = {"append": parameters.append_passes * (queries + appended) / device.memory_bytes_per_s}
    if score_bytes:
        pairs = attended_pairs(new, cached, window) if causal else new * (cached + new)
        after["scores"] = sequences * heads * pairs * score_bytes / device.memory_bytes_per_s
    return Stages(stages, p_norm(parameters.overlap, *stages.values()), after=after)


def _prefill_compute_s(
    shape: _Prefill,
    causal: bool,
    peak_flops_per_s: float,
    device: Device,
    parameters: PrefillAttentionParameters,
) -> Array:
    """Time of products and exponentials, blocks spread over the units [s], [shapes].

    At least that of the longest block, 128 query rows over all their keys on one unit.
    """
    products = _head_efficiency(shape.head_dim, parameters) * peak_flops_per_s
    exponentials = parameters.exp_efficiency * _EXP_PER_UNIT_CLOCK * device.compute_units
    exponentials = exponentials * device.clock_hz
    rows, flops_per_pair = shape.sequences * shape.heads, 2.0 * (shape.head_dim + shape.value_dim)
    pairs = _block_pairs(shape.new, shape.cached, shape.window, causal, parameters.window_blocks)
    blocks = p_norm(
        parameters.overlap, rows * pairs * flops_per_pair / products, rows * pairs / exponentials
    )
    starts = np.maximum(rows * np.ceil(shape.new / _ROWS) / device.compute_units, 1.0)
    keys = shape.cached + shape.new
    reach = np.where(shape.window > 0, np.minimum(shape.window + _ROWS, keys), keys)
    reach = reach * parameters.longest_block
    longest = _ROWS * reach * (flops_per_pair / products + 1.0 / exponentials)
    # A block of few rows ends sooner: tensor cores work in steps of 16 rows.
    fewer_rows = np.minimum(np.ceil(shape.new / 16.0) * 16.0 / _ROWS, 1.0)
    return number(
        np.maximum(
            blocks + parameters.block_s * starts, longest * device.compute_units * fewer_rows
        )
    )


def _head_efficiency(head_dim: Array, parameters: PrefillAttentionParameters) -> Array:
    """Share of the peak for a head size: linear in the logarithm of the size between
    fitted sizes.
    """
    fitted = (parameters.efficiency_64, parameters.efficiency_128, parameters.efficiency_256)
    return np.asarray(np.interp(np.log2(head_dim), (6.0, 7.0, 8.0), fitted))


def _block_pairs(new: Array, cached: Array, window: Array, causal: bool, beyond: float) -> Array:
    """(query, key) pairs that the kernel computes for one sequence: whole blocks of both."""
    block = np.where(new < _ROWS, 16.0, _ROWS)
    rows, old = np.ceil(new / block), np.ceil(cached / block)
    if not causal:  # every query sees all keys
        return number(rows * np.ceil((new + cached) / block) * block * block)
    reach = np.where(window > 0, np.ceil(window / block) + beyond * _ROWS / block, 0.0)
    return attended_pairs(rows, old, reach) * block * block


# ------------------------------------------------------------------------------- from an operator


def _expanded(op: Op) -> bool:
    """Whether `op` is latent attention with keys and values per head, the values narrower."""
    d = op.dims
    narrower = np.all(np.asarray(d["value_dim"]) < d["head_dim"])
    return bool(narrower and np.all(np.asarray(d["heads"]) == d["kv_heads"]))


def _prefill_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants in prefill."""
    latent = _expanded(op) or absorbed(op)
    fmt = attention_format(conditions.arithmetic(op), op.kv)
    return ("mla_prefill" if latent else "prefill_attention"), fmt


@prices(*KINDS, phase="prefill", formula=prefill_attention_time, key=_prefill_key)
def _prefill_arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `prefill_attention_time`; for sparse attention the window is its top_k."""
    d = op.dims
    cached = number(d["cached_tokens"])
    return {
        "sequences": d["sequences"],
        "new_tokens": d["new_tokens"],
        "cached_tokens": sparse_context(cached, d["top_k"]) if "top_k" in d else cached,
        "heads": d["heads"],
        "kv_heads": d["kv_heads"],
        "head_dim": d["head_dim"],
        "value_dim": d["value_dim"],
        "window": d["top_k"] if "top_k" in d else d["window"],
        "causal": bool(np.all(d["causal"])),
        "kv_bytes": bytes_of(op.kv),
        "peak_flops_per_s": conditions.peak(op) * conditions.engine.attention_efficiency,
        "device": conditions.device,
        "score_bytes": conditions.engine.score_bytes,
    }
