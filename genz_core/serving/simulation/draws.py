"""Random draws for a simulation: lengths and arrival times of requests, speculation steps.

Every function takes a NumPy generator, so that the same seed gives the same requests.
"""

from __future__ import annotations

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.models.acceptance import Acceptance
from genz_core.serving.load_checks import whole_lengths
from genz_core.types import Array

_HOUR_S = 3600.0

Generator = np.random.Generator


def uniform_lengths(count: int, nominal: float, ratio: float, generator: Generator) -> Array:
    """Whole numbers of tokens, uniform in [ratio, 1] of the nominal length, at least one.

    A ratio of 1 gives a fixed length; public serving benchmarks use 0.8.
    """
    least, most = whole_lengths(nominal, ratio)
    return generator.integers(int(least), int(most) + 1, count).astype(float)


def lognormal_lengths(count: int, mean: float, spread: float, generator: Generator) -> Array:
    """Whole numbers of tokens from a lognormal distribution with this mean, at least one.

    spread: standard deviation of the length over its mean.
    """
    return np.maximum(np.round(lognormal(count, mean, spread, generator)), 1.0)


def lognormal(count: int, mean: float, spread: float, generator: Generator) -> Array:
    """Draws from a lognormal distribution.  spread: standard deviation over the mean."""
    sigma = np.sqrt(np.log1p(spread**2))
    return generator.lognormal(np.log(mean) - sigma**2 / 2.0, sigma, count)


def resampled(count: int, lengths: Array, generator: Generator) -> Array:
    """Rows of measured lengths, drawn with replacement: [rows] or [rows, columns]."""
    return np.asarray(lengths)[generator.integers(0, len(lengths), count)]


def bursty_arrivals(
    count: int, rate_per_s: float, burstiness: float, generator: Generator
) -> Array:
    """Arrival times [s] with gamma-distributed gaps.

    burstiness: shape of the gamma distribution; 1 is Poisson, less is burstier, more is more even.
     It is the `--burstiness` of vLLM's benchmark.
    """
    _above_zero("rate_per_s", rate_per_s)
    _above_zero("burstiness", burstiness)
    return np.cumsum(generator.gamma(burstiness, 1.0 / (burstiness * rate_per_s), count))


def ramping_arrivals(
    count: int, from_per_s: float, to_per_s: float, seconds: float, generator: Generator
) -> Array:
    """Arrival times [s] of a Poisson process whose rate ramps linearly, then stays.

    A Poisson process of rate 1 is stretched by the inverse of the ramp's integral.
    """
    for name, value in (("from_per_s", from_per_s), ("to_per_s", to_per_s), ("seconds", seconds)):
        _above_zero(name, value)
    events = np.cumsum(generator.exponential(1.0, count))
    slope = (to_per_s - from_per_s) / seconds
    total = (from_per_s + to_per_s) / 2.0 * seconds
    inside = np.minimum(events, total)
    if slope:
        times = (np.sqrt(from_per_s**2 + 2.0 * slope * inside) - from_per_s) / slope
    else:
        times = inside / from_per_s
    return np.asarray(times + np.maximum(events - total, 0.0) / to_per_s)


def hourly_arrivals(
    count: int,
    per_s: Array,
    burstiness: float,
    generator: Generator,
    *,
    one_day: bool = False,
) -> Array:
    """Arrival times [s] of a process whose rate varies over a day, in order.

    per_s: mean rates of equal hours, applied at their middles; the rate is linear in between, and
    the day repeats after the last hour.  Arrivals at rate 1 (see `bursty_arrivals`) are stretched
    by the inverse of the rate's integral.

    one_day: all arrivals fall within one day, whatever their number.
    """
    rates = np.asarray(per_s, dtype=float)
    _above_zero("the busiest rate", float(rates.max(initial=0.0)))
    _above_zero("burstiness", burstiness)
    events = np.cumsum(generator.gamma(burstiness, 1.0 / burstiness, count + 1))
    edges = (rates + np.roll(rates, 1)) / 2.0  # at the start of each hour
    values = np.column_stack([edges, rates]).ravel()
    halves = np.append((values[:-1] + values[1:]) / 2.0, (values[-1] + values[0]) / 2.0)
    ends = np.concatenate([[0.0], np.cumsum(halves * _HOUR_S / 2.0)])
    if one_day:
        events *= ends[-1] / events[-1]
    days, events = np.divmod(events[:count], ends[-1])
    at = np.minimum(np.searchsorted(ends, events, side="right") - 1, len(values) - 1)
    low, high = values[at], np.roll(values, -1)[at]
    slope, area = (high - low) / (_HOUR_S / 2.0), events - ends[at]
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.maximum(low**2 + 2.0 * slope * area, 0.0))
        inside = np.where(low + root > 0.0, 2.0 * area / (low + root), 0.0)
    within = at * (_HOUR_S / 2.0) + np.minimum(inside, _HOUR_S / 2.0)
    return np.asarray(within + days * len(rates) * _HOUR_S)


def decode_steps(tokens: Array, acceptance: Acceptance, generator: Generator) -> Array:
    """Number of decode steps of each sequence for its tokens, with randomly accepted drafts,
    [sequences].

    A sequence that lacks n tokens needs at least n / (1 + k) more steps with drafts of k tokens, so
    that number of steps is drawn at once, as counts of a multinomial; the remaining tokens are
    drawn again.  The result has the same distribution as steps drawn one by one, in a few array
    calls.
    """
    chances = np.maximum(acceptance.probabilities, 0.0)
    chances = chances / chances.sum()
    yields = np.arange(1, len(chances) + 1)
    left = np.asarray(tokens, dtype=int).copy()
    steps = np.zeros(len(left), dtype=int)
    open_rows = np.flatnonzero(left > 0)
    while open_rows.size:
        surely = -(-left[open_rows] // len(chances))
        steps[open_rows] += surely
        left[open_rows] -= generator.multinomial(surely, chances) @ yields
        open_rows = open_rows[left[open_rows] > 0]
    return steps


def _above_zero(name: str, value: float) -> None:
    if not value > 0:
        raise InvalidValue(f"{name} = {value:g}: give a number above 0")
