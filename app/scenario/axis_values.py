"""Values of one axis of a sweep, as a user types them."""

from __future__ import annotations

import math

from genz_core.errors import InvalidValue


def parse_values(name: str, text: str) -> list[float]:
    """Read "1,2,4", "1:256:x2" (doubling) or "128:1024:128" (steps).

    Raises:
        InvalidValue: anything else, or more than 10,000 values.
    """
    try:
        if ":" not in text:
            return [_finite(part) for part in text.split(",")]
        start, stop, step = text.split(":")
        low, high = _finite(start), _finite(stop)
        factor = float(step[1:]) if step.startswith("x") else 0.0
        stride = 0.0 if factor else float(step)
        if low < 1 or high < low or (factor <= 1.0 and stride <= 0.0):
            raise ValueError
    except ValueError:
        raise InvalidValue(
            f'{name} {text!r}: give "1,2,4", "1:256:x2" for doubling or "128:1024:128" for steps'
        ) from None
    values = [low]
    while values[-1] < high and len(values) <= 10_000:
        values.append(values[-1] * factor if factor else values[-1] + stride)
    if len(values) > 10_000:
        raise InvalidValue(f"{name} {text!r} is more than 10,000 values; take larger steps")
    return [float(round(value)) for value in values if value <= high]


def parse_rates(name: str, text: str) -> list[float]:
    """Read arrival rates [requests/s]: "10" or "1,2.5,4".

    Raises:
        InvalidValue: anything else.
    """
    try:
        return [_finite(part) for part in text.split(",")]
    except ValueError:
        raise InvalidValue(
            f'{name} {text!r}: give requests per second, as "10" or "1,2.5,4"'
        ) from None


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value
