"""Recurrences over the sequence: state-space models and linear attention."""

from __future__ import annotations

import numpy as np

from genz_core.latency.device import Device
from genz_core.latency.numerics import p_norm
from genz_core.latency.parameters import ScanParameters
from genz_core.latency.pointwise import streamed_s
from genz_core.types import Array, Num

_CHUNK = 64.0  # tokens of one chunk of a chunked scan


def scan_s(
    sequences: Num,
    new_tokens: Num,
    heads: Num,
    *,
    key_dim: Num,
    value_dim: Num,
    state_bytes: float = 4.0,
    peak_flops_per_s: float,
    device: Device,
    parameters: ScanParameters,
    warm_cache: bool = False,
    floor_s: float | None = None,
) -> Array:
    """Time of one layer's recurrence with a [key_dim, value_dim] state per head [s].

    Chunked form (prefill): per token and head, products within a chunk of 64 and with the state,
    2 * 64 (key + value) + 4 key value FLOPs; the chunks of a sequence follow one another::

        t_compute = B S H (...) / (compute_efficiency peak)
        t_memory  = (q, k, v, out of B S tokens + state read and written) / (e_m bandwidth)
        T         = launch + p_norm(overlap, t_compute, t_memory, chunk_s ceil(S/64) x)

    with x = max(1, B H / units).  One token (decode) is the same with S = 1: the state's traffic.

    warm_cache: a benchmark's repeats find small states in the last-level cache; engines do not.
    A selective state space with C channels and N states per channel is H = C/64 heads of
    key_dim N and value_dim 64 (Mamba-2's head size).
    Source: chunked forms of Yang et al. (arXiv:2412.06464) and Dao and Gu (arXiv:2405.21060).
    """
    sequences, new, heads = (np.asarray(x, np.float64) for x in (sequences, new_tokens, heads))
    rows = sequences * new * heads
    inner = np.where(
        new > 1, 2.0 * np.minimum(new, _CHUNK) * (key_dim + np.asarray(value_dim)), 0.0
    )
    flops = rows * (inner + 4.0 * np.asarray(key_dim) * value_dim)
    moved = rows * (2.0 * np.asarray(key_dim) + 2.0 * np.asarray(value_dim)) * 2.0
    moved = moved + 2.0 * sequences * heads * key_dim * value_dim * state_bytes
    waves = np.maximum(sequences * heads / device.units, 1.0)
    time = p_norm(
        parameters.overlap,
        flops / (parameters.compute_efficiency * peak_flops_per_s),
        streamed_s(moved, device, parameters, warm_cache),
        parameters.chunk_s * np.ceil(new / _CHUNK) * waves,
    )
    launch = parameters.launch_s if floor_s is None else floor_s
    return np.where(rows > 0, launch + time, 0.0)
