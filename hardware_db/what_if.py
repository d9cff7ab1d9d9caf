"""Systems with scaled resources, for questions such as "what if the bandwidth doubled?"."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from genz_core.common.memo import ByIdentity
from genz_core.errors import InvalidValue
from genz_core.systems import System
from hardware_db.mig import SLICE

_PREFIX = "what if: "


def what_if(
    system: System,
    peak: float = 1.0,
    bandwidth: float = 1.0,
    capacity: float = 1.0,
    link: float = 1.0,
) -> System:
    """The system with its resources multiplied; its name and assumptions state the factors.

    The same system and factors give the same object, so compiled plans are reused.

    Args:
        peak: factor of every dense peak, with as many units.  bandwidth, capacity: of the memory.
        link: of the bandwidth of all tiers; latencies and the cache are unchanged.

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
    return _SCALED.get(
        lambda: _scaled(system, factors, ", ".join(changed)), system, values=tuple(factors.values())
    )


_SCALED: ByIdentity[System] = ByIdentity(128)


def _scaled(system: System, factors: Mapping[str, float], scaled: str) -> System:
    """The system with its resources multiplied; scaled: the factors in words."""
    peak, bandwidth, link = factors["peak"], factors["bandwidth"], factors["link"]
    return replace(
        system,
        name=f"{system.name} (what if: {scaled})",
        peak_flops_per_s={kind: rate * peak for kind, rate in system.peak_flops_per_s.items()},
        peak_factor=system.peak_factor * peak,
        memory_bytes_per_s=system.memory_bytes_per_s * bandwidth,
        memory_bytes=system.memory_bytes * factors["capacity"],
        links=tuple(replace(tier, bytes_per_s=tier.bytes_per_s * link) for tier in system.links),
        assumptions=(*system.assumptions, f"{_PREFIX}{scaled}"),
    )


def is_hypothetical(system: System) -> bool:
    """Whether a system is scaled, or a slice of another one, so that no measurement of it
    exists.
    """
    return any(note.startswith((_PREFIX, SLICE)) for note in system.assumptions)
