"""A second, slower memory that a device can read directly, beside its main memory.

Examples are Grace's LPDDR behind NVLink-C2C, DDR5 beside the HBM of a Xeon Max, and a store of
weights beside a wafer of SRAM.  Kernels read it in place; an operator whose arithmetic takes longer
hides the access.  The bytes that a decode step reads least often are placed there first: experts
that few tokens reach, embeddings, the end of the cache.  This is the fractional knapsack, so no
other placement reads less of the slow memory (Dantzig 1957, doi:10.1287/opre.5.2.266).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Held = Literal["weights", "cache"]


@dataclass(frozen=True, slots=True)
class MemoryLevel:
    """A memory below the first.

    bytes_per_s: rate at which the device reads and writes it, limited by its link.  holds: data
    that may be placed there.  reached: share of the rate reached in practice, None if unknown.
    """

    name: str
    bytes: float
    bytes_per_s: float
    holds: tuple[Held, ...] = ("weights", "cache")
    reached: float | None = None

    def __str__(self) -> str:
        held = " and ".join(self.holds)
        return (
            f"{self.name}, {self.bytes / 1e9:,.4g} GB at {self.bytes_per_s / 1e9:,.4g} GB/s"
            f" for {held}"
        )
