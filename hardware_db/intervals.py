"""How far off a prediction may be: quantiles of measured / predicted on held-out points.

Those of steps and requests are written by the fit of the engines (`app/engine_fit`); their
coverage on points that drew neither the model nor the interval stands beside them in
`coverage.csv`.  Those of single operators are written by the fit of the profiles
(`python -m hardware_db.fit`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import yaml

from genz_core.engine import EngineProfile
from genz_core.latency.profile import Fit, LatencyProfile
from hardware_db import profiles
from hardware_db.engine_schema import GENERIC
from hardware_db.tables import table

LEVEL = 0.8
#: Which held-out points speak for a figure, by what was measured of its engine and system.
_OF_LOAD = {"recipe": "recipe", "own": "few", "own_few": "none", "device": "none", "": "none"}
_OF_BATCH = {"recipe": "device", "own": "none", "own_few": "none", "device": "device", "": "none"}
_POOLED = "*"
#: The engines whose kernels the operator tables time, and the one that is priced with them.
_TIMED = (GENERIC, "sglang", "trtllm", "vllm")


@dataclass(frozen=True, slots=True)
class Interval:
    """An 80 % interval as factors of the prediction, and the held-out points behind it.

    It holds the prediction: where most points lay on one side, it is widened to the other.
    """

    low: float
    high: float
    points: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", min(self.low, 1.0))
        object.__setattr__(self, "high", max(self.high, 1.0))


def load_interval(metric: str, tier: str, engine: EngineProfile) -> Interval | None:
    """The interval of a figure; None where too few points were measured to state one.

    metric: "prefill", "decode", "e2e" (static batches), "ttft_s" or "tpot_s" (serving).
    tier: of the latency profile ("measured", "sibling", "default").  engine: as it was measured
    on the system (`genz_core.deploy`): what was measured decides which held-out points speak for
    the figure.  Where they are too few all measured engines are pooled, and an engine that was
    never measured misses as the generic one does.
    """
    known = (_OF_LOAD if metric in ("ttft_s", "tpot_s") else _OF_BATCH)[engine.measured_on]
    intervals = _table()
    measured = {name for *_, name in intervals} - {GENERIC, _POOLED}
    stand_in = _POOLED if engine.name in measured else GENERIC
    found = (intervals.get((metric, tier, known, name)) for name in (engine.name, stand_in))
    return next(filter(None, found), None)


def load_operator_interval(operator: str, fit: Fit, engine: str) -> Interval | None:
    """The interval of one run of an operator; None where no residual was held out for it.

    operator: class of its latency model.  fit: the record of the constants that price it; those
    that someone fitted on points of their own were tried on no others.  engine: a profile's name;
    engines that bring kernels of their own were not timed operator by operator.
    """
    if engine not in _TIMED or not _published(fit):
        return None
    return _residuals()[1].get((operator, fit.tier))


def validated_tier(profile: LatencyProfile | None) -> str:
    """The tier whose measured steps speak for a profile; "" for one with constants of one's own."""
    if profile is None or not all(map(_published, profile.fits.values())):
        return ""
    return profile.tier


def _published(fit: Fit) -> bool:
    """Whether constants were fitted on the tables whose held-out points made the residuals."""
    source = _residuals()[0]
    return all(part.startswith(source) for part in fit.data_set.split("; "))


@cache
def _residuals() -> tuple[str, Mapping[tuple[str, str], Interval]]:
    """The data set of the residuals, and the interval of each operator class and tier."""
    file = profiles.FOLDER / f"{profiles.RESIDUALS}.yaml"
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    tail = (1.0 - LEVEL) / 2.0
    found = {
        (operator, tier): Interval(
            math.exp(entry["quantiles"][round(tail, 2)]),
            math.exp(entry["quantiles"][round(1.0 - tail, 2)]),
            int(entry["points"]),
        )
        for operator, tiers in data["classes"].items()
        for tier, entry in tiers.items()
    }
    return data["data_set"], found


@cache
def _table() -> dict[tuple[str, str, str, str], Interval]:
    return {
        (row["metric"], row["tier"], row["known"], row["engine"]): Interval(
            float(row["low"]), float(row["high"]), int(row["points"])
        )
        for row in table("engines", "intervals")
    }
