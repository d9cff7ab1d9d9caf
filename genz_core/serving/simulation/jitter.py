"""Random jitter of a server: steps, and deliveries of tokens, take a little more or less time.

The two shares are an engine's (`EngineProfile.step_jitter`, `.delivery_jitter`), fitted on measured
gaps between tokens by `profilers.timeline.token_gaps`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from genz_core.types import Array

_DRAWS = 4096  # random numbers drawn at a time


class Jitter:
    """Jitter of one server, drawn from one generator.

    step: standard deviation of a step's time over its mean.  A step is multiplied by a lognormal
    of mean one.  delivery: standard deviation of the time that tokens take to a client, over the
    time of their step; exponential, because a delivery has a least time.
    """

    def __init__(self, step: float, delivery: float, generator: np.random.Generator) -> None:
        self.step = step
        self.delivery = delivery
        self._sigma2 = math.log1p(step**2)
        self._generator = generator
        self._normals: list[float] = []
        self._waits: list[float] = []

    def factor(self, steps: int) -> float:
        """Mean time of several consecutive steps relative to the mean of all steps: one on
        average.
        """
        if not self._sigma2:
            return 1.0
        if not self._normals:
            self._normals = self._generator.standard_normal(_DRAWS).tolist()
        sigma2 = self._sigma2 / steps
        return math.exp(math.sqrt(sigma2) * self._normals.pop() - sigma2 / 2.0)

    def late_s(self, step_s: float) -> float:
        """Delay of a step's tokens at a client, relative to the average delay [s]."""
        if not self.delivery:
            return 0.0
        if not self._waits:
            self._waits = self._generator.standard_exponential(_DRAWS).tolist()
        return self.delivery * step_s * (self._waits.pop() - 1.0)

    def of_gaps(self, width: float) -> tuple[Array, Array]:
        """How gaps of one length are distributed, in classes of `width` of their logarithm, [2, 2n
        + 1].

        The first row is for gaps after steps whose times were drawn individually; the second for
        gaps after steps drawn together, each of which still jitters.  Shares sum to one; the middle
        class means no change.  The difference of two waits has a Laplace distribution.
        """
        waits = step = np.ones(1)
        if self.delivery:
            waits = _classes(_laplace(self.delivery), 25.0 * self.delivery, width)
        if self._sigma2:
            step = _classes(_lognormal(self._sigma2), 8.0 * math.sqrt(self._sigma2), width)
        return np.pad(waits, len(step) // 2), np.convolve(waits, step)


def _laplace(scale: float) -> Callable[[Array], Array]:
    """Distribution function of the difference of two exponentials with equal means."""

    def below(x: Array) -> Array:
        tail = np.exp(-np.abs(x) / scale) / 2.0
        return np.where(x < 0, tail, 1.0 - tail)

    return below


def _lognormal(sigma2: float) -> Callable[[Array], Array]:
    """Distribution function of the logarithm of a lognormal with mean one."""

    def below(x: Array) -> Array:
        scaled = (x + sigma2 / 2.0) / math.sqrt(2.0 * sigma2)
        return np.array([math.erfc(-value) / 2.0 for value in scaled.tolist()])

    return below


def _classes(below: Callable[[Array], Array], reach: float, width: float) -> Array:
    """Shares of a distribution in classes around zero.  below: its distribution function."""
    most = math.ceil(reach / width)
    edges = np.array([(at - 0.5) * width for at in range(-most, most + 2)])
    shares = np.diff(below(edges))
    return np.asarray(shares / shares.sum())
