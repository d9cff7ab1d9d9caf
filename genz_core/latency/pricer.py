"""The latency to expect of an operator: from its dimensions to the formula of its class.

Kernels are taken as an engine runs them: operands cold, floors of the engine's graphs in place of
the launch that a benchmark of one kernel sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from genz_core.latency.attention import decode_attention_s, prefill_attention_s, sparse_context
from genz_core.latency.collectives import collective_s
from genz_core.latency.device import Device
from genz_core.latency.gemm import gemm_s
from genz_core.latency.moe import moe_s
from genz_core.latency.parameters import CLASSES
from genz_core.latency.pointwise import pointwise_s
from genz_core.latency.profile import LatencyProfile
from genz_core.latency.roofline import arithmetic_of, peak_of
from genz_core.latency.scan import scan_s
from genz_core.precision import bytes_of
from genz_core.types import Array, EngineProfile, Op, System

#: Constants for a system that came without a profile: the defaults of every parameter set.
_PLAIN = LatencyProfile(
    "engine defaults",
    "default",
    {
        name: {"default": kind(), "bf16": kind(), "bf16/bf16": kind(), "nccl.all_reduce": kind()}
        for name, kind in CLASSES.items()
    },
    note="typical constants; the system came without a profile",
)
_FOUR_BITS = 0.7  # bytes of a weight below which a format has 4 bits and its scales
_CHANNELS_PER_HEAD = 64.0  # Mamba-2's head size: how a channel-wise scan is tiled


@dataclass(frozen=True, slots=True)
class Pricer:
    """Prices operators on one system as one engine runs them."""

    system: System
    engine: EngineProfile
    device: Device = field(init=False)
    profile: LatencyProfile = field(init=False)

    def __post_init__(self) -> None:
        stated = Device.of(self.system)
        reached = stated.memory_bytes_per_s * self.engine.memory_efficiency
        object.__setattr__(self, "device", replace(stated, memory_bytes_per_s=reached))
        object.__setattr__(self, "profile", self.system.latency or _PLAIN)

    def peak(self, op: Op) -> float:
        """The peak that the engine's kernels work against [FLOP/s]."""
        wanted, peaks = self.engine.products, self.system.peak_flops_per_s
        if not wanted:
            return peak_of(op, self.system) * self.engine.compute_efficiency
        if wanted not in peaks:
            return peak_of(op, self.system)
        return peaks[wanted] * self.engine.compute_efficiency

    def device_for(self, op: Op) -> Device:
        """The device as this engine's kernels for `op` reach it."""
        share = 1.0
        if op.kind == "moe" and bytes_of(op.weights) < _FOUR_BITS:
            share = self.engine.expert_efficiency
        elif self.multiplies_four_bits(op):
            share = self.engine.four_bit_efficiency
        if share == 1.0:
            return self.device
        return replace(self.device, memory_bytes_per_s=self.device.memory_bytes_per_s * share)

    def multiplies_four_bits(self, op: Op) -> bool:
        """Whether `op` has 4-bit block weights and the hardware multiplies such blocks."""
        return op.weights in ("nvfp4", "mxfp4") and "fp4" in self.system.peak_flops_per_s

    def expected_s(self, op: Op) -> Array:
        """Latency of one run of `op` [s]; zero where there is nothing to do.

        A launch that takes the host longer than the kernel takes the device is what one waits for.
        """
        time = _ROOMS.get(op.kind, _pointwise)(self, op)
        return np.where(time > 0, np.maximum(time, self.engine.launch_s), 0.0)


def _gemm(pricer: Pricer, op: Op) -> Array:
    compute = arithmetic_of(op, pricer.system)
    quantized = compute in ("fp8", "fp4", "int8") and bytes_of(op.activations) > 1.0
    floor = pricer.engine.kernel_floor_s * (2.0 if quantized else 1.0)
    return gemm_s(
        op.dims["m"],
        op.dims["n"],
        op.dims["k"],
        weight_bytes=bytes_of(op.weights),
        activation_bytes=bytes_of(op.activations) if not quantized else bytes_of(op.weights),
        peak_flops_per_s=pricer.peak(op),
        device=pricer.device_for(op),
        parameters=pricer.profile.gemm(op.weights, compute),
        quantized=quantized,
        least_rows=_least_rows(pricer, op, compute),
        floor_s=floor,
    )


def _least_rows(pricer: Pricer, op: Op, compute: str) -> int:
    """Weight-only formats bring kernels for few rows; the libraries' tiles have 64 at least."""
    weight_only = bytes_of(op.weights) < 1.5 and compute in ("bf16", "fp16", "fp32")
    return 8 if weight_only or pricer.engine.thin_products else 64


def _attention(pricer: Pricer, op: Op) -> Array:
    """Prefill or decode by the new tokens of each configuration; both where they mix."""
    decodes = np.asarray(op.dims["new_tokens"]) <= 1.0
    if np.all(decodes):
        return _decode_attention(pricer, op)
    if not np.any(decodes):
        return _prefill_attention(pricer, op)
    return np.where(decodes, _decode_attention(pricer, op), _prefill_attention(pricer, op))


