"""Quantities as text: the one form in which pages, commands and reports write SI values."""

from __future__ import annotations

import math

_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))


def digits(value: float, places: int = 3) -> str:
    """A figure to `places` significant digits, zeros at its end included, without an exponent.

    `genz_core.limits.short` writes a number that was given, without those zeros.
    """
    if not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    rounded = float(f"{value:.{places}g}")
    decimals = places - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{max(decimals, 0)}f}"


def scaled(value: float, unit: str, places: int = 3) -> str:
    """A large quantity with its prefix: 3.35e12, "B/s" -> "3.35 TB/s"."""
    if not math.isfinite(value):
        return "–"
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * (1 - 5e-4):
            return f"{digits(value / factor, places)} {prefix}{unit}"
    return f"{digits(value, places)} {unit}"


def seconds(value: float, places: int = 3) -> str:
    """A latency [s]: "4.52 ms", "1.20 s", "2.4 h" beyond two hours."""
    if not math.isfinite(value):
        return "–"
    if value >= 7200:
        return f"{digits(value / 3600, places)} h"
    for factor, prefix in _SMALL:
        if abs(value) >= factor * (1 - 5e-4):
            return f"{digits(value / factor, places)} {prefix}s"
    return "0 s" if value == 0 else f"{digits(value / 1e-9, places)} ns"


def count(value: float) -> str:
    """A whole number with thousands separated."""
    return f"{value:,.0f}" if math.isfinite(value) else "–"


def percent(share: float) -> str:
    """A fraction as percent: "43 %"; small ones keep a digit, large ones three: "21,200 %"."""
    if not math.isfinite(share):
        return "–"
    value = share * 100
    if abs(value) >= 1000:
        return f"{digits(value)} %"
    return f"{value:.0f} %" if abs(value) >= 9.95 or value == 0 else f"{value:.1f} %"
