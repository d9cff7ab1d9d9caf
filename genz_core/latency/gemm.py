"""Matrix products: tiles on units, a K loop with latency, split-K, and memory that overlaps."""

from __future__ import annotations

from functools import partial

import numpy as np

from genz_core.latency.device import Device
from genz_core.latency.numerics import chunked, distinct, p_norm, warm_share
from genz_core.latency.parameters import GemmParameters
from genz_core.types import Array, Num

#: Output tiles (rows, columns) and K splits that kernels choose among; those thinner than 64 rows
#: belong to kernels made for few rows, see `least_rows`.
_TILES = np.array(
    [(8, 64), (16, 64), (16, 128), (32, 64), (32, 128), (64, 32), (64, 64), (64, 256), (128, 32),
     (128, 64), (128, 128), (128, 256), (256, 128), (256, 256)], dtype=np.float64,
)  # fmt: skip
_SPLITS = np.array([1, 2, 4, 8, 16, 32], dtype=np.float64)
_LEAST_K_PER_SPLIT = 128
_OUTPUT_BYTES = 2.0


def gemm_s(
    m: Num,
    n: Num,
    k: Num,
    *,
    weight_bytes: float,
    activation_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: GemmParameters,
    warm_cache: bool = False,
    quantized: bool = False,
    least_rows: int = 64,
    floor_s: float | None = None,
) -> Array:
    """Time of x[m, k] @ w[k, n] on one device [s].

    For each tile (BM, BN) and split s of K, with x = max(1, ceil(m/BM) ceil(n/BN) s / units)::

        t_compute = x BM BN (2 max(k/s, 64) / (compute_efficiency peak / units)
                             + 2 bytes / (store_share 64 clock))
        t_memory  = bytes / (memory_efficiency bandwidth)
        t         = p_norm(2, p_norm(overlap, t_compute, t_memory), k_step k/s bytes/128)
                    + [s > 1] (8 s m n / cache_bandwidth + split log2 s)
        T         = launch + min t + [quantized] quantize_passes 2 m k / bandwidth

    The best tile depends on t_compute alone, so it is chosen before the p-norm.

    Args:
        m, n, k: rows (tokens), output features, input features; broadcast.  m = 0 costs nothing.
        weight_bytes, activation_bytes: per element.
        peak_flops_per_s: dense peak of the arithmetic type it runs in.
        warm_cache: operands may lie in the last-level cache, as in a benchmark that repeats one
            product; real decoding reads each weight once a step, cold.
        quantized: the activations are quantised on the fly before the product.
        least_rows: rows of the thinnest tile: 64 in the libraries' matrix kernels, 8 in kernels
            made for few rows (weight-only formats, vector kernels).
        floor_s: replaces `parameters.launch_s` (an engine's kernel floor under CUDA graphs).

    Source: tile and wave quantisation as in NVIDIA, "Matrix Multiplication Background User's
    Guide"; the p-norm of overlapping stages and the constants are fitted, see the profile.
    """
    cost = partial(
        _product_s,
        weight_bytes=weight_bytes,
        activation_bytes=activation_bytes,
        peak=peak_flops_per_s,
        device=device,
        parameters=parameters,
        warm_cache=warm_cache,
        least_rows=least_rows,
    )
    if np.ndim(n) == 0 and np.ndim(k) == 0:
        time = distinct(lambda rows: chunked(cost, rows, n, k), np.asarray(m, np.float64))
    else:
        time = chunked(cost, m, n, k)
    launch = parameters.launch_s if floor_s is None else floor_s
    if quantized:
        passes = parameters.quantize_passes * 2.0 / device.memory_bytes_per_s
        time = time + passes * np.asarray(m, np.float64) * k
    return np.where(np.asarray(m) > 0, launch + time, 0.0)


def _product_s(
    m: Array,
    n: Array,
    k: Array,
    *,
    weight_bytes: float,
    activation_bytes: float,
    peak: float,
    device: Device,
    parameters: GemmParameters,
    warm_cache: bool,
    least_rows: int,
) -> Array:
    """The kernel's own time for flat arrays of one length."""
    split = _SPLITS[:, None]
    k_split = k / split
    per_flop = device.units / (parameters.compute_efficiency * peak)
    store = _OUTPUT_BYTES / (parameters.store_share * 64.0 * device.clock_hz)
    compute = _least_area(m, n, device.units, least_rows) * (
        2.0 * np.maximum(k_split, 64.0) * per_flop + store
    )
    memory = _memory_s(m, n, k, weight_bytes, activation_bytes, device, parameters, warm_cache)
    pipeline = k_split * (parameters.k_step_s * max(activation_bytes, weight_bytes) / 128.0)
    body = p_norm(parameters.overlap, compute, memory[None, :])
    time = np.sqrt(body * body + pipeline * pipeline)
    time += (split > 1) * (
        8.0 * split * (m * n) / device.cache_bytes_per_s + parameters.split_s * np.log2(split)
    )
    time = np.where((split > 1) & (k_split < _LEAST_K_PER_SPLIT), np.inf, time)
    return np.asarray(time.min(axis=0))


def _least_area(m: Array, n: Array, units: float, least_rows: int) -> Array:
    """Smallest work of the busiest unit over tiles, as output elements; [splits, shapes]."""
    allowed = _TILES[_TILES[:, 0] >= least_rows]
    rows, columns = allowed[:, :1], allowed[:, 1:]
    one_wave = rows * columns
    area = np.ceil(m / rows) * np.ceil(n / columns) * (one_wave / units)
    return np.stack([np.maximum(area * split, one_wave).min(axis=0) for split in _SPLITS])


def _memory_s(
    m: Array,
    n: Array,
    k: Array,
    weight_bytes: float,
    activation_bytes: float,
    device: Device,
    parameters: GemmParameters,
    warm_cache: bool,
) -> Array:
    """Time to move the operands once; partly from cache where a benchmark left them there.

    A benchmark that cycles through c = clip(ceil(L2 / weights), 1, 5) copies of the weights has a
    working set of c weights and two activations; the share that misses falls with the fourth
    power of the cache over the set.
    """
    weights, inputs = n * k * weight_bytes, m * k * activation_bytes
    outputs = m * n * _OUTPUT_BYTES
    cold = (weights + inputs + outputs) / device.memory_bytes_per_s
    if not warm_cache:
        return np.asarray(cold / parameters.memory_efficiency)
    copies = np.clip(np.ceil(device.l2_bytes / np.maximum(weights, 1.0)), 1.0, 5.0)
    held = copies * weights + inputs + outputs
    warm = warm_share(held, device.l2_bytes)
    speedup = max(
        parameters.cache_share * device.cache_bytes_per_s / device.memory_bytes_per_s,
        parameters.memory_efficiency,
    )
    return np.asarray(cold * ((1.0 - warm) / parameters.memory_efficiency + warm / speedup))
