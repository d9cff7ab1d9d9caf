"""Intervals of predictions: quantiles of measured / predicted on held-out points.

Those of steps and requests are written by the fit of the engines (`app/engine_fit`); their coverage
on points used neither for the model nor for the interval is in `coverage.csv`.  Those of operators
are written by the fit of the profiles (`python -m hardware_db.fit`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from genz_core.engine import EngineProfile
from genz_core.latency.profile import Fit, LatencyProfile
from genz_core.types import Array, Mask, Num
from hardware_db import profile_schema, profiles
from hardware_db.engine_files import GENERIC
from hardware_db.tables import table

LEVEL = 0.8
#: Upper end above which an interval is useless; such a figure counts as not validated.
WIDEST = 2.5
#: Open requests per rank up to which errors do not depend on the load, and the most that were
#: measured.
CROWD, MOST_CROWD = 64.0, 512.0
#: Novelty that the shipped intervals correspond to: the median of held-out configurations.
USUAL_NOVELTY = 0.25
_DECILE = 1.2815515655446004  # quantile of a standard normal with a tenth of the mass above it
_LEAST_SPREAD = 1e-6
#: Prompt tokens above which prompts count as long, since reading them dominates the first token.
LONG_PROMPT = 4096
_BEYOND_RANGE = Path(__file__).parent / "beyond_range.yaml"
#: {`EngineProfile.measured_on`: kind of held-out points that an interval is based on}.
_UNDER_LOAD = ("ttft_s", "tpot_s", "e2e_s")
_OF_LOAD = {"recipe": "recipe", "own": "few", "own_few": "none", "device": "none", "": "none"}
_OF_BATCH = {"recipe": "device", "own": "none", "own_few": "none", "device": "device", "": "none"}
_POOLED = "*"
#: Engines whose kernels are in the operator tables, and the generic one, which is priced with them.
_TIMED = (GENERIC, "sglang", "trtllm", "vllm")


@dataclass(frozen=True, slots=True)
class Interval:
    """An 80 % interval as factors of the prediction, and the held-out points behind it.

    It always contains the prediction: where most points lie on one side, it is extended to the
    other.
    low, high: numbers or arrays, NaN where the interval would be useless.
    novelty, crowd: exponents by which its logarithms grow, see `stretch`.
    """

    low: Num
    high: Num
    points: int
    novelty: float = 0.0
    crowd: float = 0.0

    def __post_init__(self) -> None:
        low, high = np.minimum(self.low, 1.0), np.maximum(self.high, 1.0)
        object.__setattr__(self, "low", low if np.ndim(low) else float(low))
        object.__setattr__(self, "high", high if np.ndim(high) else float(high))

    def at(self, novelty: Array, users: Array) -> Interval | None:
        """The interval of each load, None where it is useless for all; arguments: see `stretch`."""
        factor = stretch(novelty, users, self.novelty, self.crowd)
        low, high = (np.exp(np.log(end) * factor) for end in (self.low, self.high))
        told = high <= WIDEST
        if not np.any(told):
            return None
        return Interval(np.where(told, low, np.nan), np.where(told, high, np.nan), self.points)

    def widened(self, distance: Array, without: Mask, load: str) -> Interval | None:
        """The interval widened for configurations beyond what was measured.

        distance: beyond the measured range, in natural logarithms, [configs] or one for all.
        without: configurations that have no interval at all, likewise.  load: "batch" or "served".
        None where no configuration has an interval.
        """
        if not np.any(without) and not np.any(distance > 0.0):
            return self
        factor = 1.0 + growth(load) * distance
        low, high = (np.exp(np.log(end) * factor) for end in (self.low, self.high))
        told = (high <= WIDEST) & ~without
        if not np.any(told):
            return None
        return Interval(np.where(told, low, np.nan), np.where(told, high, np.nan), self.points)


@cache
def growth(load: str) -> float:
    """Growth of an interval's logarithms with the distance from the measured range.

    load: "batch" or "served".  See `beyond_range.yaml`, which states the origin of the figures.
    """
    return float(profile_schema.plain_data(_BEYOND_RANGE)[load]["value"])


def wider(one: Interval | None, other: Interval | None) -> Interval | None:
    """The wider ends of two intervals; None where either is None."""
    if one is None or other is None:
        return None
    low, high = np.minimum(one.low, other.low), np.maximum(one.high, other.high)
    return Interval(low, high, min(one.points, other.points))


def stretch(novelty: Array, users: Array, near: float, crowd: float) -> Array:
    """Factor on an interval's logarithms relative to a load of usual novelty, [loads].

    novelty: standard deviation that remains with the measured runs, over that without any.
    users: open requests of an attention rank; beyond `CROWD` of them, queues and a full cache make
    runs differ.  near, crowd: exponents of the two.
    """
    crowded = np.clip(np.asarray(users, dtype=float), CROWD, MOST_CROWD) / CROWD
    usual = np.asarray(novelty, dtype=float) / USUAL_NOVELTY
    return np.asarray(usual**near * crowded**crowd)


def load_interval(
    metric: str, tier: str, engine: EngineProfile, novelty: Array | None = None, users: Num = 1.0
) -> Interval | None:
    """The interval of a step's or a request's figure.

    None where too few points were measured, or where the interval is useless.

    The held-out points of other engines count as well, with a weight that falls with the number of
    the engine's own points; an engine without measurements has the interval of the generic one.

    Args:
        metric: "prefill", "decode", "e2e" (static batches), "ttft_s", "tpot_s", "e2e_s" (serving).
        tier: of the latency profile ("measured", "sibling", "default").
        engine: with the measurements of the system applied (`genz_core.deploy`); `measured_on`
            decides which held-out points count; so does whether its release is among them.
        novelty, users: of loads, see `stretch`; by default a load of usual novelty.
    """
    points = (_OF_LOAD if metric in _UNDER_LOAD else _OF_BATCH)[engine.measured_on]
    if engine.unmeasured:
        points = "release" if points == "recipe" else "none"
    intervals = _table()
    measured = {name for *_, name in intervals} - {GENERIC, _POOLED}
    stand_in = _POOLED if engine.name in measured else GENERIC
    rows = (intervals.get((metric, tier, points, name)) for name in (engine.name, stand_in))
    found = next(filter(None, rows), None)
    if found is None:
        return None
    if novelty is None:
        return found if found.high <= WIDEST else None
    return found.at(novelty, np.asarray(users, dtype=float))


def probability_below(slack: Array, interval: Interval) -> Array:
    """P(measured / predicted < exp(slack)); NaN where there is no interval.

    slack: ln(target / predicted); NaN, for a missing figure, gives probability 0.
    interval: of measured / predicted, one for all or one each.
    """
    low, high = np.log(interval.low), np.log(interval.high)
    centre = (low + high) / 2.0
    spread = np.maximum((high - low) / 2.0 / _DECILE, _LEAST_SPREAD)
    deviations = (np.asarray(slack, dtype=float) - centre) / spread
    chance = np.nan_to_num(_normal_below(deviations), nan=0.0)
    return np.where(np.isnan(spread), np.nan, chance)


def _normal_below(deviations: Array) -> Array:
    """P(a standard normal number is below each value), by the C library's error function."""
    flat = [math.erfc(-value * math.sqrt(0.5)) / 2.0 for value in deviations.ravel().tolist()]
    return np.array(flat).reshape(deviations.shape)


