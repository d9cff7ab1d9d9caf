"""Profiling results for NVIDIA Dynamo's planner, predicted instead of measured.

Format: PrefillInterpolator and DecodeInterpolator in
https://github.com/ai-dynamo/dynamo/blob/6c2186447653b2e5f63168cb5324b7cace96eacc/components/src/dynamo/planner/core/throughput/interpolation.py
(times in milliseconds, tokens per second per GPU, one-dimensional arrays), as written by
components/src/dynamo/profiler/utils/profile_prefill.py and profile_decode.py: for each phase a
folder with raw_data.npz, or two JSON files if a ConfigMap is mounted.
"""

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from app.simulation.predictor.step_prices import StepPrices
from genz_core.errors import OutOfMemory
from genz_core.types import Array

#: The profiler's first prompt length, its output length, and its margin for a chat template
#: [tokens].
_FIRST, _OUTPUT, _TEMPLATE = 100, 500, 512
#: Number of lengths in a sweep, and of loads per length; the profiler itself uses 16 and 6.
_LENGTHS, _LOADS = 16, 8


def files(prices: StepPrices) -> dict[str, bytes]:
    """Files by path in the folder of the planner's profiling results.

    Raises:
        OutOfMemory: no sequence of the sweep fits the cache.
    """
    phases = {"prefill": prefill(prices), "decode": decode(prices)}
    found = {f"selected_{n}_interpolation/raw_data.npz": _npz(data) for n, data in phases.items()}
    return found | {f"{n}_raw_data.json": _json(data) for n, data in phases.items()}


def prefill(prices: StepPrices) -> Mapping[str, Array]:
    """prefill_isl [tokens], prefill_ttft [ms], prefill_thpt_per_gpu [tokens/s].

    Each attention rank reads its own prompt: the throughput is the sum over all ranks.
    """
    lengths = _lengths(prices.longest - _TEMPLATE)
    ttft_ms = np.array([prices.prompt_s(int(tokens)) for tokens in lengths]) * 1e3
    per_gpu = lengths / ttft_ms * 1e3 * prices.ranks / prices.devices
    return {"prefill_isl": lengths, "prefill_ttft": ttft_ms, "prefill_thpt_per_gpu": per_gpu}


def decode(prices: StepPrices) -> Mapping[str, Array]:
    """x_kv_usage (share of the cache), y_context_length [tokens], z_itl [ms], z_thpt_per_gpu
    [tokens/s] of every point, and max_kv_tokens, an array with one element.

    Raises:
        OutOfMemory: no sequence of the sweep fits the cache.
    """
    points: list[tuple[float, float, float, float]] = []
    for prompt in _lengths(prices.longest - _OUTPUT):
        context = float(prompt) + _OUTPUT / 2
        most = int(prices.kv_tokens // (prompt + _OUTPUT))
        loads = np.geomspace(1, min(most, 4096), _LOADS) if most else ()
        for sequences in sorted(set(map(round, loads))):
            itl_s = prices.decode_s(sequences, context)
            usage = context * sequences / prices.kv_tokens
            points.append((usage, context, itl_s * 1e3, sequences / itl_s / prices.devices))
    if not points:
        raise OutOfMemory(
            f"{prices.kv_tokens:,} tokens of KV cache cannot hold a sequence of {_FIRST + _OUTPUT}"
        )
    columns = np.array(points).T
    names = ("x_kv_usage", "y_context_length", "z_itl", "z_thpt_per_gpu")
    return {**dict(zip(names, columns, strict=True)), "max_kv_tokens": np.array([prices.kv_tokens])}


def _lengths(longest: int) -> Array:
    """Prompt lengths in equal steps from 100 tokens to the longest."""
    return np.unique(np.linspace(_FIRST, max(longest, _FIRST), _LENGTHS).round()).astype(np.int64)


def _npz(data: Mapping[str, Array]) -> bytes:
    packed = io.BytesIO()
    arrays: dict[str, Any] = {name: np.asarray(values) for name, values in data.items()}
    np.savez(packed, **arrays)
    return packed.getvalue()


def _json(data: Mapping[str, Array]) -> bytes:
    plain: dict[str, Any] = {name: values.tolist() for name, values in data.items()}
    if "max_kv_tokens" in plain:
        (plain["max_kv_tokens"],) = plain["max_kv_tokens"]
    return json.dumps(plain, indent=1).encode() + b"\n"
