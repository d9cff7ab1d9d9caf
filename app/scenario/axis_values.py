"""Values of one axis of a sweep, as a user types them."""

from __future__ import annotations

import math

from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS, checked_size

MOST_REQUESTS_PER_S = 1e9


def parse_values(name: str, text: str, size: str = "") -> list[float]:
    """Read "1,2,4", "1:256:x2" (doubling) or "128:1024:128" (steps).

    Args:
        name: of the axis, for the sentence.
        size: what the values are by `genz_core.limits`; "" for the same word.

    Raises:
        InvalidValue: anything else, too many values, or one beyond its limits.
    """
    values = _values(name, text)
    if len(values) > LIMITS["axis"].most:
        raise InvalidValue(
            f"{name} {_brief(text)} is more than {LIMITS['axis'].most:,} values; take larger steps"
        )
    return [float(checked_size(size or name, value, name)) for value in values]


def _values(name: str, text: str) -> list[float]:
    """The values, one more than an axis may have where there are more."""
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
            f'{name} {_brief(text)}: give "1,2,4", "1:256:x2" for doubling or '
            '"128:1024:128" for steps'
        ) from None
    values, most = [low], LIMITS["axis"].most
    while values[-1] < high and len(values) <= most:
        values.append(values[-1] * factor if factor else values[-1] + stride)
    return [float(round(value)) for value in values if value <= high]


def parse_rates(name: str, text: str) -> list[float]:
    """Read arrival rates [requests/s]: "10" or "1,2.5,4".

    Raises:
        InvalidValue: anything else.
    """
    try:
        rates = [_finite(part) for part in text.split(",")]
        if not all(0.0 < rate <= MOST_REQUESTS_PER_S for rate in rates):
            raise ValueError
    except ValueError:
        raise InvalidValue(
            f'{name} {_brief(text)}: give requests per second above 0, as "10" or "1,2.5,4"'
        ) from None
    return rates


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _brief(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
