"""Prices and bounds of operators that a benchmark measured, for fits and validations.

A point gives the class and format of its constants and the dimensions of its shape.  From these,
`genz_core.operators` makes the measured operator, and `Pricer` prices it as a kernel that runs
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from genz_core import operators
from genz_core.eager import cpu_attention
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.graphs import Op
from genz_core.latency.moe import busiest_rank_rows
from genz_core.latency.parameters import CLASSES, MoeParameters, Parameters
from genz_core.latency.pricer import Pricer
from genz_core.latency.roofline import roofline
from genz_core.operators import Experts, Heads, Types
from genz_core.systems import System
from genz_core.types import Array, Num


@dataclass(frozen=True, slots=True)
class OperatorPoints:
    """Measured runs of one operator class in one format on one device.

    operator, fmt: as in `LatencyProfile`.  dims: {dimension: values}, one per point, or a scalar:

    - gemm: m, n, k
    - prefill_attention, decode_attention, mla_*: sequences, new_tokens, cached_tokens, heads,
      kv_heads, head_dim, and where they differ from the default value_dim (head_dim), window (0)
    - moe: tokens, experts (local), experts_total, top_k, hidden, intermediate (local), gated
      (1), and routing: 0 even, 1 and 2 power laws of exponent 1.01 and 1.2, 3 drawn at random
    - scan: sequences, new_tokens, heads, key_dim, value_dim
    - pointwise: bytes
    - collective: bytes, group

    measured_s: seconds.  warm_cache: the benchmark repeated one set of operands, so small ones
    stayed in the last-level cache.  on_cpu: the kernels are those of a CPU, which handle few rows
    well and compute attention in other blocks (`genz_core.eager.cpu_attention`).  source: origin of
    the measurement.

    Raises:
        InvalidValue: an operator class that does not exist.
    """

    operator: str
    fmt: str
    dims: Mapping[str, Num]
    measured_s: Array
    warm_cache: bool = False
    source: str = "own measurements"
    on_cpu: bool = False

    def __post_init__(self) -> None:
        if self.operator not in CLASSES:
            raise InvalidValue(
                f"unknown operator class {self.operator!r}; known: {', '.join(CLASSES)}"
            )

    def arrays(self) -> dict[str, Array]:
        """{dimension: values [points]}."""
        shape = np.shape(self.measured_s)
        return {
            name: np.broadcast_to(np.asarray(values, np.float64), shape)
            for name, values in self.dims.items()
        }

    def op(self) -> Op:
        """The measured operator, one configuration per point, with experts routed evenly."""
        op = _BUILDERS[self.operator](self.arrays(), self.fmt)
        if self.on_cpu and op.operator_class == "attention":
            return replace(op, dims=cpu_attention(op.dims))
        return op

    def pricer(self, system: System) -> Pricer:
        """A pricer of operators that run alone on `system`, under the conditions of this
        benchmark.
        """
        algorithm = self.fmt.partition(".")[0] if self.operator == "collective" else "nccl"
        engine = EngineProfile("benchmark", thin_products=self.on_cpu, all_reduce=algorithm)
        inner = replace(system, links=system.links[:1])
        return Pricer(inner, engine, alone=True, warm_cache=self.warm_cache)


def price_s(points: OperatorPoints, system: System, parameters: Parameters | None = None) -> Array:
    """Predicted time of measured points [s], [points].

    system: the device that was measured.  parameters: constants of the points' class; by default
    those of the system's profile, with the residual of measured kernels.
    """
    pricer = points.pricer(system)
    known = parameters or pricer.profile.constants(points.operator, points.fmt)
    return pricer.expected_s(as_routed(points, known), parameters)


def as_routed(points: OperatorPoints, parameters: Parameters) -> Op:
    """The measured operator, with experts routed as in the benchmark; parameters: of its class."""
    op = points.op()
    if not isinstance(parameters, MoeParameters):
        return op
    return _as_routed(op, points.arrays()["routing"], parameters)


def roofline_s(points: OperatorPoints, system: System) -> Array:
    """Roofline time of measured points with cold operands [s], [points]."""
    least = roofline(points.op(), points.pricer(system).system).bound_s
    return np.broadcast_to(least, np.shape(points.measured_s))


def bound_s(points: OperatorPoints, system: System) -> Array:
    """Least time that a measurement of these points can have taken [s], [points].

    The roofline, less the traffic that may not have crossed memory or links: operands that the
    previous run left in the last-level cache, cache that the kernel alone does not write, experts
    that skewed routing does not reach, and the half of an all-reduce that reducing switches save.
    """
    op, pricer = points.op(), points.pricer(system)
    least, device = roofline(op, pricer.system), pricer.conditions.device
    if points.operator == "collective":
        shared = 0.5 if op.kind == "all_reduce" else 1.0
        return np.asarray(least.communication_s * shared)
    saved = np.zeros(np.shape(points.measured_s))
    if points.operator == "moe":
        saved = np.where(points.arrays()["routing"] == 0, saved, op.weight_bytes)
    if points.warm_cache:
        saved = np.maximum(saved, device.l2_bytes)
    moved = np.maximum(op.memory_bytes - op.kv_write_bytes - saved, 0.0)
    return np.maximum(least.compute_s, moved / device.memory_bytes_per_s)


# ------------------------------------------------------------------------------- the operators


def types_of(fmt: str) -> Types:
    """Number formats of an operator from the format key of its constants.

    >>> types_of("fp8").arithmetic, types_of("int8_weight_only").arithmetic
    ('fp8', 'bf16')
    """
    forced = {"int8": "int8", "mxfp4": "bf16", "mxfp4_mxfp8": "fp8"}.get(fmt, "")
    weights = {"mxfp4_mxfp8": "mxfp4"}.get(fmt, fmt.removesuffix("_weight_only"))
    return Types(weights, compute=forced)


def _gemm(d: Mapping[str, Array], fmt: str) -> Op:
    return operators.gemm("measured", d["m"], d["n"], d["k"], types_of(fmt))


def _attention(d: Mapping[str, Array], fmt: str, latent_cache: bool = False) -> Op:
    heads = Heads(
        d["heads"],
        d["kv_heads"],
        d["head_dim"],
        d.get("value_dim", d["head_dim"]),
        d.get("window", np.zeros(())),
        shared_kv=latent_cache,
    )
    lengths = (d["sequences"], d["new_tokens"], d["cached_tokens"])
    compute, _, cache = fmt.partition("/")
    types = Types(kv=cache, compute=compute)
    return operators.attention("measured", *lengths, heads, types)


def _latent_decode(d: Mapping[str, Array], fmt: str) -> Op:
    return _attention(d, fmt, latent_cache=True)


def _moe(d: Mapping[str, Array], fmt: str) -> Op:
    gated = bool(np.all(d.get("gated", np.ones(()))))
    bank = Experts(
        d["experts_total"], d["experts"], d["top_k"], d["hidden"], d["intermediate"], gated
    )
    return operators.moe("measured", d["tokens"], bank, types_of(fmt))


def _as_routed(op: Op, routing: Array, parameters: MoeParameters) -> Op:
    """The experts under a benchmark's routing: rows and active experts of the busiest rank.

    routing: code as in `OperatorPoints`, [points].  parameters: with the fitted skews.
    """
    d = {name: np.asarray(value, np.float64) for name, value in op.dims.items()}
    ranks = d["experts_total"] / d["experts"]
    all_rows = d["tokens"] * d["top_k"]
    skew = np.select(
        [routing == 1, routing == 2], [parameters.rank_skew, parameters.strong_rank_skew], 0.0
    )
    rows = np.maximum(busiest_rank_rows(all_rows / ranks, ranks, skew, all_rows), 1.0)
    drawn = d["experts"] * (1.0 - np.exp(-parameters.activation * rows / d["experts"]))
    active = np.select(
        [routing == 0, routing == 3],
        [np.minimum(d["experts"], rows), d["active_experts"]],
        drawn,
    )
    routed = {"rows": rows, "active_experts": np.clip(active, 1.0, rows)}
    return replace(op, dims={**op.dims, **routed})


def _scan(d: Mapping[str, Array], _fmt: str) -> Op:
    names = ("sequences", "new_tokens", "heads", "key_dim", "value_dim")
    return operators.linear_attention("measured", *(d[name] for name in names))  # type: ignore[arg-type]


def _pointwise(d: Mapping[str, Array], _fmt: str) -> Op:
    return operators.copy("measured", d["bytes"], 0.0)


def _collective(d: Mapping[str, Array], fmt: str) -> Op:
    kind = fmt.partition(".")[2]
    return operators.collective("measured", kind, d["bytes"], d["group"])


_BUILDERS: Mapping[str, Callable[[Mapping[str, Array], str], Op]] = {
    "gemm": _gemm,
    "prefill_attention": _attention,
    "mla_prefill": _attention,
    "decode_attention": _attention,
    "mla_decode": _latent_decode,
    "moe": _moe,
    "scan": _scan,
    "pointwise": _pointwise,
    "collective": _collective,
}