@dataclass(frozen=True, slots=True)
class Kind:
    """Deployments that were measured separately from plain ones.

    name: "pools" (prompts have separate workers) or "drafts" (the model drafts with its own
    module).  isl: prompt tokens, a number or [loads].
    """

    name: str
    isl: Num


def kind_interval(metric: str, kind: Kind, *, widest: float = WIDEST) -> Interval | None:
    """The interval of a figure for a kind of deployment, by the length of its prompts.

    None where too few runs were measured, or where the interval is useless.
    metric: "ttft_s", "tpot_s" or "e2e_s".  widest: upper end above which it counts as useless.
    """
    ends = {
        row["prompts"]: (float(row["low"]), float(row["high"]), int(row["points"]))
        for row in table("engines", "kinds")
        if (row["kind"], row["metric"]) == (kind.name, metric)
    }
    if not ends:
        return None
    whole = ends.get("all", (math.nan, math.nan, 0))
    short, long = (ends.get(name, whole) for name in ("short", "long"))
    above = np.asarray(kind.isl, dtype=float) > LONG_PROMPT
    low, high = (np.where(above, long[at], short[at]) for at in (0, 1))
    told = high <= widest
    if not np.any(told):
        return None
    return Interval(np.where(told, low, np.nan), np.where(told, high, np.nan), short[2] + long[2])


def held_out_interval(metric: str, tier: str, known: str, engine: str) -> Interval:
    """The row of `engines/intervals.csv` for an engine, or for all engines where it has none.

    known: kind of the held-out points that it is based on, for example "recipe" or "none".

    Raises:
        KeyError: there is none for all engines either.
    """
    rows = _table()
    own = rows.get((metric, tier, known, engine))
    return own or rows[metric, tier, known, _POOLED]


def load_operator_interval(operator: str, fit: Fit, engine: str) -> Interval | None:
    """The interval of one run of an operator; None where no residuals were held out.

    Args:
        operator: class of its latency model.
        fit: record of the constants that price it; None for constants fitted by the user, which
            have no held-out data.
        engine: a profile's name; None for engines whose kernels are not in the operator tables.
    """
    if engine not in _TIMED or not _published(fit):
        return None
    return _residuals()[1].get((operator, fit.tier))


def validated_tier(profile: LatencyProfile | None) -> str:
    """Tier of a profile, for `load_interval`; "" for one with constants that the user fitted."""
    if profile is None or not all(map(_published, profile.fits.values())):
        return ""
    return profile.tier


def _published(fit: Fit) -> bool:
    """Whether constants were fitted on the same tables that the residuals were held out of."""
    sources = _residuals()[0]
    return all(part.startswith(sources) for part in fit.data_set.split("; "))


@cache
def _residuals() -> tuple[tuple[str, ...], Mapping[tuple[str, str], Interval]]:
    """Data sets of the residuals, and {(operator class, tier): interval}."""
    file = profiles.FOLDER / f"{profiles.RESIDUALS}.yaml"
    data = profile_schema.plain_data(file)
    tail = (1.0 - LEVEL) / 2.0
    intervals = {
        (operator, tier): Interval(
            math.exp(entry["quantiles"][round(tail, 2)]),
            math.exp(entry["quantiles"][round(1.0 - tail, 2)]),
            int(entry["points"]),
        )
        for operator, tiers in data["classes"].items()
        for tier, entry in tiers.items()
    }
    return tuple(data["data_sets"]), intervals


@cache
def _table() -> Mapping[tuple[str, str, str, str], Interval]:
    """{(metric, tier, kind of held-out points, engine): interval} of steps and requests."""
    return {
        (row["metric"], row["tier"], row["known"], row["engine"]): Interval(
            float(row["low"]),
            float(row["high"]),
            int(row["points"]),
            float(row["novelty"]),
            float(row["crowd"]),
        )
        for row in table("engines", "intervals")
    }
