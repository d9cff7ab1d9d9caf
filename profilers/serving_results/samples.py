"""Distributions of samples: exact for up to a million of them, from a fine histogram beyond."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profilers.serving_results.fields import LARGEST
from profilers.serving_results.measurement import Percentiles

PERCENTS = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
_MOST_EXACT = 1_000_000
#: Buckets of the histogram: 0.5 % wide from 100 ns to 30 hours.
_LEAST, _STEP, _BUCKETS = 1e-7, math.log(1.005), 5600


def distribution(values: Any) -> Percentiles:
    """Mean, standard deviation and percentiles of numbers, NaN left out; percentiles are
    interpolated linearly, as in NumPy.
    """
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[np.abs(known) < LARGEST]
    if not known.size:
        return Percentiles()
    at = dict(zip(PERCENTS, np.percentile(known, PERCENTS).tolist(), strict=True))
    return Percentiles(
        float(known.mean()), float(known.std()), float(known.min()), float(known.max()), at,
        int(known.size),
    )  # fmt: skip


class Samples:
    """Numbers that arrive one by one or in groups, in bounded memory."""

    def __init__(self, most_exact: int = _MOST_EXACT) -> None:
        self._exact: array[float] | None = array("d")
        self._most = most_exact
        self._histogram = np.zeros(_BUCKETS, np.int64)
        self._count, self._sum, self._squares = 0, 0.0, 0.0
        self._least, self._greatest = math.inf, -math.inf

    @property
    def exact(self) -> bool:
        """Whether all samples are kept."""
        return self._exact is not None

    def add(self, values: Any) -> None:
        """Add samples; NaN is left out."""
        new = np.atleast_1d(np.array(values, dtype=np.float64))
        new = new[np.abs(new) < LARGEST]
        if not new.size:
            return
        if self._exact is not None:
            self._exact.frombytes(new.tobytes())
            if len(self._exact) <= self._most:
                return
            new, self._exact = np.asarray(self._exact, dtype=np.float64), None
        self._fold(new)

    def _fold(self, new: NDArray[np.float64]) -> None:
        places = np.log(np.maximum(new, _LEAST) / _LEAST) / _STEP
        codes = np.clip(places.astype(np.int64), 0, _BUCKETS - 1)
        self._histogram += np.bincount(codes, minlength=_BUCKETS)
        self._count += int(new.size)
        self._sum += float(new.sum())
        self._squares += float((new * new).sum())
        self._least = min(self._least, float(new.min()))
        self._greatest = max(self._greatest, float(new.max()))

    def percentiles(self) -> Percentiles:
        """The distribution so far; beyond a million samples percentiles are within 0.5 %."""
        if self._exact is not None:
            return distribution(self._exact)
        mean = self._sum / self._count
        spread = math.sqrt(max(self._squares / self._count - mean * mean, 0.0))
        ends = np.cumsum(self._histogram)
        wanted = np.array(PERCENTS) / 100 * self._count
        middle = _LEAST * np.exp((np.searchsorted(ends, wanted) + 0.5) * _STEP)
        values = np.clip(middle, self._least, self._greatest).tolist()
        at = dict(zip(PERCENTS, values, strict=True))
        return Percentiles(mean, spread, self._least, self._greatest, at, self._count)
