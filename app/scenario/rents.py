"""Rents of devices that a question states: for any system, or by the names of systems."""

import math
from contextlib import suppress
from typing import Any

from app.question.question import Question
from app.scenario.known_systems import find_system
from genz_core import System
from genz_core.errors import InvalidValue, UnknownSystem
from genz_core.limits import brief

#: Per device-hour.
_MOST_USD = 1_000_000


def rent_of(price: Any, system: System) -> float | None:
    """Rent of a device of a system [USD per hour] given by a question, None for none.

    price: a number, or "3.5", or by system "h200=3.5,mi300x=2", or pairs of these.

    Raises:
        InvalidValue: another text, or a rent that is not a number above 0.
    """
    for name, usd in rents(price):
        if not name or find_system(name).slug == system.slug:
            return _usd(usd)
    return None


def rents(price: Any) -> list[tuple[str, Any]]:
    """Pairs of a system's name, "" for any system, and its rent; price: as in `rent_of`."""
    if isinstance(price, str):
        price = tuple(pair.split("=") for pair in price.split(",") if pair)
    if not isinstance(price, tuple):
        return [("", price)]
    return [("", *pair) if len(pair) == 1 else (str(pair[0]).strip(), pair[1]) for pair in price]


def rent_in_vain(question: Question, system: System) -> str:
    """A sentence if a question states rents of systems, and none of them is its own; otherwise "".

    system: the question's.
    """
    named = [name for name, _ in rents(question.price)]
    if not all(named) or not named:
        return ""
    own = {system.slug}
    with suppress(UnknownSystem):  # a file
        own.add(find_system(question.prefill_system or system).slug)
    if any(find_system(name).slug in own for name in named):
        return ""
    return (
        f"price of {' and '.join(named)} does not apply to {system.slug}: name that system, or "
        "leave it out"
    )


def _usd(value: Any) -> float:
    try:
        usd = float(value)
    except (TypeError, ValueError):
        usd = math.nan
    if not 0.0 < usd <= _MOST_USD:
        raise InvalidValue(
            f"price = {brief(value)}: give US dollars per hour, above 0 to {_MOST_USD:,}, as "
            '"h200=3.5"'
        )
    return usd
