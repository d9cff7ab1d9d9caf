"""Attention: prefill (products and exponentials in blocks) and decode (a split stream of keys)."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.kernel_time import KernelTime, Stages
from genz_core.latency.models import prices
from genz_core.latency.numerics import p_norm
from genz_core.latency.parameters import DecodeAttentionParameters, PrefillAttentionParameters
from genz_core.latency.profile import attention_format
from genz_core.operators import attended_pairs
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import Symbol, number
from genz_core.types import Array, Num

_ROWS = 128.0  # query rows of one block in prefill
_KEYS = 64.0  # keys of one step in decode
_SPLITS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256], dtype=np.float64)
_FEW = 256  # shapes for which all splits take less time than a search for the useful ones
_EXP_PER_UNIT_CLOCK = 16.0
_ACTIVATION_BYTES = 2.0


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
    appended = sequences * new * kv_heads * (head_dim + value_dim) * _ACTIVATION_BYTES
    queries = sequences * new * heads * head_dim * _ACTIVATION_BYTES
    moved = (
        queries
        + appended
        + sequences * new * heads * value_dim * _ACTIVATION_BYTES
        + sequences * seen * kv_heads * (head_dim + value_dim) * kv_bytes
    )
    stages = {
        "compute": _prefill_compute_s(shape, causal, peak_flops_per_s, device, parameters),
        "memory": moved / (parameters.memory_efficiency * device.memory_bytes_per_s),
    }
    after = {"append": parameters.append_passes * (queries + appended) / device.memory_bytes_per_s}
    if score_bytes:
        scores = sequences * heads * attended_pairs(new, cached, window)
        after["scores"] = scores * score_bytes / device.memory_bytes_per_s
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
    blocks = streams * split
    # Memory parallelism counts keys, not whole steps: 65 keys are not read faster than 64.
    active = streams * np.minimum(splits, keys / _KEYS) / device.compute_units
    filling = np.minimum(np.minimum(active, 1.0) / parameters.ramp, 1.0)
    cache = streams * keys * (head_dim if shared_kv else both_dims) * kv_bytes
    queries = sequences * heads * new * _ACTIVATION_BYTES
    per_byte = _stream_s_per_byte(cache + queries * both_dims, device, parameters, warm_cache)
    flops = _decode_flops(streams, group * new, keys, head_dim, value_dim)
    multi_head = group <= 1
    block_s = np.where(multi_head, parameters.block_mha_s, parameters.block_s)
    chunk_s = parameters.chunk_s * np.where(multi_head, parameters.mha_chunk, 1.0)
    compute = flops / (parameters.compute_efficiency * peak_flops_per_s)
    stages = {
        "memory": per_byte * (cache / filling + queries * both_dims),
        "compute": compute / np.minimum(blocks / device.compute_units, 1.0),
        "key_steps": chunk_s * steps / split,
        "blocks": block_s * np.maximum(blocks / device.compute_units, 1.0),
    }
    partials = 2.0 * queries * both_dims * split / device.memory_bytes_per_s
    splitting = parameters.split_s * np.log2(split) + np.where(split > 1, partials, 0.0)
    fresh = sequences * new * (heads + 2.0 * kv_heads) * head_dim * _ACTIVATION_BYTES
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


def sparse_context(context: Num, top_k: Num) -> Array:
    """Keys that a query of sparse attention reads: the `top_k` chosen by its indexer, or all if
    fewer.
    """
    return np.minimum(number(context), top_k)


# ------------------------------------------------------------------------------- from an operator


def _absorbed(op: Op) -> bool:
    """Whether `op` is latent attention over the latent cache, whose keys hold the values."""
    return bool(np.all(np.asarray(op.dims.get("shared_kv", 0.0)) > 0))


def _expanded(op: Op) -> bool:
    """Whether `op` is latent attention with keys and values per head, the values narrower."""
    d = op.dims
    narrower = np.all(np.asarray(d["value_dim"]) < d["head_dim"])
    return bool(narrower and np.all(np.asarray(d["heads"]) == d["kv_heads"]))


def _prefill_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants in prefill."""
    latent = _expanded(op) or _absorbed(op)
    fmt = attention_format(conditions.arithmetic(op), op.kv)
    return ("mla_prefill" if latent else "prefill_attention"), fmt


def _decode_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants in decode."""
    fmt = attention_format(conditions.arithmetic(op), op.kv)
    return ("mla_decode" if _absorbed(op) else "decode_attention"), fmt


_KINDS = ("attention", "mla_attention", "sparse_attention", "cross_attention")


@prices(*_KINDS, phase="prefill", formula=prefill_attention_time, key=_prefill_key)
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


@prices(*_KINDS, phase="decode", formula=decode_attention_time, key=_decode_key)
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
        "shared_kv": _absorbed(op),
        "kv_bytes": bytes_of(op.kv),
        "peak_flops_per_s": conditions.peak(op),
        "device": conditions.device,
        "warm_cache": conditions.warm_cache,
    }
