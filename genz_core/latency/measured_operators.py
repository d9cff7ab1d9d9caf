"""Measured operators as arrays, priced and bounded through one door.

The dimensions are those of `Op.dims`; attention in decode has `new_tokens` of one.  Fitting,
few-shot calibration and validation all price their points here, so that what is fitted is what
is shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.latency.attention import decode_attention_s, prefill_attention_s
from genz_core.latency.collectives import collective_s
from genz_core.latency.device import Device
from genz_core.latency.gemm import gemm_s
from genz_core.latency.moe import busiest_rank_rows, moe_s
from genz_core.latency.parameters import CLASSES, MoeParameters, Parameters
from genz_core.latency.pointwise import pointwise_s
from genz_core.latency.scan import scan_s
from genz_core.latency.topology import traffic
from genz_core.operators import attended_pairs
from genz_core.precision import bytes_of
from genz_core.types import Array, Num


@dataclass(frozen=True, slots=True)
class OperatorPoints:
    """Measured runs of one operator class in one format on one device.

    operator, fmt: as in `LatencyProfile`.  dims: {dimension: values}, one per point or scalar:

    - gemm: m, n, k
    - prefill_attention, decode_attention, mla_*: sequences, new_tokens, cached_tokens, heads,
      kv_heads, head_dim, value_dim, window
    - moe: tokens, experts (local), experts_total, top_k, hidden, intermediate (local), and
      routing: 0 even, 1 and 2 power laws of exponent 1.01 and 1.2, 3 drawn at random
    - scan: sequences, new_tokens, heads, key_dim, value_dim
    - pointwise: bytes
    - collective: bytes, group

    measured_s: seconds.  warm_cache: the benchmark repeated one operand set, so that small ones
    stayed in the last-level cache.  thin_products: the kernels measured fit few rows, as those of
    CPUs do (see `gemm_s`, least_rows).  source: what they were measured with.
    least_bytes: that cross memory, where the dimensions say how often a kernel reads its operands
    and not how large they are; None where they say the latter.
    """

    operator: str
    fmt: str
    dims: Mapping[str, Num]
    measured_s: Array
    warm_cache: bool = False
    source: str = "own measurements"
    thin_products: bool = False
    least_bytes: Array | None = None

    def __post_init__(self) -> None:
        if self.operator not in CLASSES:
            raise InvalidValue(
                f"unknown operator class {self.operator!r}; known: {', '.join(CLASSES)}"
            )

    def arrays(self) -> dict[str, Array]:
        """The dimensions, each with one value per point."""
        shape = np.shape(self.measured_s)
        return {
            name: np.broadcast_to(np.asarray(values, np.float64), shape)
            for name, values in self.dims.items()
        }


@dataclass(frozen=True, slots=True)
class _Format:
    """Bytes per element and arithmetic of a profile's format key."""

    weight_bytes: float
    activation_bytes: float
    compute: str
    quantized: bool


def _same(name: str, compute: str) -> _Format:
    return _Format(bytes_of(name), bytes_of(name), compute, True)


_FORMATS: Mapping[str, _Format] = {
    "bf16": _Format(2.0, 2.0, "bf16", False),
    "fp8": _same("fp8", "fp8"),
    "fp8_block": _same("fp8_block", "fp8"),
    "nvfp4": _same("nvfp4", "fp4"),
    "int8": _Format(1.0, 1.0, "int8", True),
    "int8_weight_only": _Format(1.0, 2.0, "bf16", False),
    "int4_weight_only": _Format(bytes_of("int4"), 2.0, "bf16", False),
    "mxfp4": _Format(bytes_of("mxfp4"), 2.0, "bf16", False),
    "mxfp4_mxfp8": _Format(bytes_of("mxfp4"), bytes_of("mxfp8"), "fp8", True),
}


