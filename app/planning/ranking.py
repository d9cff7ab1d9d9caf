"""The order of the candidates that meet every target, and how close the others are."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.planning.candidates import CHOICES, Candidates
from app.planning.targets import Figure, Target, figure
from app.wording.quantities import SURE as SHOWN
from genz_core.types import Array, Mask

Order = NDArray[np.intp]
#: Choices that do not make a deployment a different entry in a list of plans.
_SAME = tuple(name for name in CHOICES if name != "max_num_seqs")
#: Least probability for targets on percentiles without a simulation, derived from intervals.
SURE = 0.8
#: Probability assumed without validation, and the least probability that divides a cost; judgement,
#: both.
_EVEN, _LEAST_CHANCE = 0.5, 1e-3
#: Tolerance when checking figures against the bound, for sums in another order.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Ranking:
    """How candidates are chosen.

    by: the figure that orders them.  targets: candidates must meet all.  confidence: least
    probability of meeting them, 0 to accept candidates without validation.  expected: rank by the
    expected figure, see `worth`.

    The closed form has no percentiles: a target on one counts as met where the probability that all
    are met is at least `confidence` (`SURE` if none is given), or where a simulation shows it.
    """

    by: Figure
    targets: tuple[Target, ...] = ()
    confidence: float = 0.0
    expected: bool = True

    def worth(self, candidates: Candidates, probability: Array) -> Array:
        """The expected figure, smaller is better, [candidates].

        A deployment that costs one dollar and meets the targets half of the time costs two dollars
        each time it does; of its throughput, half can be expected.  Latencies are unchanged, and so
        is everything without targets.  An unknown probability is taken as one half, any above
        `SHOWN` as `SHOWN`.
        """
        return self.expectation(candidates.columns[self.by.column], probability)

    def expectation(self, value: Array, probability: Array) -> Array:
        """The expected value as in `worth`, for values of the figure."""
        sign = 1.0 if self.by.smaller else -1.0
        if not (self.expected and self.targets) or self.by.latency:
            return value * sign
        chance = np.clip(np.nan_to_num(probability, nan=_EVEN), _LEAST_CHANCE, SHOWN)
        return value / chance if self.by.smaller else -value * chance

    def sound(self, candidates: Candidates) -> Mask:
        """Whether each can run: it fits, sustains the load, and is not faster than the bound."""
        columns = candidates.columns
        with np.errstate(invalid="ignore"):
            within = columns["ttft_s"] >= columns["bound_ttft_s"] * (1.0 - _ROUNDING)
            # no TPOT and no bound of it where an answer has one token
            within &= ~(columns["tpot_s"] < columns["bound_tpot_s"] * (1.0 - _ROUNDING))
        return (candidates.status == "ok") & within

    def feasible(self, candidates: Candidates, probability: Array) -> Mask:
        """Whether each can run and meets every target with the required confidence."""
        least = self.confidence or (SURE if self._on_percentiles else 0.0)
        return self._meets(candidates) & (np.nan_to_num(probability, nan=0.0) >= least)

    def undecided(self, candidates: Candidates, probability: Array) -> Mask:
        """Whether only a simulation tells: no target is missed by the figures, one is on a
        percentile, and no measurement validates the figures.
        """
        asked = self._on_percentiles and not self.confidence
        return self._meets(candidates) & np.isnan(probability) & asked

    @property
    def _on_percentiles(self) -> bool:
        return any(target.figure.percentile for target in self.targets)

    def _meets(self, candidates: Candidates) -> Mask:
        """Whether each can run and its figures meet every target."""
        good = self.sound(candidates)
        for target in self.targets:
            good &= target.met(candidates.columns[target.figure.column])
        return good

    def order(
        self,
        candidates: Candidates,
        probability: Array,
        chosen: Mask,
        useful: Array | None = None,
    ) -> Order:
        """The chosen candidates, best first.

        Sorted by the expected figure, candidates without it last; then by devices, probability (all
        above `SHOWN` alike), those without a prefill pool first, E2E (what a user waits for in
        all), TPOT, TTFT, and by the deployment itself, so that the order is reproducible.

        useful: the probability by which figures are expected, `probability` by default.
        """
        at = np.flatnonzero(chosen)
        columns = candidates.columns
        value = self.worth(candidates, probability if useful is None else useful)[at]
        keys: list[NDArray[Any]] = [
            np.nan_to_num(value, nan=np.inf, posinf=np.inf),
            columns["devices"][at],
            -np.minimum(np.nan_to_num(probability[at], nan=0.0), SHOWN),
            np.nan_to_num(columns["prefill_workers"][at]) > 0.0,
            columns["e2e_s"][at],
            columns["tpot_s"][at],
            columns["ttft_s"][at],
            candidates.family[at],
            *(columns[name][at] for name in CHOICES),
        ]
        rounded = [_rounded(key) for key in keys]
        return at[np.lexsort(rounded[::-1])]

    def best_each(self, candidates: Candidates, order: Order) -> Order:
        """The order without deployments that differ from an earlier one only in their
        batch limit.
        """
        columns = [candidates.family[order], *(candidates.columns[n][order] for n in _SAME)]
        first = np.unique(np.stack(columns), axis=1, return_index=True)[1]
        return order[np.sort(first)]

    def slack(self, candidates: Candidates) -> Array:
        """The least slack over all targets, [candidates]; -inf for those that cannot run.

        See `Target.slack`: ln of the ratio by which the target is met.
        """
        least = np.full(len(candidates), np.inf)
        for target in self.targets:
            slack = target.slack(candidates.columns[target.figure.column])
            least = np.minimum(least, np.nan_to_num(slack, nan=-np.inf))
        return np.where(self.sound(candidates), least, -np.inf)


def ranking(
    candidates: Candidates, targets: tuple[Target, ...], by: str = "", confidence: float = 0.0
) -> Ranking:
    """The requested ranking: by a figure's name; "" for cost, or devices where there are no prices.

    Raises:
        InvalidValue: an unknown figure.
    """
    priced = any(family.system.price_usd_per_hour for family in candidates.families)
    return Ranking(figure(by or ("usd_per_mtok" if priced else "devices")), targets, confidence)


def _rounded(key: NDArray[Any]) -> Array:
    """A key rounded to ten digits, so that equal deployments compare equal whatever the order of
    summation.
    """
    values = np.asarray(key, dtype=float)
    finite = np.isfinite(values) & (values != 0.0)
    scale = np.ones_like(values)
    scale[finite] = 10.0 ** (9.0 - np.floor(np.log10(np.abs(values[finite]))))
    rounded = values.copy()
    rounded[finite] = np.round(values[finite] * scale[finite]) / scale[finite]
    return rounded
