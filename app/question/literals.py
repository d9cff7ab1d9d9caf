"""Typed text as values: "10k", "1e6", "2Ki", "1,2,4", "1:256:x2", "true"."""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from app.question.parameter import Parameter
from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS, brief

_NUMBER = re.compile(r"([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(ki|mi|gi|k|m|g|b)?", re.I)
#: The last digits of a number with a comma in it: "048" of "2,048".
_TORN = re.compile(r"0\d+")
#: Two values, the second much larger, that may be meant as one number: "1,100".
_TWO_OR_ONE = re.compile(r"([1-9]\d{0,2}),(\d{3})")
_MUCH_LARGER = 10
_FACTORS = {
    "": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9,
    "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30,
}  # fmt: skip
#: Units that may follow a number, by the unit of its parameter.
_UNITS: Mapping[str, Mapping[str, float]] = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "min": 60.0, "h": 3600.0},
    "µs": {"us": 1.0, "µs": 1.0, "ms": 1e3, "s": 1e6},
    "1/s": {
        "/s": 1.0,
        "/min": 1.0 / 60.0,
        "/h": 1.0 / 3600.0,
        "/day": 1.0 / 86_400.0,
        "/month": 12.0 / (365.0 * 86_400.0),
    },
    "%": {"%": 1.0},
    "W": {"w": 1.0, "kw": 1e3},
    "years": {"y": 1.0, "years": 1.0},
}
_TRUTHS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_RANGE = ("from", "to", "step")


