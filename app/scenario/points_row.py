"""One row of a points file: its text read, or the sentence that says what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.scenario.scenario import Scenario
from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.limits import checked_size

NAMES = ("model", "system", "engine", "weights", "moe_weights", "kv", "activations", "compute")
_DEGREES = ("tp", "pp", "dp")


@dataclass(frozen=True, slots=True)
class Point:
    """One row, its text read: names, whole numbers, and who asks."""

    id: str
    scenario: Scenario
    concurrency: int = 0
    length_ratio: float = 1.0
    notes: tuple[str, ...] = ()


def parse(row: Mapping[str, str], default_id: str = "") -> Point:
    """Read one row.

    Raises:
        InvalidValue: a size that is no whole number within its limits, or batch and concurrency
            both.
        InvalidParallelism: moe_tp * ep is not tp * dp.
    """
    names: dict[str, Any] = {name: row.get(name, "") for name in NAMES}
    if not names["model"] or not names["system"]:
        empty = "model" if not names["model"] else "system"
        raise InvalidValue(f"the {empty} is empty; name one")
    degrees: dict[str, Any] = {name: _whole(row, name, 1) for name in _DEGREES}
    ep, moe_tp = _experts(row, degrees["tp"] * degrees["dp"])
    batch, concurrency = _whole(row, "batch", 0), _whole(row, "concurrency", 0)
    if bool(batch) == bool(concurrency):
        given = "both" if batch else "neither"
        raise InvalidValue(f"give batch or concurrency, one of them; this row has {given}")
    scenario = Scenario(
        **names,
        **degrees,
        ep=ep,
        moe_tp=moe_tp,
        batch=batch or concurrency,
        isl=_whole(row, "isl", None),
        osl=_whole(row, "osl", None),
    )
    ratio = _ratio(row)
    return Point(row.get("id") or default_id, scenario, concurrency, ratio)


def _experts(row: Mapping[str, str], ranks: int) -> tuple[int, int | None]:
    """Expert degrees of a row: (ep, moe_tp); see architecture rules for empty cells."""
    ep, moe_tp = _whole(row, "ep", 0), _whole(row, "moe_tp", 0)
    if not moe_tp:
        return ep or 1, None
    if not ep:
        if ranks % moe_tp:
            raise InvalidParallelism(f"moe_tp={moe_tp} does not divide tp x dp = {ranks}")
        return ranks // moe_tp, moe_tp
    if ep * moe_tp != ranks:
        raise InvalidParallelism(
            f"moe_tp x ep = {moe_tp} x {ep} must equal tp x dp = {ranks}; leave moe_tp empty"
        )
    return ep, moe_tp


def _whole(row: Mapping[str, str], name: str, default: int | None) -> int:
    text = row.get(name, "")
    if text or default is None:
        return checked_size(name, text or "empty")
    return default


def _ratio(row: Mapping[str, str]) -> float:
    text = row.get("length_ratio", "")
    try:
        value = float(text or 1.0)
    except ValueError:
        value = float("nan")
    if not 0.0 < value <= 1.0:
        raise InvalidValue(f"length_ratio = {text!r} is not between 0 and 1")
    return value
