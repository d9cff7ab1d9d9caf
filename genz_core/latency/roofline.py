"""Roofline of an operator on a system: its least time per resource.

compute_s = flops / (dense peak of its arithmetic type x boost factor)
memory_s = bytes / bandwidth, every operand once and cold, each share at its memory's bandwidth
communication_s = bytes that must cross the slowest link / its bandwidth per direction
The bound of an operator is the largest of the three.
Source: Williams et al. 2009, doi:10.1145/1498765.1498785; scaling book, ch. 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genz_core.errors import MissingSpec
from genz_core.graphs import Op
from genz_core.latency.topology import Exchange, exchange_of, tiers
from genz_core.precision import format_of, runnable
from genz_core.symbolic.symbols import Symbol, number
from genz_core.systems import System
from genz_core.types import Array, Num

#: Arithmetic of element-wise operators where a datasheet states no vector peak. They are
#: memory-bound everywhere, so the 16-bit matrix peak is used and never decides.
_VECTOR = ("fp32", "tf32", "bf16", "fp16")


@dataclass(frozen=True, slots=True)
class Roofline:
    """Least time of one run of an operator, per resource [s]; numbers or arrays [configs].

    far_s: extra seconds, within memory_s, because part of the traffic goes to the second memory.
    """

    compute_s: Num
    memory_s: Num
    communication_s: Num
    far_s: Num = 0.0

    @property
    def bound_s(self) -> Array:
        """The largest of the three [s], [configs]."""
        return np.maximum(np.maximum(self.compute_s, self.memory_s), self.communication_s)

    @property
    def near_bound_s(self) -> Array:
        """The bound without a second memory to read [s], [configs]."""
        near = self.memory_s - self.far_s
        return np.maximum(np.maximum(self.compute_s, near), self.communication_s)


def roofline(op: Op, system: System) -> Roofline:
    """Least time of one run of `op` on one device of `system`, per resource.

    Raises:
        MissingSpec: the system states no peak or link that the operator needs.
    """
    if op.operator_class == "collective":
        return Roofline(0.0, 0.0, communication_s(op, system))
    far = far_s(op, system)
    near = op.memory_bytes / system.memory_bytes_per_s
    return Roofline(op.flops / peak_of(op, system), near + far, 0.0, far)


def far_s(op: Op, system: System) -> Num:
    """Extra time of `op` because part of its traffic goes to the second memory [s]."""
    level = system.second_memory
    if level is None or not (np.any(op.far_weights) or np.any(op.far_kv)):
        return 0.0
    return op.far_bytes * max(1.0 / level.bytes_per_s - 1.0 / system.memory_bytes_per_s, 0.0)


def arithmetic_of(op: Op, system: System) -> str:
    """Arithmetic type that `op` runs in on `system`: that of its formats, or a fallback.

    On hardware that multiplies 4-bit blocks, engines run mxfp4 experts on 8-bit inputs, unless the
    arithmetic is forced.

    Raises:
        MissingSpec: an arithmetic was forced that the system lacks; bf16 and fp16 replace each
            other.
    """
    peaks = system.peak_flops_per_s
    if op.forced and op.compute not in peaks and op.compute not in _VECTOR:
        raise MissingSpec(
            f"{system.name} has no {op.compute} arithmetic (it has {', '.join(peaks)}): set one of "
            "these as compute, or leave it to the number formats"
        )
    if op.compute == "fp32":
        return next((name for name in _VECTOR if name in peaks), next(iter(peaks)))
    if op.kind == "moe" and op.weights == "mxfp4" and not op.forced:
        return runnable("fp8" if multiplies_four_bits(op, system) else op.compute, peaks)
    return runnable(op.compute, peaks)


def multiplies_four_bits(op: Op, system: System) -> bool:
    """Whether `op` has 4-bit block weights and the hardware multiplies such blocks."""
    return op.weights in ("nvfp4", "mxfp4") and "fp4" in system.peak_flops_per_s


def fastest_of(op: Op, system: System) -> str:
    """Arithmetic type that bounds `op`: its own, or int8 where kernels quantise its inputs as well.

    Raises:
        MissingSpec: see `arithmetic_of`.
    """
    own, peaks = arithmetic_of(op, system), system.peak_flops_per_s
    also = format_of(op.weights).also if op.weights and not op.forced else ""
    return also if peaks.get(also, 0.0) > peaks.get(own, 0.0) else own


def peak_of(op: Op, system: System) -> float:
    """Dense peak that bounds `op`, at the highest known clock [FLOP/s].

    Raises:
        MissingSpec: the system states none for its arithmetic type.
    """
    return system.peak(fastest_of(op, system)) * system.boost_factor


def communication_s(op: Op, system: System) -> Array:
    """Least time of a collective on its slowest tier, at the bandwidth of the links [s], [configs].

    The tiers work concurrently on parts of a large message; a chain of stages passes it on hop by
    hop.

    Raises:
        MissingSpec: more than one device and no link stated.
    """
    sends = (number(op.group) > 1) & (number(op.message_bytes) > 0)
    if not (isinstance(sends, Symbol) or sends.any()):
        return np.zeros(sends.shape)
    if not system.links:
        raise MissingSpec(f"{system.name} has no known link between devices; use one device")
    routed = exchange_of(op)
    exchange = Exchange(*map(number, routed)) if routed else None
    together, total = np.add if op.kind == "send_recv" else np.maximum, np.zeros(())
    for tier in tiers(op.kind, op.message_bytes, op.group, op.stride, system.links, exchange):
        factor = tier.load(op.kind, in_network=tier.link.in_network) * tier.times
        total = together(total, factor * tier.message_bytes / tier.link.bytes_per_s)
    return total
