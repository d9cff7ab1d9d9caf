"""Formatting for reports: seconds, shares, counts, names, and Markdown tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from genz_core.common.cells import markdown_cell

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def seconds(value: float) -> str:
    """A time to three digits with its unit: "12.7 ms"; "unknown" where it is not finite."""
    if not math.isfinite(value):
        return "unknown"
    size = abs(value)
    factor, unit = next((entry for entry in _UNITS if size >= entry[0] * 0.9995), _UNITS[-1])
    return f"{value / factor:.3g} {unit}" if size < 1000 else f"{value:,.0f} s"


def percent(share: float) -> str:
    """A fraction of 1 in percent: "43 %"; small ones keep a digit."""
    if not math.isfinite(share):
        return "unknown"
    return f"{share * 100:.0f} %" if abs(share) >= 0.0095 else f"{share * 100:.1g} %"


def count(value: float) -> str:
    """A whole number with thousands separated."""
    return f"{value:,.0f}"


def shortened(name: str, length: int = 80) -> str:
    """A kernel's name on a single line of at most `length` characters."""
    line = " ".join(name.split())
    return line if len(line) <= length else line[: length - 1] + "…"


def markdown_table(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A Markdown table of a header and rows of cells, which may hold any text."""
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join("| " + " | ".join(map(markdown_cell, line)) + " |" for line in lines)
