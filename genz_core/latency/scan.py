"""Recurrences over the sequence: state-space models and linear attention."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.device import Device
from genz_core.latency.kernel_time import KernelTime, Stages
from genz_core.latency.models import prices
from genz_core.latency.numerics import p_norm
from genz_core.latency.parameters import ScanParameters
from genz_core.latency.pointwise import streamed_s
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

_CHUNK = 64.0  # tokens of one chunk of a chunked scan
_CHANNELS_PER_HEAD = 64.0  # Mamba-2's head size, by which a channel-wise scan is divided into heads


def scan_time(
    sequences: Num,
    new_tokens: Num,
    heads: Num,
    *,
    key_dim: Num,
    value_dim: Num,
    drafted: Num = 0.0,
    state_bytes: float = 4.0,
    peak_flops_per_s: float,
    device: Device,
    parameters: ScanParameters,
    warm_cache: bool = False,
    floor_s: float | None = None,
) -> KernelTime:
    """Time of one layer's recurrence with a [key_dim, value_dim] state per head [s].

    Chunked form (prefill): per token and head, products within a chunk of 64 and with the state,
    2 * 64 (key + value) + 4 key value FLOPs; the chunks of a sequence follow one another::

        t_compute = B S H (...) / (compute_efficiency peak)
        t_memory  = (q, k, v, out of B S tokens + states read and written) / (e_m bandwidth)
        T         = launch + p_norm(overlap, t_compute, t_memory, chunk_s ceil(S/64) x)

    with x = max(1, B H / units).  One token (decode) is the same with S = 1: the state's traffic.
    A selective state space with C channels and N states per channel is H = C/64 heads of
    key_dim N and value_dim 64 (Mamba-2's head size).

    Args:
        sequences, new_tokens, heads, key_dim, value_dim: on this device, numbers or arrays
            [shapes] that broadcast; zero costs nothing.
        drafted: tokens of each sequence after which a further state is written, see
            `genz_core.operators.linear_attention`.
        state_bytes: per element of the state.  peak_flops_per_s: of the arithmetic type.
        device, parameters: the datasheet, and fitted constants of the device and phase.
        warm_cache: small states stay in the last-level cache, as between repeats of a benchmark but
            not in engines.
        floor_s: replaces `parameters.launch_s`.

    Source: chunked forms of Yang et al. (arXiv:2412.06464) and Dao and Gu (arXiv:2405.21060).
    """
    stages = partial(
        _stages,
        state_bytes=state_bytes,
        peak_flops_per_s=peak_flops_per_s,
        device=device,
        parameters=parameters,
        warm_cache=warm_cache,
    )
    return KernelTime(
        stages,
        (sequences, new_tokens, heads, key_dim, value_dim, drafted),
        work=number(sequences) * new_tokens * heads,
        launch_s=parameters.launch_s if floor_s is None else floor_s,
    )


def _stages(
    sequences: Array,
    new: Array,
    heads: Array,
    key_dim: Array,
    value_dim: Array,
    drafted: Array,
    *,
    state_bytes: float,
    peak_flops_per_s: float,
    device: Device,
    parameters: ScanParameters,
    warm_cache: bool,
) -> Stages:
    """Products, memory traffic and the chain of chunks, overlapping, [shapes]."""
    rows = sequences * new * heads
    inner = np.where(new > 1, 2.0 * np.minimum(new, _CHUNK) * (key_dim + value_dim), 0.0)
    flops = rows * (inner + 4.0 * key_dim * value_dim)
    moved = rows * (2.0 * key_dim + 2.0 * value_dim) * 2.0
    moved = moved + (2.0 + drafted) * sequences * heads * key_dim * value_dim * state_bytes
    waves = np.maximum(sequences * heads / device.compute_units, 1.0)
    stages = {
        "compute": flops / (parameters.compute_efficiency * peak_flops_per_s),
        "memory": streamed_s(moved, device, parameters, warm_cache),
        "chunks": parameters.chunk_s * np.ceil(new / _CHUNK) * waves,
    }
    return Stages(stages, p_norm(parameters.overlap, *stages.values()))


# ------------------------------------------------------------------------------- from an operator


def _prefill_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants in prefill."""
    return "scan", "prefill"


def _decode_key(conditions: Conditions, op: Op) -> tuple[str, str]:
    """Class and format of the constants in decode."""
    return "scan", "decode"


@prices(
    "ssm", "linear_attention", phase="prefill",
    formula=scan_time, key=_prefill_key,
)  # fmt: skip
@prices(
    "ssm", "linear_attention", phase="decode",
    formula=scan_time, key=_decode_key,
)  # fmt: skip
def _arguments(conditions: Conditions, op: Op) -> dict[str, Any]:
    """Arguments of `scan_time`; a state-space scan has a head for every 64 channels."""
    d = op.dims
    return {
        "sequences": d["sequences"],
        "new_tokens": d["new_tokens"],
        "heads": d["heads"] if "heads" in d else np.asarray(d["channels"]) / _CHANNELS_PER_HEAD,
        "key_dim": d.get("key_dim", d.get("state", 1.0)),
        "value_dim": d.get("value_dim", _CHANNELS_PER_HEAD),
        "drafted": d["drafted"],
        "peak_flops_per_s": conditions.peak(op),
        "device": conditions.device,
        "warm_cache": conditions.warm_cache,
        "floor_s": conditions.floor_s(2),
    }
