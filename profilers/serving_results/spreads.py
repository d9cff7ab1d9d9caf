"""Distributions as tools write them: mappings of statistics, with many spellings of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from profilers.serving_results import fields
from profilers.serving_results.measurement import Percentiles

_UNITS = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "second": 1.0,
    "seconds": 1.0, "millisecond": 1e-3, "milliseconds": 1e-3, "nanoseconds": 1e-9,
}  # fmt: skip
_PERCENT = re.compile(r"[pP](\d{1,5}(?:[.p]\d{1,3})?)")
_MEAN, _STD = ("mean", "avg", "average"), ("std", "stddev", "std_dev", "stdev")
_LEAST, _GREATEST = ("min", "minimum"), ("max", "maximum")
_NESTED = ("percentiles", "quantiles")


def seconds_per(unit: Any, otherwise: float = 1.0) -> float:
    """Seconds in a unit such as "ms" or "s/token"; `otherwise` for an unknown unit."""
    word = str(unit or "").partition("/")[0].strip().casefold()
    return _UNITS.get(word, otherwise)


def percent_of(name: str) -> float | None:
    """The percent that a name such as p99, p99.9, p99p9, p999, p001 or p05 stands for."""
    match = _PERCENT.fullmatch(name)
    if not match:
        return None
    digits = match[1].replace("p", ".")
    if "." in digits:
        value = float(digits)
    elif len(digits) >= 3 and (digits.startswith("0") or int(digits) > 100):
        value = float(f"{digits[:2]}.{digits[2:]}")
    else:
        value = float(digits)
    return value if 0 <= value <= 100 else None


def spread(document: Any, unit: float = 1.0) -> Percentiles:
    """The distribution that a mapping of statistics holds, times `unit`.

    Empty where there is no mapping, no number in it, or nothing but zeros.
    """
    if not isinstance(document, Mapping):
        return Percentiles()
    at = _percents(document, unit)
    found = {
        name: fields.scaled(fields.figure(fields.first(document, words)), unit)
        for name, words in (
            ("mean", _MEAN), ("std", _STD), ("minimum", _LEAST), ("maximum", _GREATEST),
        )
    }  # fmt: skip
    if not any([*at.values(), found["mean"], found["maximum"]]):
        return Percentiles()
    return Percentiles(**found, at=at, count=fields.count(document.get("count")))


def _percents(document: Mapping[str, Any], unit: float) -> dict[float, float]:
    at: dict[float, float] = {}
    inner = next((document[name] for name in _NESTED if name in document), None)
    for source in (document, fields.mapping(inner)):
        for name, raw in source.items():
            percent = 50.0 if name == "median" else percent_of(str(name))
            value = fields.figure(raw) if percent is not None else None
            if percent is not None and value is not None:
                at[percent] = value * unit
    return dict(sorted(at.items()))
