"""Recurrences over the sequence: state-space models and linear attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.models import Terms, prices
from genz_core.latency.numerics import p_norm
from genz_core.latency.parameters import ScanParameters
from genz_core.latency.pointwise import streamed_s
from genz_core.types import Array, Num, Op

_CHUNK = 64.0  # tokens of one chunk of a chunked scan
_CHANNELS_PER_HEAD = 64.0  # Mamba-2's head size: how a channel-wise scan is tiled


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
    parts = _stages(
        sequences, new_tokens, heads, key_dim, value_dim, state_bytes,
        peak_flops_per_s, device, parameters, warm_cache,
    )  # fmt: skip
    time = p_norm(parameters.overlap, *parts.values())
    launch = parameters.launch_s if floor_s is None else floor_s
    return np.where(_rows(sequences, new_tokens, heads) > 0, launch + time, 0.0)


def scan_terms(
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
) -> Terms:
    """The time of `scan_s` taken apart; the same arguments."""
    rows = np.atleast_1d(np.asarray(sequences, np.float64))
    parts = _stages(
        rows, new_tokens, heads, key_dim, value_dim, state_bytes,
        peak_flops_per_s, device, parameters, warm_cache,
    )  # fmt: skip
    body = Terms.overlapped(parts, p_norm(parameters.overlap, *parts.values()))
    launch = parameters.launch_s if floor_s is None else floor_s
    return body.plus(launch=launch).where(_rows(sequences, new_tokens, heads))


def _rows(sequences: Num, new_tokens: Num, heads: Num) -> Array:
    return np.asarray(sequences, np.float64) * new_tokens * heads


def _stages(
    sequences: Num,
    new_tokens: Num,
    heads: Num,
    key_dim: Num,
    value_dim: Num,
    state_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: ScanParameters,
    warm_cache: bool,
) -> dict[str, Array]:
    """Products, traffic and the chain of chunks, side by side."""
    sequences, new, heads = (np.asarray(x, np.float64) for x in (sequences, new_tokens, heads))
    rows = sequences * new * heads
    inner = np.where(
        new > 1, 2.0 * np.minimum(new, _CHUNK) * (key_dim + np.asarray(value_dim)), 0.0
    )
    flops = rows * (inner + 4.0 * np.asarray(key_dim) * value_dim)
    moved = rows * (2.0 * np.asarray(key_dim) + 2.0 * np.asarray(value_dim)) * 2.0
    moved = moved + 2.0 * sequences * heads * key_dim * value_dim * state_bytes
    waves = np.maximum(sequences * heads / device.units, 1.0)
    return {
        "compute": flops / (parameters.compute_efficiency * peak_flops_per_s),
        "memory": streamed_s(moved, device, parameters, warm_cache),
        "chunks": parameters.chunk_s * np.ceil(new / _CHUNK) * waves,
    }


# ------------------------------------------------------------------------------- from an operator


def _prefill_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    return "scan", "prefill"


def _decode_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    return "scan", "decode"


@prices(
    "ssm", "linear_attention", phase="prefill",
    formula=scan_s, terms=scan_terms, key=_prefill_key,
)  # fmt: skip
@prices(
    "ssm", "linear_attention", phase="decode",
    formula=scan_s, terms=scan_terms, key=_decode_key,
)  # fmt: skip
def _arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """State-space scans are heads of 64 channels; linear attention says its heads itself."""
    d = op.dims
    return {
        "sequences": d["sequences"],
        "new_tokens": d["new_tokens"],
        "heads": d["heads"] if "heads" in d else np.asarray(d["channels"]) / _CHANNELS_PER_HEAD,
        "key_dim": d.get("key_dim", d.get("state", 1.0)),
        "value_dim": d.get("value_dim", _CHANNELS_PER_HEAD),
        "peak_flops_per_s": conditions.peak(op),
        "device": conditions.device,
        "warm_cache": conditions.warm_cache,
        "floor_s": conditions.floor_s(2),
    }
