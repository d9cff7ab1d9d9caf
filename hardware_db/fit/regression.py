"""Fits of constants to measured series: for one device, and typical ones for many devices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from genz_core.calibration.operator_calibration import FittedParameters, fit, fit_pool
from genz_core.latency.parameters import CLASSES, CollectiveParameters, Parameters, describe
from hardware_db.fit.samples import SplitSeries
from hardware_db.profiles.typical import POLES, position

#: Prior width of ln(constant) around the typical one in the fit of one device.
_OWN_SPREAD = 0.7
_TYPICAL_SPREAD = 1.5
_POOL_POINTS = 300
#: Constants that differ between devices without a pattern; the typical value is their default.
_PECULIAR = frozenset({"mha_launch", "mha_chunk"})
#: Weight of a device in the typical constants: width of its decline with the distance from the
#: pole, and the weight that remains at large distances.
_REACH, _FLOOR = 0.5, 0.1
#: Prior for a constant's spread over families, and how many families the prior counts for.
_PRIOR_SPREAD, _PRIOR_FAMILIES = 0.5, 2.0
_SPREAD_BOUNDS = (0.12, 1.5)


def defaults(operator: str) -> Parameters:
    """The default constants of a class, before any fit."""
    kind = CLASSES[operator]
    return kind(**{constant.name: constant.default for constant in describe(kind)})


def fit_own(
    sample: SplitSeries, starts: Sequence[Parameters], fixed: Collection[str] = ()
) -> FittedParameters:
    """Constants of one device, fitted to its training shapes; the best of several starts.

    fixed: constants that stay as each start has them.
    """
    points = sample.points(sample.train)
    spread = dict.fromkeys((c.name for c in describe(type(starts[0]))), _OWN_SPREAD)
    fits = [
        fit(points, sample.system, start, spread=spread, prior=True, fixed=fixed)
        for start in starts
    ]
    return min(fits, key=lambda solution: solution.cost)


def with_kins_groups(
    pool: Sequence[SplitSeries], own: Mapping[str, Parameters]
) -> dict[str, Parameters]:
    """Constants of collectives, with missing group sizes filled in from the device's family.

    For a group size that was not measured on a device, the share of the link that its largest
    measured group reaches is multiplied by the ratio of the two sizes on devices of the family that
    have both (median); without such a device it is kept.

    pool: series of one operation.  own: fitted constants by device.
    """
    if pool[0].series.operator != "collective":
        return dict(own)
    largest = {s.series.device: int(s.series.table["group"].max()) for s in pool}
    families = {s.series.device: s.family for s in pool}
    whole = dict(own)
    for device, constants in own.items():
        if not isinstance(constants, CollectiveParameters):
            continue
        kin = [o for o in own if families[o] == families[device] and o != device]
        for size in (4, 8):
            have = [o for o in kin if largest[o] >= size]
            if largest[device] >= size or not have:
                continue
            smaller, missing = f"efficiency_{size // 2}", f"efficiency_{size}"
            steps = [getattr(own[o], missing) / getattr(own[o], smaller) for o in have]
            value = getattr(constants, smaller) * float(np.median(steps))
            constants = replace(constants, **{missing: value})
        whole[device] = constants
    return whole


def fit_typical(
    pool: Sequence[SplitSeries], starts: Sequence[Parameters], pole: float | None = None
) -> Parameters:
    """One set of constants for several devices, with the same weight for each family.

    Args:
        pool: series of one class and format.
        starts: first guesses; the best fit counts.
        pole: place on the scale of `position`; the weight of devices declines with their
            distance from it.
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


def fit_poles(pool: Sequence[SplitSeries], starts: Sequence[Parameters]) -> dict[str, Parameters]:
    """{pole: typical constants} at the narrow and the wide end of the scale."""
    return {
        name: fit_typical(pool, starts, pole)
        for name, pole in POLES[pool[0].series.operator].items()
    }


def _weights(pool: Sequence[SplitSeries], pole: float | None) -> list[float]:
    """Weight of each series, [pool]: families count equally, devices far from `pole` count less.

    pole: a position on the scale between narrow and wide devices, None for equal weights.
    """
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


def _few(sample: SplitSeries) -> pd.DataFrame:
    """At most `_POOL_POINTS` training rows of a series."""
    rng = np.random.default_rng(1)
    rows = sample.train
    if len(rows) <= _POOL_POINTS:
        return rows
    return rows.iloc[np.sort(rng.choice(len(rows), _POOL_POINTS, replace=False))]


def spread_over_families(
    typical: Parameters, pool: Sequence[SplitSeries], own: Mapping[str, Parameters]
) -> dict[str, float]:
    """{constant: standard deviation of its logarithm over families, around the typical value}.

    A prior of 0.5 counts as two additional families.
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
