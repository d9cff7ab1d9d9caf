"""Bandwidth of a number of stacks of a memory generation, for systems with other memory."""

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
    """Stacks of a generation: interface width times the rate of a pin [bytes/s], with the
    source.
    """

    name: str
    bytes_per_s: float
    source: str


@cache
def generations() -> Mapping[str, MemoryGeneration]:
    """The known generations by name; each pin rate is that of the standard or of the
    first parts.
    """
    return {
        row["generation"]: MemoryGeneration(
            row["generation"],
            float(row["interface_bits"]) * float(row["bits_per_s_per_pin"]) / _BITS,
            row["source"],
        )
        for row in table("technology", "hbm")
    }


def memory_bandwidth(generation: str, stacks: int) -> float:
    """Bandwidth of a number of stacks at the full rate of their generation [bytes/s].

    Raises:
        InvalidValue: an unknown generation, or an impossible number of stacks.
    """
    known = generations()
    if generation not in known:
        raise InvalidValue(f"memory {generation!r}: choose {', '.join(known)}")
    if not 1 <= stacks <= _MOST_STACKS:
        raise InvalidValue(f"stacks = {stacks}: give 1 to {_MOST_STACKS}")
    return known[generation].bytes_per_s * stacks