def _prefill_attention(pricer: Pricer, op: Op) -> Array:
    compute, d = arithmetic_of(op, pricer.system), op.dims
    cached = np.asarray(d["cached_tokens"], dtype=float)
    if "top_k" in d:
        cached = sparse_context(cached, d["top_k"])
    return prefill_attention_s(
        d["sequences"],
        d["new_tokens"],
        cached,
        heads=d["heads"],
        kv_heads=d["kv_heads"],
        head_dim=d["head_dim"],
        value_dim=d["value_dim"],
        window=d["top_k"] if "top_k" in d else d["window"],
        causal=bool(np.all(d["causal"])),
        kv_bytes=bytes_of(op.kv),
        peak_flops_per_s=pricer.peak(op) * pricer.engine.attention_efficiency,
        device=pricer.device,
        parameters=pricer.profile.prefill_attention(
            compute, op.kv, mla=_expanded(op) or _absorbed(op)
        ),
    )


def _decode_attention(pricer: Pricer, op: Op) -> Array:
    compute, d = arithmetic_of(op, pricer.system), op.dims
    context = np.asarray(d["cached_tokens"], dtype=float) + 1.0
    if "top_k" in d:
        context = sparse_context(context, d["top_k"])
    return decode_attention_s(
        d["sequences"],
        context,
        heads=d["heads"],
        kv_heads=d["kv_heads"],
        head_dim=d["head_dim"],
        value_dim=d["value_dim"],
        window=d["window"],
        shared_kv=_absorbed(op),
        kv_bytes=bytes_of(op.kv),
        peak_flops_per_s=pricer.peak(op),
        device=pricer.device,
        parameters=pricer.profile.decode_attention(compute, op.kv, mla=_absorbed(op)),
    )


def _absorbed(op: Op) -> bool:
    """Latent attention over its own cache: the keys hold the values."""
    return bool(np.all(np.asarray(op.dims.get("shared_kv", 0.0)) > 0))


def _expanded(op: Op) -> bool:
    """Latent attention with keys and values written out: each head has its own, values narrower."""
    d = op.dims
    narrower = np.all(np.asarray(d["value_dim"]) < d["head_dim"])
    return bool(narrower and np.all(np.asarray(d["heads"]) == d["kv_heads"]))


def _moe(pricer: Pricer, op: Op) -> Array:
    """Where the hardware multiplies 4-bit blocks, engines run mxfp4 experts on 8-bit inputs."""
    compute, d = arithmetic_of(op, pricer.system), op.dims
    peak = pricer.peak(op)
    if op.weights == "mxfp4" and pricer.multiplies_four_bits(op):
        compute, peak = "fp8", pricer.system.peak("fp8") * pricer.engine.compute_efficiency
    return moe_s(
        d["tokens"],
        d["rows"],
        d["active_experts"],
        local_experts=d["experts"],
        hidden=d["hidden"],
        intermediate=d["intermediate"],
        gated=bool(np.all(d["gated"])),
        weight_bytes=bytes_of(op.weights),
        peak_flops_per_s=peak,
        device=pricer.device_for(op),
        parameters=pricer.profile.moe(op.weights, compute),
        floor_s=pricer.engine.moe_floor_s,
        expert_s=pricer.engine.expert_s,
    )


def _scan(pricer: Pricer, op: Op) -> Array:
    """State-space scans are heads of 64 channels; linear attention says its heads itself."""
    d = op.dims
    heads = d["heads"] if "heads" in d else np.asarray(d["channels"]) / _CHANNELS_PER_HEAD
    decodes = bool(np.all(np.asarray(d["new_tokens"]) <= 1.0))
    return scan_s(
        d["sequences"],
        d["new_tokens"],
        heads,
        key_dim=d.get("key_dim", d.get("state", 1.0)),
        value_dim=d.get("value_dim", _CHANNELS_PER_HEAD),
        peak_flops_per_s=pricer.peak(op),
        device=pricer.device,
        parameters=pricer.profile.scan("decode" if decodes else "prefill"),
        floor_s=pricer.engine.kernel_floor_s * 2.0,
    )


def _pointwise(pricer: Pricer, op: Op) -> Array:
    return pointwise_s(
        op.memory_bytes,
        device=pricer.device,
        parameters=pricer.profile.pointwise,
        floor_s=pricer.engine.kernel_floor_s,
    )


def _collective(pricer: Pricer, op: Op) -> Array:
    algorithm = pricer.engine.all_reduce if op.kind == "all_reduce" else "nccl"
    links = pricer.system.links
    if not links:
        return np.zeros(np.shape(op.message_bytes))
    return collective_s(
        op.kind,
        op.message_bytes,
        op.group,
        stride=op.stride,
        links=links,
        parameters=pricer.profile.collective(op.kind, algorithm),
        upper=pricer.profile.collective(op.kind, "nccl"),
        tree=pricer.engine.all_reduce == "tree" and op.kind == "all_reduce",
    )


_ROOMS: Mapping[str, Callable[[Pricer, Op], Array]] = {
    "gemm": _gemm,
    "einsum": _gemm,
    "convolution": _gemm,
    "attention": _attention,
    "mla_attention": _attention,
    "sparse_attention": _attention,
    "moe": _moe,
    "ssm": _scan,
    "linear_attention": _scan,
    **dict.fromkeys(
        ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"), _collective
    ),
}
