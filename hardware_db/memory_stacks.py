"""Memory of so many stacks of a generation: what a system would have with another memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from genz_core.errors import InvalidValue
from hardware_db.tables import table

_MOST_STACKS = 64
_BITS = 8.0


@dataclass(frozen=True, slots=True)
class MemoryGeneration:
    """Stacks of a generation: interface times the rate of a pin [bytes/s], and who says so."""

    name: str
    bytes_per_s: float
    source: str


@cache
def generations() -> Mapping[str, MemoryGeneration]:
    """The generations that are known, by name; each pin rate is of the standard or first parts."""
    return {
        row["generation"]: MemoryGeneration(
            row["generation"],
            float(row["interface_bits"]) * float(row["bits_per_s_per_pin"]) / _BITS,
            row["source"],
        )
        for row in table("technology", "hbm")
    }


def memory_bandwidth(generation: str, stacks: int) -> float:
    """Bandwidth of so many stacks at the full rate of their generation [bytes/s].

    Raises:
        InvalidValue: an unknown generation, or a number of stacks that cannot be.
    """
    known = generations()
    if generation not in known:
        raise InvalidValue(f"memory {generation!r}: choose {', '.join(known)}")
    if not 1 <= stacks <= _MOST_STACKS:
        raise InvalidValue(f"stacks = {stacks}: give 1 to {_MOST_STACKS}")
    return known[generation].bytes_per_s * stacks
