"""Constants from samples: of one device, of a family, and typical ones for devices unseen."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from genz_core.latency.parameters import CLASSES, Parameters, describe
from genz_core.operator_calibration import FittedParameters, fit, fit_pool
from hardware_db.fit.samples import Sample
from hardware_db.profiles.typical import POLES, position

#: Own constants may leave the typical ones by this factor (as ln) where the points are silent.
_OWN_SPREAD = 0.7
_TYPICAL_SPREAD = 1.5
_POOL_POINTS = 300
#: What differs between devices without a pattern: it stays at its default in typical constants.
_PECULIAR = frozenset({"mha_launch", "mha_chunk"})
#: How fast a device's say in the typical constants fades with its distance from the pole, and
#: what is left of it far away.
_REACH, _FLOOR = 0.5, 0.1
#: Prior of a constant's spread over families, and how many families it counts for.
_PRIOR_SPREAD, _PRIOR_FAMILIES = 0.5, 2.0
_SPREAD_BOUNDS = (0.12, 1.5)


def defaults(operator: str) -> Parameters:
    """The constants of a class before anything was fitted."""
    kind = CLASSES[operator]
    return kind(**{constant.name: constant.default for constant in describe(kind)})


def fit_own(sample: Sample, starts: Sequence[Parameters]) -> FittedParameters:
    """Constants of one device from its training shapes; the best of several starts."""
    points = sample.points(sample.train)
    spread = dict.fromkeys((c.name for c in describe(type(starts[0]))), _OWN_SPREAD)
    fits = [fit(points, sample.system, start, spread=spread, prior=True) for start in starts]
    return min(fits, key=lambda solution: solution.cost)


def fit_typical(
    pool: Sequence[Sample], starts: Sequence[Parameters], pole: float | None = None
) -> Parameters:
    """One set of constants for several devices, each family with the same say.

    pole: where on the scale of `position` the devices lie that it is for; families far from it
    count less.
    """
    weights = _weights(pool, pole)
    parts = [
        (sample.points(_few(sample)), sample.system, weight)
        for sample, weight in zip(pool, weights, strict=True)
    ]
    spread = dict.fromkeys((c.name for c in describe(type(starts[0]))), _TYPICAL_SPREAD)
    fits = [
        fit_pool(parts, start, spread=spread, prior=True, fixed=_PECULIAR & set(spread))
        for start in starts
    ]
    return min(fits, key=lambda solution: solution.cost).parameters


def fit_poles(pool: Sequence[Sample], starts: Sequence[Parameters]) -> dict[str, Parameters]:
    """Typical constants for the narrow and the wide end of the scale."""
    return {
        name: fit_typical(pool, starts, pole)
        for name, pole in POLES[pool[0].series.operator].items()
    }


def _weights(pool: Sequence[Sample], pole: float | None) -> list[float]:
    members = Counter(sample.family for sample in pool)
    if pole is None:
        return [1.0 / members[sample.family] for sample in pool]
    nearness = [
        math.exp(-0.5 * ((position(sample.series.operator, sample.device) - pole) / _REACH) ** 2)
        + _FLOOR
        for sample in pool
    ]
    mean = float(np.mean(nearness))
    return [
        near / mean / members[sample.family] for near, sample in zip(nearness, pool, strict=True)
    ]


def _few(sample: Sample) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    rows = sample.train
    if len(rows) <= _POOL_POINTS:
        return rows
    return rows.iloc[np.sort(rng.choice(len(rows), _POOL_POINTS, replace=False))]


def spread_over_families(
    typical: Parameters, pool: Sequence[Sample], own: Mapping[str, Parameters]
) -> dict[str, float]:
    """Standard deviation of ln(constant) over families around the typical value.

    Few families say little about the spread, so a prior of 0.5 counts as two more.
    """
    families = sorted({sample.family for sample in pool})
    spread = {}
    for constant in describe(type(typical)):
        floor = max(constant.low, 1e-12)
        centre = math.log(max(getattr(typical, constant.name), floor))
        squares = 0.0
        for family in families:
            values = [
                math.log(max(getattr(own[s.series.device], constant.name), floor)) - centre
                for s in pool
                if s.family == family
            ]
            squares += float(np.mean(np.square(values)))
        variance = (squares + _PRIOR_FAMILIES * _PRIOR_SPREAD**2) / (
            len(families) + _PRIOR_FAMILIES
        )
        spread[constant.name] = float(np.clip(math.sqrt(variance), *_SPREAD_BOUNDS))
    return spread
