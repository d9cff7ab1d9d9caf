"""How sure a simulated figure is, and whether a target is too close to it to decide.

A simulation draws some requests of an endless load, so its figures scatter around those of the
load.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.planning.targets import Target
from app.wording import quantities

#: Fewest and most batches of requests; more tell the error itself better, but depend on each other.
_BATCHES = (4, 10)
#: Two-sided 99 % points of Student's t by number of batches, with one degree of freedom less: a
#: plan compares some twenty simulations with its targets, so at 95 % one of them would mislead.
_STUDENT: Mapping[int, float] = {
    4: 5.841, 5: 4.604, 6: 4.032, 7: 3.707, 8: 3.499, 9: 3.355, 10: 3.250,
}  # fmt: skip
#: Factor on the requests where they leave a target undecided, and about the most that are
#: simulated: judgement.
_LONGER, _MOST = 4, 8000


def batches(span_s: float, lifetime_s: float) -> int:
    """Number of batches, each lasting about a request's lifetime or longer where there are enough.

    span_s: time in which requests arrive [s].  lifetime_s: mean duration of a request [s].
    """
    return int(np.clip(span_s / lifetime_s, *_BATCHES)) if lifetime_s > 0.0 else _BATCHES[1]


def relative_errors(
    figures: Callable[[NDArray[np.intp]], Mapping[str, float]], requests: int, count: int
) -> dict[str, float]:
    """Half the width of the 99 % interval of figures of successive requests, over the figures.

    The jackknife over batches: each is left out once, which for a mean is the error by batch means.
    Neighbours share queues, so they are left out together (Kuensch 1989,
    doi:10.1214/aos/1176347265).

    figures: {name: value} of the requests with the given numbers, in order of arrival.
    requests: their number.  count: number of batches.

    Returns:
        {name: error}; empty for fewer requests than twice the batches.
    """
    if requests < 2 * count:
        return {}
    order = np.arange(requests)
    without = [
        figures(np.setdiff1d(order, batch, assume_unique=True))
        for batch in np.array_split(order, count)
    ]
    return {name: _relative(np.array([one[name] for one in without])) for name in without[0]}


def _relative(values: NDArray[np.float64]) -> float:
    """The relative error of a figure from its values without each batch; 0 where it is unknown."""
    error = _STUDENT[len(values)] * np.sqrt((len(values) - 1) * np.var(values))
    return float(error / abs(values.mean())) if error > 0.0 else 0.0


def longer(times: int, requests: int) -> int:
    """The next multiple of a simulation's requests; 0 where it would be too many.

    times: the multiple so far.  requests: number that counted.
    """
    return times * _LONGER if requests * _LONGER <= _MOST else 0


def is_near(target: Target, value: float, error: float) -> bool:
    """Whether a target lies within the error of a figure.  error: relative."""
    return abs(value - target.value) < error * abs(value)


@dataclass(frozen=True, slots=True)
class Undecided:
    """A target within the error of a simulated figure.

    error: relative, of the value.  requests: number that counted.
    """

    target: Target
    value: float
    error: float
    requests: int

    @property
    def words(self) -> str:
        """The figure and the target, for a reader."""
        figure = self.target.figure
        here, limit = figure.apart(self.value, self.target.value)
        return (
            f"the simulation does not decide {figure.title}: {here} ± "
            f"{quantities.percent(self.error)} after {self.requests:,} requests, "
            f"against a target of {limit}"
        )
