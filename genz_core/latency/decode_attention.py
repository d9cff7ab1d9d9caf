"""Attention of a decode step: a split stream of keys."""

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
from genz_core.latency.parameters import DecodeAttentionParameters
from genz_core.latency.profile import attention_format
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import Symbol, number
from genz_core.types import Array, Num

_KEYS = 64.0  # keys of one step
_SPLITS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256], dtype=np.float64)
_FEW = 256  # shapes for which all splits take less time than a search for the useful ones


def decode_attention_time(
    sequences: Num,
    context: Num,
    *,
    heads: Num,
    kv_heads: Num,
    head_dim: Num,
    value_dim: Num | None = None,
    new_tokens: Num = 1,
    window: Num = 0,
    shared_kv: bool = False,
    kv_bytes: float = 2.0,
    peak_flops_per_s: float,
    device: Device,
    parameters: DecodeAttentionParameters,
    warm_cache: bool = False,
    floor_s: float | None = None,
) -> KernelTime:
    """Time of attention of one new token (or a few) per sequence over its cache [s].

    For each split s of the L keys, with n = B Hkv s blocks, x = max(1, n / units)::

        t_memory = (keys and values + queries and outputs) / (memory_efficiency bandwidth)
                   / min(1, active units / (ramp units))
        t_mma    = 2 B Hkv rows (D + Dv) L / (compute_efficiency peak) / active share
        t        = p_norm(overlap, t_memory, t_mma, chunk ceil(L/64)/s, block x)
                   + split log2 s + partial results / bandwidth
        T        = launch + min t + append_passes (new q, k, v) / bandwidth

    Args:
        sequences, context: sequences and keys each query sees, the new token's included; numbers
            or arrays [shapes] that broadcast, zero costs nothing.
        heads, kv_heads, head_dim, value_dim, window: as in `prefill_attention_time`.
        new_tokens: queries per sequence (more than one when verifying a draft).
        shared_kv: keys hold the values (absorbed latent attention): they are read once.
        kv_bytes, peak_flops_per_s, device, floor_s: as in `prefill_attention_time`.
        parameters: fitted constants of the device and (compute, cache) format.
        warm_cache: a small cache may lie in the last-level cache (benchmarks).

    Heads that share no keys (multi-head attention) run in other kernels than grouped heads and have
    their own launch, block and chunk constants (`block_mha_s`, `mha_launch`, `mha_chunk`).

    Source: split over the keys as in Dao et al., Flash-Decoding (2023).
    """
    stages = partial(
        _decode_stages,
        shared_kv=shared_kv,
        kv_bytes=kv_bytes,
        peak_flops_per_s=peak_flops_per_s,
        device=device,
        parameters=parameters,
        warm_cache=warm_cache,
    )
    value_dim = head_dim if value_dim is None else value_dim
    if floor_s is None:
        multi_head = number(heads) <= kv_heads
        launch = parameters.launch_s * np.where(multi_head, parameters.mha_launch, 1.0)
    else:
        launch = np.asarray(floor_s)
    return KernelTime(
        stages,
        (sequences, context, heads, kv_heads, head_dim, value_dim, new_tokens, window),
        work=number(sequences) * context,
        launch_s=launch,
        chunk=2048,
    )


class _Decode(NamedTuple):
    """Shapes of decode attention, [shapes] each, as in `decode_attention_time`.

    keys: within the window.  steps: of 64 keys; keys outside the window count in part.
    """

    sequences: Array
    keys: Array
    steps: Array
    heads: Array
    kv_heads: Array
    head_dim: Array
    value_dim: Array
    new: Array

    @classmethod
    def of(cls, axes: tuple[Array, ...], window_leak: float) -> _Decode:
        """The shapes, from the axes of `decode_attention_time`."""
        sequences, context, heads, kv_heads, head_dim, value_dim, new, window = axes
        # An empty sequence still gets one step; the caller drops its time.
        sequences = np.maximum(sequences, 1e-9)
        keys = np.maximum(np.where(window > 0, np.minimum(context, window), context), 1.0)
        # Keys outside the window are skipped, but skipping them is not entirely free.
        skipped = np.maximum(context, keys) - keys
        steps = np.ceil(keys / _KEYS) + window_leak * skipped / _KEYS
        return cls(sequences, keys, steps, heads, kv_heads, head_dim, value_dim, new)


