"""Slices of a GPU under NVIDIA's Multi-Instance GPU: "NVIDIA H100 80GB HBM3 MIG 1g.10gb".

A profile "<g>g.<n>gb" has g of seven shares of the SMs (of four on the A30) and n GB, in eighths of
the memory, with as many eighths of its bandwidth and of the cache (MIG User Guide, "Supported MIG
Profiles", docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from genz_core.errors import UnknownSystem
from genz_core.systems import System

#: Words that begin the assumption on a slice; no slice was measured.
SLICE = "a MIG slice: "
_NAME = re.compile(r"(.+?)\s+MIG\s+(?:\d+c\.)?(\d)g\.(\d+)gb\b.*", re.IGNORECASE | re.DOTALL)
_EIGHTHS = 8
_GIGABYTE = 1e9


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice of a device: shares of the SMs and gigabytes of memory."""

    device: str
    profile: str
    shares: int
    gigabytes: int


def parsed(name: str) -> Slice | None:
    """The slice that a device's name states; None where it names a whole device."""
    match = _NAME.fullmatch(name.strip())
    if match is None:
        return None
    shares, gigabytes = int(match[2]), int(match[3])
    return Slice(match[1], f"{shares}g.{gigabytes}gb", shares, gigabytes)


def sliced(whole: System, part: Slice) -> System:
    """The system of a slice: SMs, memory, bandwidth and cache by its shares, without links.

    Raises:
        UnknownSystem: the device has no such slice.
    """
    of = 4 if whole.slug.startswith("a30") else 7
    eighths = round(_EIGHTHS * part.gigabytes * _GIGABYTE / whole.memory_bytes)
    if not (1 <= part.shares <= of and 1 <= eighths <= _EIGHTHS):
        raise UnknownSystem("system", f"{whole.name} MIG {part.profile}", [whole.name])
    compute, memory = part.shares / of, eighths / _EIGHTHS
    words = f"{part.shares}/{of} of the SMs, {eighths}/{_EIGHTHS} of memory and its bandwidth"
    return replace(
        whole,
        name=f"{whole.name}, MIG {part.profile}",
        peak_flops_per_s={kind: rate * compute for kind, rate in whole.peak_flops_per_s.items()},
        memory_bytes=min(part.gigabytes * _GIGABYTE, whole.memory_bytes),
        memory_bytes_per_s=whole.memory_bytes_per_s * memory,
        second_memory=None,
        l2_bytes=whole.l2_bytes and whole.l2_bytes * memory,
        l2_bytes_per_s=whole.l2_bytes_per_s and whole.l2_bytes_per_s * memory,
        compute_units=whole.compute_units and max(int(whole.compute_units * compute), 1),
        tdp_w=None,
        links=(),
        price_usd_per_hour=None,
        assumptions=(*whole.assumptions, f"{SLICE}{words}"),
    )
