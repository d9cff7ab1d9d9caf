"""A hypothetical chip: other memory, arithmetic, links or power, based on an existing system."""

import math
from dataclasses import dataclass

import hardware_db
from genz_core.errors import InvalidValue
from genz_core.systems import System
from hardware_db.memory_stacks import memory_bandwidth

#: Exponent of arithmetic in power: dynamic power grows as clock times voltage squared, and voltage
#: with the clock, so the clock grows with the cube root of the power. An assumption, not measured.
POWER_EXPONENT = 1.0 / 3.0
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Chip:
    """Differences from a system.

    memory: generation of its stacks, "" for the system's own memory; stacks, gb_per_stack: of it.
    peak, link, bandwidth, capacity: multipliers, on top of other memory.  process: peak at equal
    power in another process.  power_cap_w: 0 for none.
    """

    memory: str = ""
    stacks: int = 0
    gb_per_stack: float = 0.0
    peak: float = 1.0
    link: float = 1.0
    bandwidth: float = 1.0
    capacity: float = 1.0
    process: float = 1.0
    power_cap_w: float = 0.0


def factors(system: System, chip: Chip) -> dict[str, float]:
    """Factors of a chip on a system: peak, bandwidth, capacity and link.

    Raises:
        InvalidValue: an impossible memory, or a power cap without a stated power.
    """
    bandwidth, capacity = chip.bandwidth, chip.capacity
    if chip.memory:
        bandwidth *= memory_bandwidth(chip.memory, chip.stacks) / system.memory_bytes_per_s
        if chip.gb_per_stack:
            capacity *= chip.gb_per_stack * _GB * chip.stacks / system.memory_bytes
    peak = chip.peak * chip.process * power_factor(system, chip.power_cap_w)
    return {"peak": peak, "bandwidth": bandwidth, "capacity": capacity, "link": chip.link}


def power_factor(system: System, cap_w: float) -> float:
    """Share of the arithmetic that remains under a power cap; 1 for none, or for one above the
    power.

    Raises:
        InvalidValue: a cap for a system that states no power, or one below 0.
    """
    if not cap_w:
        return 1.0
    if not (math.isfinite(cap_w) and cap_w > 0.0):
        raise InvalidValue(f"power cap = {cap_w}: give watts above 0")
    if not system.tdp_w:
        raise InvalidValue(f"{system.name} has no known power, so a power cap has no effect")
    return float(min((cap_w / system.tdp_w) ** POWER_EXPONENT, 1.0))


def chip_system(system: System, chip: Chip) -> System:
    """The system for a chip; its name and assumptions state the factors.

    Raises:
        InvalidValue: as `factors`.
    """
    return hardware_db.what_if(system, **factors(system, chip))