def price_s(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    """Predicted seconds of measured points."""
    return _PRICE[points.operator](points, device, parameters)


def roofline_s(points: OperatorPoints, device: Device) -> Array:
    """Speed of light, operands cold: the longer of arithmetic and traffic at datasheet rates."""
    compute, moved = _WORK[points.operator](points, device)
    return np.maximum(compute, moved / _rate(points, device))


def bound_s(points: OperatorPoints, device: Device) -> Array:
    """What no measurement of these points can beat.

    The roofline, less what may not have crossed memory or links after all: operands left in the
    last-level cache by the run before, operands that a kernel reads again, experts that skewed
    routing leaves out, and the half of an all-reduce that switches can save.
    """
    compute, moved = _WORK[points.operator](points, device)
    if points.least_bytes is not None:
        moved = np.minimum(moved, points.least_bytes)
    if points.operator == "collective":
        saved = moved / 2.0 if points.fmt.endswith("all_reduce") else np.zeros(())
    elif points.operator == "moe":
        saved = np.where(points.arrays()["routing"] == 0, 0.0, moved)
    else:
        saved = np.zeros(())
    if points.warm_cache and points.operator != "collective":
        saved = np.maximum(saved, device.l2_bytes)
    return np.maximum(compute, np.maximum(moved - saved, 0.0) / _rate(points, device))


def _rate(points: OperatorPoints, device: Device) -> float:
    if points.operator == "collective":
        return device.links[0].bytes_per_s
    return device.memory_bytes_per_s


# ------------------------------------------------------------------------------- each class


def _gemm(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    fmt, d = _FORMATS[points.fmt], points.arrays()
    thin = points.thin_products or fmt.weight_bytes < fmt.activation_bytes
    return gemm_s(
        d["m"],
        d["n"],
        d["k"],
        weight_bytes=fmt.weight_bytes,
        activation_bytes=fmt.activation_bytes,
        peak_flops_per_s=device.peak(fmt.compute),
        device=device,
        parameters=parameters,  # type: ignore[arg-type]
        warm_cache=points.warm_cache,
        quantized=fmt.quantized,
        least_rows=8 if thin else 64,
    )


def _gemm_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    fmt, d = _FORMATS[points.fmt], points.arrays()
    m, n, k = d["m"], d["n"], d["k"]
    moved = n * k * fmt.weight_bytes + m * k * fmt.activation_bytes + 2.0 * m * n
    return 2.0 * m * n * k / device.peak(fmt.compute), moved


def _attention_kind(fmt: str) -> tuple[str, float]:
    compute, _, cache = fmt.partition("/")
    return compute, bytes_of(cache)


def _prefill(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    compute, kv_bytes = _attention_kind(points.fmt)
    dims = points.arrays()
    return prefill_attention_s(
        dims.pop("sequences"),
        dims.pop("new_tokens"),
        dims.pop("cached_tokens"),
        **dims,  # type: ignore[arg-type]
        kv_bytes=kv_bytes,
        peak_flops_per_s=device.peak(compute),
        device=device,
        parameters=parameters,  # type: ignore[arg-type]
    )


def _prefill_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    compute, kv_bytes = _attention_kind(points.fmt)
    d = points.arrays()
    width, window = d["head_dim"] + _values(d), d.get("window", np.zeros(()))
    pairs = attended_pairs(d["new_tokens"], d["cached_tokens"], window)
    flops = 2.0 * d["sequences"] * d["heads"] * width * pairs
    seen = np.where(window > 0, np.minimum(d["cached_tokens"], window), d["cached_tokens"])
    rows = d["new_tokens"] * (d["heads"] + d["kv_heads"]) * 2.0 + seen * d["kv_heads"] * kv_bytes
    return flops / device.peak(compute), d["sequences"] * rows * width


def _values(dims: Mapping[str, Array]) -> Array:
    return dims.get("value_dim", dims["head_dim"])


def _decode(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    compute, kv_bytes = _attention_kind(points.fmt)
    dims = points.arrays()
    new = dims.pop("new_tokens")
    return decode_attention_s(
        dims.pop("sequences"),
        dims.pop("cached_tokens") + new,
        new_tokens=new,
        **dims,  # type: ignore[arg-type]
        shared_kv=points.operator == "mla_decode",
        kv_bytes=kv_bytes,
        peak_flops_per_s=device.peak(compute),
        device=device,
        parameters=parameters,  # type: ignore[arg-type]
        warm_cache=points.warm_cache,
    )


def _decode_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    compute, kv_bytes = _attention_kind(points.fmt)
    d = points.arrays()
    keys = d["cached_tokens"] + d["new_tokens"]
    window = d.get("window", np.zeros(()))
    keys = np.where(window > 0, np.minimum(keys, window), keys)
    width = d["head_dim"] + _values(d)
    stored = d["head_dim"] if points.operator == "mla_decode" else width
    moved = d["sequences"] * (d["kv_heads"] * keys * stored * kv_bytes + d["heads"] * width * 2.0)
    flops = 2.0 * d["sequences"] * d["heads"] * width * keys
    return flops / device.peak(compute), moved


def _moe(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    assert isinstance(parameters, MoeParameters)
    fmt, d = _FORMATS[points.fmt], points.arrays()
    rows, active = _routed(d, parameters)
    return moe_s(
        d["tokens"],
        rows,
        active,
        local_experts=d["experts"],
        hidden=d["hidden"],
        intermediate=d["intermediate"],
        weight_bytes=fmt.weight_bytes,
        peak_flops_per_s=device.peak(fmt.compute),
        device=device,
        parameters=parameters,
    )


def _routed(d: Mapping[str, Array], parameters: MoeParameters) -> tuple[Array, Array]:
    """Rows of the busiest rank and its active experts under the benchmark's routing."""
    ranks = d["experts_total"] / d["experts"]
    everything = d["tokens"] * d["top_k"]
    even = everything / ranks
    routing = d["routing"]
    skew = np.select(
        [routing == 1, routing == 2], [parameters.rank_skew, parameters.strong_rank_skew], 0.0
    )
    rows = busiest_rank_rows(even, ranks, skew, everything)
    rows = np.maximum(rows, 1.0)
    drawn = d["experts"] * (1.0 - np.exp(-parameters.activation * rows / d["experts"]))
    random = d["experts"] * (1.0 - (1.0 - d["top_k"] / d["experts_total"]) ** d["tokens"])
    active = np.select(
        [routing == 0, routing == 3], [np.minimum(d["experts"], rows), random], drawn
    )
    return rows, np.clip(active, 1.0, rows)


def _moe_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    fmt, d = _FORMATS[points.fmt], points.arrays()
    share, size = d["experts"] / d["experts_total"], 3.0 * d["hidden"] * d["intermediate"]
    rows = d["tokens"] * d["top_k"] * share
    drawn = d["experts"] * (1.0 - (1.0 - d["top_k"] / d["experts_total"]) ** d["tokens"])
    active = np.where(d["routing"] == 0, np.minimum(d["experts"], rows), drawn)
    return 2.0 * rows * size / device.peak(fmt.compute), active * size * fmt.weight_bytes


def _scan(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    d = points.arrays()
    return scan_s(
        d["sequences"],
        d["new_tokens"],
        d["heads"],
        key_dim=d["key_dim"],
        value_dim=d["value_dim"],
        peak_flops_per_s=device.peak("bf16"),
        device=device,
        parameters=parameters,  # type: ignore[arg-type]
        warm_cache=points.warm_cache,
    )


def _scan_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    d = points.arrays()
    state = d["sequences"] * d["heads"] * d["key_dim"] * d["value_dim"]
    compute = 4.0 * state * d["new_tokens"] / device.peak("bf16")
    return compute, 4.0 * state  # a state of 16 bit at least, read and written


def _pointwise(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    moved = points.arrays()["bytes"]
    return pointwise_s(
        moved,
        device=device,
        parameters=parameters,  # type: ignore[arg-type]
        warm_cache=points.warm_cache,
    )


def _pointwise_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    moved = points.arrays()["bytes"]
    return np.zeros(moved.shape), moved


def _collective(points: OperatorPoints, device: Device, parameters: Parameters) -> Array:
    d = points.arrays()
    return collective_s(
        points.fmt.partition(".")[2],
        d["bytes"],
        d["group"],
        links=device.links[:1],
        parameters=parameters,  # type: ignore[arg-type]
    )


def _collective_work(points: OperatorPoints, device: Device) -> tuple[Array, Array]:
    d = points.arrays()
    moved = traffic(points.fmt.partition(".")[2], d["group"]) * d["bytes"]
    return np.zeros(moved.shape), moved


_PRICE: Mapping[str, Callable[[OperatorPoints, Device, Parameters], Array]] = {
    "gemm": _gemm,
    "prefill_attention": _prefill,
    "mla_prefill": _prefill,
    "decode_attention": _decode,
    "mla_decode": _decode,
    "moe": _moe,
    "scan": _scan,
    "pointwise": _pointwise,
    "collective": _collective,
}
#: Seconds of arithmetic at the peak, and bytes that cross memory (or the link), operands cold.
_WORK: Mapping[str, Callable[[OperatorPoints, Device], tuple[Array, Array]]] = {
    "gemm": _gemm_work,
    "prefill_attention": _prefill_work,
    "mla_prefill": _prefill_work,
    "decode_attention": _decode_work,
    "mla_decode": _decode_work,
    "moe": _moe_work,
    "scan": _scan_work,
    "pointwise": _pointwise_work,
    "collective": _collective_work,
}
