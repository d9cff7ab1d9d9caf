"""Order between a board that was not measured and the measured boards of its family.

The typical constants of a family are means of its boards, so they can promise a board more than was
measured on one that has at least as much of everything, or less than on one that has no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from genz_core.latency.device import Device
from genz_core.latency.parameters import Parameters, describe
from genz_core.latency.profile import LatencyProfile
from genz_core.systems import System
from hardware_db.profile_schema import FittedProfile

_Figure = Callable[[Device, str], float]


def _peak(device: Device, fmt: str) -> float:
    """Dense peak for the products of a format's key [FLOP/s]."""
    return device.peak("fp8" if fmt.startswith("fp8") else "bf16")


#: {constant: the datasheet's figure of which it is a share}, for the constants that are rates.
#: Each other one is a cost: a time, a number of passes, a share of units that must be at work.
_RATES: Mapping[str, _Figure] = {
    **dict.fromkeys(("memory_efficiency", "cache_speedup"), lambda d, _: d.memory_bytes_per_s),
    **dict.fromkeys(("store_share", "cache_share", "exp_efficiency"),
                    lambda d, _: d.cache_bytes_per_s),
    **dict.fromkeys(("compute_efficiency", "efficiency_64", "efficiency_128", "efficiency_256"),
                    _peak),
    "overlap": lambda *_: 1.0,
}  # fmt: skip


class Sibling(NamedTuple):
    """A measured board of a family, with its constants."""

    system: System
    profile: FittedProfile


def in_order(
    profile: LatencyProfile, system: System, siblings: Sequence[Sibling]
) -> LatencyProfile:
    """A profile whose constants from the family keep the order of its boards: no kernel is faster
    than on a measured sibling that has at least as much of everything, and none is slower than on
    one that has at most as much.  Collectives are left as they are.
    """
    above = [one for one in siblings if has_at_least(one.system, system)]
    below = [one for one in siblings if has_at_least(system, one.system)]
    parameters = {operator: dict(formats) for operator, formats in profile.parameters.items()}
    for operator, formats in parameters.items():
        for fmt, constants in formats.items():
            if operator == "collective" or profile.fit(operator, fmt).tier != "sibling":
                continue
            for others, slower in ((below, False), (above, True)):
                for one in others:
                    if (bound := one.profile.parameters.get((operator, fmt))) is not None:
                        devices = Device.of(system), Device.of(one.system)
                        constants = _bounded(constants, bound, devices, fmt, slower)
            formats[fmt] = constants
    return replace(profile, parameters=parameters)


#: Figures of a device that decide the time of its kernels, beside its peaks.
_FIGURES = ("memory_bytes_per_s", "compute_units", "clock_hz", "l2_bytes", "tdp_w")


def has_at_least(system: System, other: System) -> bool:
    """Whether a system's device has at least as much of everything as another's: of every peak, of
    memory bandwidth, units, clock, cache and power.  False where one of them states no such figure.
    """
    figures = ((getattr(system, name), getattr(other, name)) for name in _FIGURES)
    peaks = other.peak_flops_per_s.items()
    return all(more and less and more >= less for more, less in figures) and all(
        system.peak_flops_per_s.get(kind, 0.0) >= peak for kind, peak in peaks
    )


def _bounded(
    constants: Parameters, bound: Parameters, devices: tuple[Device, Device], fmt: str, slower: bool
) -> Parameters:
    """Constants of the first device, each on the slower (faster) side of the second's."""
    values: dict[str, float] = {}
    own, other = devices
    for constant in describe(type(constants)):
        value, limit = (getattr(entry, constant.name) for entry in (constants, bound))
        figure = _RATES.get(constant.name)
        if figure is not None:
            limit *= figure(other, fmt) / figure(own, fmt)
        least = slower != (figure is not None)
        value = max(value, limit) if least else min(value, limit)
        values[constant.name] = min(max(value, constant.low), constant.high)
    kind = type(constants)
    return kind(**values)
