"""Figures of a system's datasheet that the latency models use, typical values where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from genz_core.precision import runnable
from genz_core.systems import Link, System

#: 16-bit peak of one compute unit: the geometric mean of an A100's (2.9 TFLOP/s) and a B200's (15).
_TYPICAL_UNIT_FLOPS_PER_S = 6.6e12
_TYPICAL_CLOCK_HZ = 1.8e9
_TYPICAL_L2_BYTES = 40e6


@dataclass(frozen=True, slots=True)
class Device:
    """One device as the latency models see it, SI units.

    compute_units: streaming multiprocessors, compute units or cores.  l2_bytes: last-level cache.
    assumed: the typical values used where the datasheet states none, in words.
    """

    peak_flops_per_s: Mapping[str, float]
    memory_bytes_per_s: float
    compute_units: float
    clock_hz: float
    l2_bytes: float
    links: tuple[Link, ...] = ()
    assumed: tuple[str, ...] = ()

    @classmethod
    def of(cls, system: System) -> Device:
        """The device of a system, with typical values for figures that it does not state."""
        assumed = []
        peak = system.peak_flops_per_s.get(
            runnable("bf16", system.peak_flops_per_s), max(system.peak_flops_per_s.values())
        )
        units, clock, l2 = system.compute_units, system.clock_hz, system.l2_bytes
        if system.kind in ("tpu", "npu"):
            units = None  # a few wide cores: tiles are distributed as over typical units
        if units is None:
            units = max(1, round(peak / system.peak_factor / _TYPICAL_UNIT_FLOPS_PER_S))
            assumed.append(f"{units} compute units: typical for its peak")
        if clock is None:
            clock = _TYPICAL_CLOCK_HZ
            assumed.append(f"a clock of {clock / 1e9:g} GHz: a typical value")
        if l2 is None:
            l2 = _TYPICAL_L2_BYTES
            assumed.append(f"a last-level cache of {l2 / 1e6:g} MB: a typical value")
        return cls(
            system.peak_flops_per_s,
            system.memory_bytes_per_s,
            float(units),
            clock,
            l2,
            system.links,
            tuple(assumed),
        )

    def peak(self, compute: str) -> float:
        """Dense peak for products of type `compute`, or of the type that replaces it [FLOP/s].

        See `genz_core.precision.runnable`.
        """
        return self.peak_flops_per_s[runnable(compute, self.peak_flops_per_s)]

    @property
    def cache_bytes_per_s(self) -> float:
        """Nominal last-level cache bandwidth: 64 bytes per unit and clock."""
        return self.compute_units * self.clock_hz * 64.0