def _decode_stages(
    *axes: Array,
    shared_kv: bool,
    kv_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: DecodeAttentionParameters,
    warm_cache: bool,
) -> Stages:
    """Overlapping stages for each split of the keys, [splits, shapes]; then the write of
    the cache.
    """
    shape = _Decode.of(axes, parameters.window_leak)
    sequences, keys, steps, heads, kv_heads, head_dim, value_dim, new = shape
    splits = _splits(steps)[:, None]
    split = np.minimum(splits, steps)
    streams, group, both_dims = sequences * kv_heads, heads / kv_heads, head_dim + value_dim
    blocks = streams / device.compute_units * split  # of a unit
    # Memory parallelism counts keys, not whole steps: 65 keys are not read faster than 64.
    active = streams / device.compute_units * np.minimum(splits, keys / _KEYS)
    filling = np.minimum(np.minimum(active, 1.0) / parameters.ramp, 1.0)
    cache = streams * keys * (head_dim if shared_kv else both_dims) * kv_bytes
    queries = sequences * heads * new * ACTIVATION_BYTES
    per_byte = _stream_s_per_byte(cache + queries * both_dims, device, parameters, warm_cache)
    flops = _decode_flops(streams, group * new, keys, head_dim, value_dim)
    multi_head = group <= 1
    block_s = np.where(multi_head, parameters.block_mha_s, parameters.block_s)
    chunk_s = parameters.chunk_s * np.where(multi_head, parameters.mha_chunk, 1.0)
    compute = flops / (parameters.compute_efficiency * peak_flops_per_s)
    stages = {
        "memory": per_byte * (cache / filling + queries * both_dims),
        "compute": compute / np.minimum(blocks, 1.0),
        "key_steps": chunk_s * steps / split,
        "blocks": block_s * np.maximum(blocks, 1.0),
    }
    partials = 2.0 * queries * both_dims / device.memory_bytes_per_s * split
    splitting = parameters.split_s * np.log2(split) + np.where(split > 1, partials, 0.0)
    fresh = sequences * new * (heads + 2.0 * kv_heads) * head_dim * ACTIVATION_BYTES
    return Stages(
        stages,
        p_norm(parameters.overlap, *stages.values()),
        of_way={"split_keys": splitting},
        after={"append": parameters.append_passes * fresh / device.memory_bytes_per_s},
    )


def _splits(steps: Array) -> Array:
    """Numbers of parts that the keys may be split into; no shape has more parts than steps."""
    if isinstance(steps, Symbol) or steps.size < _FEW:
        return _SPLITS
    return _SPLITS[: np.searchsorted(_SPLITS, steps.max()) + 1]


def _decode_flops(
    streams: Array, rows: Array, keys: Array, head_dim: Array, value_dim: Array
) -> Array:
    """FLOPs of the two products: query rows in steps of 16, keys in steps of 64, padded heads."""
    padded_rows = np.ceil(rows / 16.0) * 16.0
    padding = _padded(head_dim) / head_dim
    per_key = streams * padded_rows * 2.0 * (head_dim + value_dim) * padding
    return number(per_key * np.ceil(keys / _KEYS) * _KEYS)


def _padded(head_dim: Array) -> Array:
    """Head size that a kernel computes with: 64, 128 or 256; wider heads are not padded."""
    power = np.exp2(np.ceil(np.log2(np.maximum(head_dim, 64.0)) - 1e-9))
    return number(np.where(head_dim <= 256.0, power, head_dim))


def _stream_s_per_byte(
    moved: Array, device: Device, parameters: DecodeAttentionParameters, warm_cache: bool
) -> Array:
    """Time per byte read [s]; a warm working set smaller than the last-level cache stays in it."""
    cold = 1.0 / (parameters.memory_efficiency * device.memory_bytes_per_s)
    if not warm_cache:
        return np.full(np.shape(moved), cold)
    miss = 1.0 / (1.0 + (0.7 * device.l2_bytes / np.maximum(moved, 1.0)) ** 3)
    warm = 1.0 / (parameters.cache_speedup * device.memory_bytes_per_s)
    return number(miss * cold + (1.0 - miss) * warm)


# ------------------------------------------------------------------------------- from an operator


def _decode_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants in decode."""
    fmt = attention_format(conditions.arithmetic(op), op.kv)
    return ("mla_decode" if absorbed(op) else "decode_attention"), fmt


@prices(*KINDS, phase="decode", formula=decode_attention_time, key=_decode_key)
def _decode_arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `decode_attention_time`; for sparse attention the context is its top_k, and each
    query of a draft gathers its own keys.  Without a new token, as of an encoder whose input was
    read before, no sequence is read.
    """
    d = op.dims
    queries = np.maximum(number(d["new_tokens"]), 1.0)
    sequences = d["sequences"] * np.minimum(number(d["new_tokens"]), 1.0)
    context = number(d["cached_tokens"]) + queries
    apart = "top_k" in d
    return {
        "sequences": sequences * queries if apart else sequences,
        "context": sparse_context(context, d["top_k"]) if apart else context,
        "new_tokens": 1.0 if apart else queries,
        "heads": d["heads"],
        "kv_heads": d["kv_heads"],
        "head_dim": d["head_dim"],
        "value_dim": d["value_dim"],
        "window": d["window"],
        "shared_kv": absorbed(op),
        "kv_bytes": bytes_of(op.kv),
        "peak_flops_per_s": conditions.peak(op),
        "device": conditions.device,
        "warm_cache": conditions.warm_cache,
    }
