"""Matrix products: tiles on compute units, a K loop with latency, split-K, and overlapping
memory.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.kernel_time import KernelTime, Stages, in_passes
from genz_core.latency.models import prices
from genz_core.latency.numerics import p_norm, warm_share
from genz_core.latency.parameters import GemmParameters
from genz_core.latency.profile import product_format
from genz_core.precision import bytes_of
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

#: Output tiles (rows, columns) and K splits that kernels choose among; tiles of fewer than 64 rows
#: belong to kernels for few rows, those of fewer than 8 to matrix-vector kernels, see `least_rows`.
_TILES = np.array(
    [(1, 64), (2, 64), (4, 64), (8, 64), (16, 64), (16, 128), (32, 64), (32, 128), (64, 32),
     (64, 64), (64, 256), (128, 32), (128, 64), (128, 128), (128, 256), (256, 128), (256, 256)],
    dtype=np.float64,
)  # fmt: skip
_SPLITS = np.array([1, 2, 4, 8, 16, 32], dtype=np.float64)
_LEAST_K_PER_SPLIT = 128
_OUTPUT_BYTES = 2.0
_CHUNK = 4096  # shapes at a time, so that their tilings fit in a second-level cache
#: Most rows of the kernels that multiply packed weights with vectors.
MOST_VECTORS = 8.0
_FEW = 64  # number of shapes whose tilings with every split fit in that cache


def gemm_time(
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
    streamed: bool = False,
    vector_weights_per_s: float = 0.0,
    pass_rows: float = 0.0,
    floor_s: float | None = None,
) -> KernelTime:
    """Time of the product x[m, k] @ w[k, n] on one device [s].

    For each tile (BM, BN) and split s of K, with x = max(1, ceil(m/BM) ceil(n/BN) s / units)::

        t_compute = x BM BN (2 max(k/s, 64) / (compute_efficiency peak / units)
                             + 2 bytes / (store_share 64 clock))
        t_memory  = bytes / (memory_efficiency bandwidth)
        t         = p_norm(2, p_norm(overlap, t_compute, t_memory), k_step k/s bytes/128)
                    + [s > 1] (8 s m n / cache_bandwidth + split log2 s)
        T         = launch + min t + [quantized] quantize_passes 2 m k / bandwidth
        t_vector  = n k (2 + min(m, 8)) / 3 / vector_weights_per_s

    The best tile depends on t_compute alone, so it is chosen before the p-norm.  For a single row
    that is `streamed` the inner p-norm is a maximum.

    Where `vector_weights_per_s` is given, up to 8 rows run on a matrix-vector kernel: t_vector
    replaces t_compute, and there is no K loop.  It unpacks each weight once and multiplies it with
    each row on the vector units.  More rows take at least t_vector.

    Where `pass_rows` is given and m exceeds it, T - launch is m / pass_rows times that of
    `pass_rows` rows.

    Args:
        m, n, k: rows (tokens), output features, input features; numbers or arrays [shapes] that
            broadcast.  m = 0 costs nothing.
        weight_bytes, activation_bytes: per element.
        peak_flops_per_s: dense peak of the arithmetic type it runs in.
        device: units, clock, bandwidths and caches of the datasheet.
        parameters: fitted constants of the device and number format.
        warm_cache: operands may lie in the last-level cache, as in a benchmark that repeats one
            product; real decoding reads each weight once a step, cold.
        quantized: the activations are quantised on the fly before the product.
        least_rows: rows of the thinnest tile: 64 in the libraries' matrix kernels, 8 in kernels
            made for few rows (weight-only formats), 1 where there are matrix-vector kernels.
        streamed: a product of one row multiplies the weights as they come from memory, as on CPUs;
            more rows have them packed for the blocks of their kernel first.
        vector_weights_per_s: weights that matrix-vector kernels unpack and multiply with one row a
            second; 0 where an engine has none.
        pass_rows: most rows of one run, 0 for any number.
        floor_s: replaces `parameters.launch_s` (an engine's kernel floor under CUDA graphs).

    Source: tile and wave quantisation as in NVIDIA, "Matrix Multiplication Background User's
    Guide"; the p-norm of overlapping stages and the constants are fitted, see the profile.
    Matrix-vector kernels: llama.cpp, ggml-cuda/mmvq.cuh (MMVQ_MAX_BATCH_SIZE is 8); the share of
    unpacking from the throughput of one to eight rows of q4_0 in its pull request 15802.
    """
    stages = partial(
        _stages,
        weight_bytes=weight_bytes,
        activation_bytes=activation_bytes,
        peak_flops_per_s=peak_flops_per_s,
        device=device,
        parameters=parameters,
        warm_cache=warm_cache,
        quantized=quantized,
        least_rows=least_rows,
        streamed=streamed,
        vector_weights_per_s=vector_weights_per_s,
    )
    if pass_rows:
        stages = partial(in_passes, run=_stages, rows=1, most=pass_rows, **stages.keywords)
    return KernelTime(
        stages,
        (m, n, k),
        work=m,
        launch_s=parameters.launch_s if floor_s is None else floor_s,
        chunk=_CHUNK,
        repeats=np.ndim(n) == 0 and np.ndim(k) == 0,
    )


def _stages(
    m: Array,
    n: Array,
    k: Array,
    *,
    weight_bytes: float,
    activation_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: GemmParameters,
    warm_cache: bool,
    quantized: bool,
    least_rows: int,
    streamed: bool,
    vector_weights_per_s: float,
) -> Stages:
    """Stages of a product for every split of K, [splits, shapes]; m, n, k: [shapes]."""
    split = _SPLITS[:, None]
    k_split = k / split
    per_flop = device.compute_units / (parameters.compute_efficiency * peak_flops_per_s)
    store = _OUTPUT_BYTES / (parameters.store_share * 64.0 * device.clock_hz)
    compute = _least_area(m, n, device.compute_units, least_rows) * (
        2.0 * np.maximum(k_split, 64.0) * per_flop + store
    )
    memory = _memory_s(m, n, k, weight_bytes, activation_bytes, device, parameters, warm_cache)
    k_loop = k_split * (parameters.k_step_s * max(activation_bytes, weight_bytes) / 128.0)
    if vector_weights_per_s:
        vector = n * k * (2.0 + np.minimum(m, MOST_VECTORS)) / (3.0 * vector_weights_per_s)
        few = m <= MOST_VECTORS
        compute = np.where(few, vector, np.maximum(compute, vector))
        k_loop = np.where(few, 0.0, k_loop)
    body = p_norm(parameters.overlap, compute, memory[None, :])
    if streamed:
        body = np.where(m <= 1.0, np.maximum(compute, memory[None, :]), body)
    too_short = (split > 1) & (k_split < _LEAST_K_PER_SPLIT)
    partials = (split > 1) * 8.0 * split / device.cache_bytes_per_s
    each = np.where(too_short, np.inf, parameters.split_s * np.log2(split))
    after: dict[str, Array] = {}
    if quantized:
        after["quantize"] = parameters.quantize_passes * 2.0 / device.memory_bytes_per_s * m * k
    return Stages(
        {"compute": compute, "memory": memory[None, :], "k_loop": k_loop},
        np.sqrt(body * body + k_loop * k_loop),
        of_way={"split_k": partials * (m * n) + each},
        after=after,
    )


def _least_area(m: Array, n: Array, units: float, least_rows: int) -> Array:
    """Smallest work of the busiest unit over all tiles, in output elements; [splits, shapes]."""
    allowed = _TILES[_TILES[:, 0] >= least_rows]
    rows, columns = allowed[:, :1], allowed[:, 1:]
    thinnest = float(rows.min())  # all tile heights are multiples of it
    if m.size > _FEW and n.size == 1 and m.max() < thinnest * m.size / 2.0:
        tiles = np.ceil(m / thinnest).astype(np.intp)
        every = thinnest * np.arange(tiles.max() + 1.0)
        return _area(every, n, units, rows, columns)[:, tiles]
    return _area(m, n, units, rows, columns)


def _area(m: Array, n: Array, units: float, rows: Array, columns: Array) -> Array:
    """`_least_area` of tiles [tiles, 1]."""
    one_wave = rows * columns
    area = np.ceil(m / rows) * np.ceil(n / columns) * (one_wave / units)
    if m.size <= _FEW:
        least: Array = np.maximum(area * _SPLITS[:, None, None], one_wave).min(axis=1)
        return least
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
    """Time to move the operands once [s], [shapes]; in part from a warm cache.

    A benchmark that cycles through c = clip(ceil(L2 / weights), 1, 5) copies of the weights has a
    working set of c weights and two activations; the share that misses falls with the fourth
    power of the cache over the set.
    """
    weights, inputs = n * k * weight_bytes, m * k * activation_bytes
    outputs = m * n * _OUTPUT_BYTES
    cold = (weights + inputs + outputs) / device.memory_bytes_per_s
    if not warm_cache:
        return number(cold / parameters.memory_efficiency)
    copies = np.clip(np.ceil(device.l2_bytes / np.maximum(weights, 1.0)), 1.0, 5.0)
    working_set = copies * weights + inputs + outputs
    warm = warm_share(working_set, device.l2_bytes)
    speedup = max(
        parameters.cache_share * device.cache_bytes_per_s / device.memory_bytes_per_s,
        parameters.memory_efficiency,
    )
    return number(cold * ((1.0 - warm) / parameters.memory_efficiency + warm / speedup))


# ------------------------------------------------------------------------------- from an operator


def _key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of a product's constants, from its weights' format and arithmetic."""
    return "gemm", product_format(op.weights, conditions.arithmetic(op))


@prices("gemm", "einsum", "convolution", formula=gemm_time, key=_key)
def _arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `gemm_time`; 8-bit and 4-bit products quantise wider activations on the fly."""
    compute = conditions.arithmetic(op)
    quantized = compute in ("fp8", "fp4", "int8") and bytes_of(op.activations) > 1.0
    least_rows = _least_rows(conditions, op, compute)
    plain = conditions.system.kind == "cpu" and not _unpacked(op, compute)
    return {
        "m": op.dims["m"],
        "n": op.dims["n"],
        "k": op.dims["k"],
        "weight_bytes": bytes_of(op.weights),
        "activation_bytes": bytes_of(op.weights if quantized else op.activations),
        "peak_flops_per_s": conditions.peak(op),
        "device": conditions.device_for(op),
        "warm_cache": conditions.warm_cache,
        "quantized": quantized,
        "least_rows": least_rows,
        "streamed": least_rows == 1 and plain,
        "vector_weights_per_s": conditions.vector_weights_per_s(op),
        "pass_rows": conditions.pass_rows,
        "floor_s": conditions.floor_s(2 if quantized else 1),
    }


def _least_rows(conditions: Conditions, op: Op, compute: str) -> int:
    """Rows of the thinnest tile: 1 in engines with matrix-vector kernels and on GPUs of Apple, 8 on
    CPUs and in weight-only kernels, otherwise 64.

    Source of Apple's: MPSMatrixVectorMultiplication of Metal Performance Shaders, qmv of MLX.
    """
    system = conditions.system
    if conditions.engine.thin_products or system.vendor == "Apple":
        return 1
    thin = _unpacked(op, compute) or system.kind == "cpu"
    return 8 if thin else 64


def _unpacked(op: Op, compute: str) -> bool:
    """Whether the weights are unpacked on the fly ("weight only")."""
    return bytes_of(op.weights) < 1.5 and compute in ("bf16", "fp16", "fp32")
