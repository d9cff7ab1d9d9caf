"""A system with its resources scaled: what would twice the bandwidth bring?"""

from __future__ import annotations

import math
from dataclasses import replace

from genz_core.errors import InvalidValue
from genz_core.types import System

_SAID = "what if: "


def what_if(
    system: System,
    peak: float = 1.0,
    bandwidth: float = 1.0,
    capacity: float = 1.0,
    link: float = 1.0,
) -> System:
    """The system with every peak, its memory bandwidth and capacity and its links multiplied.

    Links scale in bandwidth, all tiers alike; latencies and the cache stay.

    Raises:
        InvalidValue: a multiplier that is not a positive finite number.
    """
    factors = {"peak": peak, "bandwidth": bandwidth, "capacity": capacity, "link": link}
    for name, factor in factors.items():
        if not (math.isfinite(factor) and factor > 0):
            raise InvalidValue(f"what-if multiplier {name} is {factor}; give a positive number")
    changed = [f"{name} ×{factor:g}" for name, factor in factors.items() if factor != 1]
    if not changed:
        return system
    said = ", ".join(changed)
    return replace(
        system,
        name=f"{system.name} (what if: {said})",
        peak_flops_per_s={kind: rate * peak for kind, rate in system.peak_flops_per_s.items()},
        memory_bytes_per_s=system.memory_bytes_per_s * bandwidth,
        memory_bytes=system.memory_bytes * capacity,
        links=tuple(replace(tier, bytes_per_s=tier.bytes_per_s * link) for tier in system.links),
        assumptions=(*system.assumptions, f"{_SAID}{said}"),
    )


def is_hypothetical(system: System) -> bool:
    """Whether a system is one that `what_if` scaled: nobody can have measured it."""
    return any(note.startswith(_SAID) for note in system.assumptions)
