"""How the time of a question grows with its size: a law through measured seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Growth:
    """Seconds that grow as size ** exponent.

    each_s: of one more at the largest sizes.  sizes: that were measured, smallest and largest.
    """

    exponent: float
    each_s: float
    sizes: tuple[float, float]

    @classmethod
    def of(cls, sizes: Sequence[float], seconds: Sequence[float]) -> Growth:
        """The law through measured sizes, in increasing order: least squares of the logarithms."""
        x, y = np.log(np.asarray(sizes, float)), np.log(np.asarray(seconds, float))
        exponent = float(np.polyfit(x, y, 1)[0])
        each_s = (seconds[-1] - seconds[-2]) / (sizes[-1] - sizes[-2])
        return cls(exponent, each_s, (sizes[0], sizes[-1]))

    def row(self, what: str) -> str:
        """A line of a Markdown table."""
        low, high = self.sizes
        return (
            f"| {what} | {low:,.0f} to {high:,.0f} | {self.exponent:.2f} | {shown(self.each_s)} |"
        )


def shown(seconds: float) -> str:
    """Seconds in a unit that is read at a glance."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)):
        if seconds * factor >= 1.0:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.2g} ns"
