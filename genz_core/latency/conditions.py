"""Conditions under which kernels run: in the CUDA graphs of an engine, or alone in a benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from genz_core.engine import EngineProfile
from genz_core.graphs import Op
from genz_core.latency.device import Device
from genz_core.latency.parameters import CLASSES
from genz_core.latency.profile import LatencyProfile
from genz_core.latency.roofline import arithmetic_of, multiplies_four_bits
from genz_core.precision import bytes_of
from genz_core.systems import System

#: Constants for a system that came without a profile: the defaults of every parameter set.
_PLAIN = LatencyProfile(
    "engine defaults",
    "default",
    {
        name: {"default": kind(), "bf16": kind(), "bf16/bf16": kind(), "nccl.all_reduce": kind()}
        for name, kind in CLASSES.items()
    },
    note="typical constants; the system has no latency profile",
)
#: Classes of operators that multiply weights.
_OF_WEIGHTS = ("gemm", "convolution", "moe")
_SIXTEEN_BITS = 2.0
_FOUR_BITS = 0.7  # bytes per weight below which a format is 4-bit with scales


@dataclass(frozen=True, slots=True)
class Conditions:
    """System, engine and surroundings of a kernel.

    system: the datasheet.  engine: the software that launches it.
    alone: timed alone, as by a benchmark: it pays its own launch instead of the kernel floor in an
    engine's graphs.
    warm_cache: a benchmark repeats one set of operands, and small ones stay in the last-level
    cache; a model reads each weight once a step, cold.
    device: the datasheet's figures with the engine's share of the memory bandwidth.
    """

    system: System
    engine: EngineProfile
    alone: bool = False
    warm_cache: bool = False
    device: Device = field(init=False)

    def __post_init__(self) -> None:
        stated = Device.of(self.system)
        reached = stated.memory_bytes_per_s * self.engine.memory_efficiency
        object.__setattr__(self, "device", replace(stated, memory_bytes_per_s=reached))

    @property
    def profile(self) -> LatencyProfile:
        """The fitted constants of the system, or typical ones if it has no profile."""
        return self.system.latency or _PLAIN

    def peak(self, op: Op) -> float:
        """Peak that the engine's kernels for `op` work against [FLOP/s].

        Only what multiplies weights runs in the engine's arithmetic for products.

        Raises:
            MissingSpec: the system states no peak for the arithmetic type.
        """
        product_type, peaks = self.engine.products, self.system.peak_flops_per_s
        weighted = op.operator_class in _OF_WEIGHTS
        if product_type and not (product_type in peaks and weighted):
            return self.system.peak(self.arithmetic(op))
        return (
            self.system.peak(product_type or self.arithmetic(op)) * self.engine.compute_efficiency
        )

    def arithmetic(self, op: Op) -> str:
        """Arithmetic type that `op` runs in on the system."""
        return arithmetic_of(op, self.system)

    def device_for(self, op: Op) -> Device:
        """The device with the memory bandwidth that the engine's kernels for `op` reach."""
        share = 1.0
        if op.kind == "moe" and bytes_of(op.weights) < _FOUR_BITS:
            share = self.engine.expert_efficiency
        elif multiplies_four_bits(op, self.system):
            share = self.engine.four_bit_efficiency
        if share == 1.0:
            return self.device
        return replace(self.device, memory_bytes_per_s=self.device.memory_bytes_per_s * share)

    def vector_weights_per_s(self, op: Op) -> float:
        """Weights that the engine's matrix-vector kernels multiply a second; 0 if it has none for
        the format of `op`.
        """
        if self.alone or bytes_of(op.weights) >= _SIXTEEN_BITS:
            return 0.0
        return self.engine.vector_weights * self.device.compute_units * self.device.clock_hz

    @property
    def pass_rows(self) -> float:
        """Most tokens that the engine's products take at once; 0 for any number."""
        return 0.0 if self.alone else self.engine.pass_tokens

    def floor_s(self, kernels: int = 1) -> float | None:
        """Least time of `kernels` kernels in the engine's graphs [s]; None for kernels that run
        alone.
        """
        return None if self.alone else kernels * self.kernel_floor_s

    @property
    def kernel_floor_s(self) -> float:
        """Start and drain of one kernel in the engine's graphs [s]."""
        return self.engine.kernel_floor_s * self._floor_share

    @property
    def moe_floor_s(self) -> float:
        """Least time of routing, permutation and grouped products of one layer [s]."""
        return self.engine.moe_floor_s * self._floor_share

    @property
    def _floor_share(self) -> float:
        """Floor of a kernel on the system over that at the clock at which the engine states it.

        Starting and draining a kernel takes a number of clock cycles. Measured steps show it on
        NVIDIA GPUs; elsewhere the floor is taken as it is.
        """
        stated, system = self.engine.floor_clock_hz, self.system
        if not stated or not system.clock_hz or (system.vendor, system.kind) != ("NVIDIA", "gpu"):
            return 1.0
        return stated / system.clock_hz
