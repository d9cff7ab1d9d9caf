"""What the measured runs of a server imply for settings that were not run.

ln(measured / predicted) of a figure is a Gaussian process over the settings, with the standard
deviation of the prediction's interval at each.  Most of a prediction's error is common to all
settings of one server (the constants of its machine); the rest becomes independent with the
distance between settings.  So one run corrects all settings, and its neighbours most::

    cov(i, j) = a^2 s_i s_j (r + (1 - r) k(|x_i - x_j| / l))  + n^2 [i = j]

k is the Matern covariance of degree 5/2; a, r, l and the noise n of one run are averaged over a
small grid, weighted by likelihood.  Differences between runs of one setting can only be noise, so
repeats determine most of n; `noise` computes it from repeats alone.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), ch. 2, 4.2, 5.4.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.tuning.outcome import Outcome
from app.tuning.space import Space
from genz_core.types import Array

#: Candidate standard deviations of ln of a figure between two runs of one setting; the middle one
#: is the most likely before any run.  The figures are judgement.
_NOISES = (0.005, 0.02, 0.08)
#: Candidate values of the common share, the distance scale and the deviation scale.
_SHARED, _LENGTHS, _SCALES = (0.5, 0.8, 0.95), (0.5, 1.0, 2.0), (0.5, 1.0, 2.0)
#: Standard deviation of ln of the scales around 1 before any run, and of ln of the noise around its
#: middle value.
_ABOUT_ONE, _ABOUT_MIDDLE = 0.5, 1.0


@dataclass(frozen=True, slots=True)
class Belief:
    """A figure of every setting given the runs: mean and deviation of its ln, [settings]."""

    log: Array
    deviation: Array


def beliefs(space: Space, runs: Sequence[tuple[int, Outcome]]) -> dict[str, Belief]:
    """The belief about every figure that the goal and the targets use.

    runs: index of the setting and outcome of each run.
    """
    figures = {one.name: one for one in (space.goal, *(t.figure for t in space.targets))}
    found = {}
    for name, one in figures.items():
        values = [(at, outcome.value(one)) for at, outcome in runs]
        known = [(at, float(np.log(v))) for at, v in values if np.isfinite(v) and v > 0]
        found[name] = _belief(space, name, known)
    return found


def _belief(space: Space, name: str, known: Sequence[tuple[int, float]]) -> Belief:
    expected = space.expected[name]
    priced = np.isfinite(expected.log)
    start = np.where(priced, expected.log, np.mean(expected.log[priced]) if priced.any() else 0.0)
    if not known:
        return Belief(start, expected.deviation)
    at = np.array([place for place, _ in known])
    missed = np.array([log for _, log in known]) - start[at]
    distance = _distances(space.features, space.features[at])
    likely, logs, variances = [], [], []
    middle = _NOISES[len(_NOISES) // 2]
    for shared, length, scale, noise in itertools.product(_SHARED, _LENGTHS, _SCALES, _NOISES):
        factor = shared + (1.0 - shared) * _near(distance / length)
        covariance = scale**2 * expected.deviation[:, None] * expected.deviation[at] * factor
        lower = np.linalg.cholesky(covariance[at] + noise**2 * np.eye(len(at)))
        white = np.linalg.solve(lower, missed)
        half = np.linalg.solve(lower, covariance.T)
        about = (np.log([scale, length]) / _ABOUT_ONE) ** 2
        off = about.sum() + (np.log(noise / middle) / _ABOUT_MIDDLE) ** 2
        likely.append(-0.5 * (white @ white + off) - np.log(np.diag(lower)).sum())
        logs.append(half.T @ white)
        variances.append(np.maximum((scale * expected.deviation) ** 2 - (half**2).sum(0), 0.0))
    weights = np.exp(np.array(likely) - max(likely))
    weights /= weights.sum()
    mean = weights @ np.array(logs)
    variance = weights @ (np.array(variances) + (np.array(logs) - mean) ** 2)
    return Belief(start + mean, np.sqrt(variance))


def noise(space: Space, runs: Sequence[tuple[int, Outcome]]) -> float:
    """Standard deviation of ln of the goal between runs of one setting; NaN without repeats."""
    logs: dict[int, list[float]] = {}
    for at, outcome in runs:
        value = outcome.value(space.goal)
        if np.isfinite(value) and value > 0:
            logs.setdefault(at, []).append(float(np.log(value)))
    several = [np.array(one) for one in logs.values() if len(one) > 1]
    if not several:
        return float("nan")
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in several)
    return float(np.sqrt(squares / sum(len(one) - 1 for one in several)))


def starts(space: Space, runs: Sequence[tuple[int, Outcome]]) -> Array:
    """The probability that the server of a setting starts and keeps running, [settings].

    A failure lowers the probability of neighbouring settings by distance; without any failure all
    settings are taken to run, as predicted.
    """
    tried = [(at, outcome.status) for at, outcome in runs if outcome.status in _TELLS]
    if not any(status == "failed" for _, status in tried):
        return np.ones(len(space.settings))
    at = np.array([place for place, _ in tried])
    ran = np.array([status != "failed" for _, status in tried], dtype=float)
    near = _near(_distances(space.features, space.features[at]))
    return np.asarray((1.0 + near @ ran) / (1.0 + near.sum(1)))


_TELLS = ("measured", "contradicts", "failed")


def _distances(one: Array, other: Array) -> Array:
    return np.sqrt(((one[:, None, :] - other[None, :, :]) ** 2).sum(2))


def _near(distance: Array) -> Array:
    """Matern covariance of degree 5/2."""
    scaled = np.sqrt(5.0) * distance
    return np.asarray((1.0 + scaled + scaled**2 / 3.0) * np.exp(-scaled))