def number(text: str) -> float:
    """The number in a text: "1024", "10k" (10,000), "2Ki" (2,048), "1e6".

    Raises:
        ValueError: it is not a number.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return float(match[1].replace("_", "")) * _FACTORS[(match[2] or "").casefold()]


def value(one: Parameter, text: str) -> Any:
    """A single value of a parameter from its text.

    Raises:
        InvalidValue: the text is not a value of that parameter.
    """
    if one.kind == "truth":
        word = text.strip().casefold()
        if word not in _TRUTHS:
            raise InvalidValue(f"{one.name} = {brief(text)}: give true or false")
        return _TRUTHS[word]
    if one.kind == "list":
        return one.checked(text)
    if not one.numeric:
        return one.checked(text.strip())
    try:
        return one.checked(in_unit(one, text))
    except ValueError:
        return one.checked(text)  # refused, quoting the typed text


def in_unit(one: Parameter, text: str) -> float:
    """The number in a text, in the unit of a parameter: "30ms" for seconds, "20/s", "90%".

    Raises:
        ValueError: it is not a number, or is followed by another unit.
    """
    plain = text.strip().casefold()
    units = dict(_UNITS.get(one.unit, {}))
    if not one.unit and one.kind == "number" and one.most <= 1.0:
        units["%"] = 0.01
    if "$" in one.unit:
        plain = plain.removeprefix("$")
    for unit in sorted(units, key=len, reverse=True):
        if plain.endswith(unit):
            with suppress(ValueError):
                return number(plain.removesuffix(unit)) * units[unit]
    return number(plain)


def text(value: Any) -> str:
    """A value as text that parses back to the same value."""
    if isinstance(value, bool):
        return str(value).casefold()
    if isinstance(value, Mapping):
        return ",".join(f"{name}={text(each)}" for name, each in value.items())
    if isinstance(value, (list, tuple)):
        pairs = (isinstance(each, tuple) and len(each) == 2 for each in value)
        if value and all(pairs):
            return text(dict(value))
        return ",".join(map(text, value))
    return "" if value is None else str(value)


def values(one: Parameter, text: str) -> list[Any]:
    """Several values of a parameter: "1,2,4", "1:256:x2" (doubling) or "128:1024:128" (steps).

    Raises:
        InvalidValue: a text that is neither, more values than an axis may have, a number with
            commas between its digits, or a value outside the limits of the parameter.
    """
    if one.numeric and ":" in text:
        first, last, step = _ends(one.name, text)
        return [one.checked(each) for each in stepped(one.name, first, last, step, one.kind)]
    parts = words(text)
    if one.numeric and (torn := next(filter(_TORN.fullmatch, parts[1:]), "")):
        raise InvalidValue(
            f"{one.name} = {brief(text)}: a comma separates values, and {torn} is not a value; "
            "write numbers without separators, as 2048 or 2Ki"
        )
    return [value(one, part) for part in parts] or [value(one, text)]


def two_or_one(one: Parameter, text: str) -> str:
    """A sentence on a text that is read as two values and looks like one number; otherwise ""."""
    match = _TWO_OR_ONE.fullmatch(text.strip()) if one.numeric else None
    if match is None or int(match[2]) < _MUCH_LARGER * int(match[1]):
        return ""
    first, second = match.groups()
    return (
        f"{one.name} = {text.strip()} is two values, {first} and {second}; for one number write "
        f'{first}{second}, for two without this note "{first}, {second}"'
    )


def of_range(one: Parameter, given: Mapping[str, Any]) -> list[Any]:
    """Several values from {"from": 1, "to": 8, "step": 1}, or with the step "x2" for doubling.

    Raises:
        InvalidValue: another mapping, or values outside the limits of the parameter.
    """
    try:
        if not {"from", "to"} <= set(given) <= set(_RANGE):
            raise ValueError
        first, last = (_float(given[name]) for name in ("from", "to"))
        step = str(given.get("step", 1))
        return [one.checked(each) for each in stepped(one.name, first, last, step, one.kind)]
    except (TypeError, ValueError):
        raise InvalidValue(
            f"{one.name}: {brief(dict(given))} is not a range; give {{from: 1, to: 8, step: 1}}, "
            'or step "x2" for doubling'
        ) from None


def stepped(name: str, first: float, last: float, step: str, kind: str) -> list[float]:
    """Values from `first` to `last` by a stride ("128") or a factor ("x2").

    Raises:
        ValueError: they do not increase.  InvalidValue: there are too many of them.
    """
    factor = number(step[1:]) if step.startswith("x") else 0.0
    stride = 0.0 if factor else number(step)
    grows = (factor > 1.0 and first > 0.0) or stride > 0.0
    if not (math.isfinite(first) and math.isfinite(last) and first <= last and grows):
        raise ValueError
    found: list[float] = []
    while (
        at := first * factor ** len(found) if factor else first + stride * len(found)
    ) <= last * (1.0 + 1e-12):
        found.append(float(round(at)) if kind == "whole" else at)
        if len(found) > LIMITS["axis"].most:
            raise InvalidValue(
                f"{name} has more than {LIMITS['axis'].most:,} values; take larger steps"
            )
    return found


def words(text: str | Sequence[str]) -> tuple[str, ...]:
    """The comma-separated texts, or those of a list, without repetition."""
    parts = text.split(",") if isinstance(text, str) else text
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def near(name: str, known: Iterable[str]) -> list[str]:
    """The known names that an unknown one may stand for, the likeliest first."""
    return difflib.get_close_matches(name.casefold(), list(known), 3, 0.6)


def did_you_mean(near: Sequence[str], known: Iterable[str]) -> str:
    """The names near an unknown one, otherwise all known names, as worded in errors."""
    return f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(known)}"


def _ends(name: str, text: str) -> tuple[float, float, str]:
    parts = text.split(":")
    try:
        if len(parts) != 3:
            raise ValueError
        first, last = number(parts[0]), number(parts[1])
        if not stepped(name, first, last, parts[2].strip(), "number"):
            raise ValueError
        return first, last, parts[2].strip()
    except InvalidValue:  # too many values
        raise
    except ValueError:
        raise InvalidValue(
            f'{name} {brief(text)}: give "1,2,4", "1:256:x2" for doubling or "128:1024:128" for '
            "steps"
        ) from None


def _float(given: Any) -> float:
    return number(given) if isinstance(given, str) else float(given)
