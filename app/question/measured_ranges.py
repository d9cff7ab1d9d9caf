"""The shipped measurements, by kind of load: measured values of choices, and ranges of numbers.

`hardware_db/engines/measured.csv` is counted by `app.engine_fit` from the shipped measurements, by
kind of load, since a degree measured under load may not have been measured in a static batch.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hardware_db.tables import table

Load = Literal["batch", "served"]
LOADS: Mapping[Load, str] = {"batch": "in a static batch", "served": "under load"}
#: Name of the rows that cover all engines.
ALL = "*"
#: The fact that names the kind of device of a run, see `app.question.facts.device_kind`.
DEVICE = "device"
#: Rows of an engine below which the ranges of all engines are used: judgement.
LEAST_ROWS = 10
#: Redundant experts of a run that had any: larger than any number that a split can have.
_MOST_COPIES = 65_536.0


@dataclass(frozen=True, slots=True)
class Measured:
    """The range of the runs of a kind of load.

    words: {fact: measured values}.  ranges: {number: (least, most)}.
    """

    words: Mapping[str, frozenset[str]]
    ranges: Mapping[str, tuple[float, float]]


@cache
def measured(load: Load, engine: str = ALL) -> Measured:
    """The range of an engine's measured runs; of all engines' if it has fewer than `LEAST_ROWS`."""
    own = [row for row in table("engines", "measured") if row["load"] == load]
    of_engine = [row for row in own if row["engine"] == engine]
    if engine != ALL and max((int(row["rows"]) for row in of_engine), default=0) < LEAST_ROWS:
        return measured(load)
    words: dict[str, frozenset[str]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for row in of_engine:
        if row["least"]:
            ranges[row["fact"]] = float(row["least"]), float(row["most"])
        else:
            words[row["fact"]] = words.get(row["fact"], frozenset()) | {row["value"]}
    return Measured(words, ranges)


@cache
def anywhere(fact: str) -> Collection[str]:
    """Values of a choice that were measured under any kind of load."""
    return frozenset().union(*(measured(load).words.get(fact, ()) for load in LOADS))


@cache
def measured_with_pools() -> Measured:
    """The range of the measured runs under load, including those with a prefill pool.

    Degrees are those of a decode worker.
    """
    plain = measured("served")
    rows = table("measurements", "disaggregated")
    names = {"users": "concurrency", **{n: n for n in ("isl", "osl", "tp", "dp", "ep")}}
    columns = {name: [float(row[of]) for row in rows] for name, of in names.items()}
    columns["devices"] = [a * b for a, b in zip(columns["tp"], columns["dp"], strict=True)]
    columns["redundant_experts"] = [float(bool(int(row["eplb_slots"] or 0))) for row in rows]
    ranges = dict(plain.ranges)
    for name, values in columns.items():
        least, most = ranges.get(name, (math.inf, -math.inf))
        ranges[name] = min([least, *values]), max([most, *values])
    if ranges["redundant_experts"][1]:  # their number follows from the ranks
        ranges["redundant_experts"] = 0.0, _MOST_COPIES
    return Measured(plain.words, ranges)
