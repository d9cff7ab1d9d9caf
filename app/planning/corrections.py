"""What a candidate's simulation says of the other candidates of its family, as ratios to the closed
form.
"""

import numpy as np
from numpy.typing import ArrayLike

from app.planning.candidates import Candidates
from app.planning.percentiles import Simulated
from app.planning.search import Found
from genz_core.serving.traffic import OVERLOADED
from genz_core.types import Array

#: Smallest ratio of a simulated latency to the corrected one that is considered possible.
_CLOSE = 0.95
_MOST_CARRIED = 1.5  # least ratio to the closed form for less busy candidates of a simulated family


class Corrections:
    """Ratios of simulated to closed-form figures, by family and load."""

    def __init__(self, found: Found) -> None:
        self._found = found
        #: {(family, column): {use: simulated over closed form}} of its simulations.
        self._scale: dict[tuple[int, str], dict[float, float]] = {}
        #: {family: least use at which a simulation did not sustain the load}.
        self._overloaded: dict[int, float] = {}

    def learn(self, at: int, outcome: Simulated) -> None:
        """Note the simulation of a candidate."""
        candidates = self._found.candidates
        family, use = int(candidates.family[at]), float(candidates.busy[at])
        for name, value in outcome.figures.items():
            if np.isfinite(value):
                ratio = value / candidates.columns[name][at]
                self._scale.setdefault((family, name), {})[use] = ratio
        if not outcome.sustained:
            self._overloaded[family] = min(use, self._overloaded.get(family, np.inf))

    def allow(self, at: int) -> bool:
        """Whether a candidate may meet the targets, given the simulations of its family."""
        columns, family = self._found.candidates.columns, int(self._found.candidates.family[at])
        use = self._found.candidates.busy[at]
        if use >= self._overloaded.get(family, np.inf):
            return False
        for target in self._found.targets:
            column = target.figure.column
            if target.figure.latency and (family, column) in self._scale:
                factor = float(self._factor(family, column, use))
                if columns[column][at] * factor * _CLOSE > target.value:
                    return False
        return True

    def apply(self, candidates: Candidates, known: list[int]) -> None:
        """Correct every candidate in place, without those that are known from their own
        simulation.
        """
        others = ~np.isin(np.arange(len(candidates)), known)
        for family, column in self._scale:
            rest = (candidates.family == family) & others
            candidates.columns[column][rest] *= self._factor(family, column, candidates.busy[rest])
        for family, use in self._overloaded.items():
            rest = (candidates.family == family) & (candidates.status == "ok")
            candidates.status[rest & (candidates.busy >= use)] = OVERLOADED

    def _factor(self, family: int, column: str, use: ArrayLike) -> Array:
        """Simulated over closed-form value of a figure in a family's simulations, at each load
        (`Candidates.busy`).

        The ratio is that of the busiest simulation that is no busier; candidates less busy than all
        simulated ones get at most a part of it.
        """
        uses, factors = np.array(sorted(self._scale[family, column].items())).T
        place = np.searchsorted(uses, use, side="right")
        least = min(factors[0], _MOST_CARRIED)
        return np.where(place > 0, factors[np.maximum(place - 1, 0)], least)
