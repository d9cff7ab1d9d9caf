"""Corrections from the nearest measured runs: a Gaussian process on ln(measured / predicted).

Physics says how a figure moves with loads, lengths and degrees; what it misses of one engine with
one model (kernels that fit its shapes badly, versions, flags) is alike in runs that are alike.  The
residuals of two runs of one engine and model are correlated by what else they share, and by how
near their loads, lengths and degrees lie::

    k(a, b) = sum_i v_i [same_i(a, b)] + m(|x_a - x_b|) sum_j w_j [same_j(a, b)],
    m(d) = (1 + sqrt(3) d) exp(-sqrt(3) d),  x = ln(isl, osl, concurrency, tp, pp, dp, ep) / lengths

so that a prediction is corrected by its neighbours, each by its weight, and fades to physics where
there are none.  A run beside its neighbours weighs less: noise is Student's t, by the weights of
`genz_core.engine_calibration`.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), 2.2 and 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from genz_core.types import Array, Mask

#: Sizes that runs lie near in, by their logarithms.
SIZES = ("isl", "osl", "concurrency", "tp", "pp", "dp", "ep")
#: Facts that two runs of one engine and model share, each with a constant of the residual.
SHARED: Mapping[str, tuple[str, ...]] = {
    "model": (),
    "format": ("weights",),
    "family": ("family",),
    "system": ("system",),
    "recipe": ("weights", "system", "drafts"),
    "version": ("version",),
    "release": ("weights", "system", "version"),
}
#: Those of `SHARED` within which near sizes have near residuals.
NEAR = ("model", "family", "recipe", "release")
#: Largest residual of a figure that a run may tell: beyond, something else ran than is described.
MOST: Mapping[str, float] = {"tpot_s": float(np.log(2.0)), "ttft_s": float(np.log(4.0))}
FREEDOM = 4.0  # degrees of Student's t
_ROUNDS = 5  # of weights
_AT_ONCE = 4096  # configurations whose neighbours are compared in one array


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What tells runs of one engine and model apart, in words.

    weights: format.  system: slug; family: of silicon.  version: of the engine, "" where it is not
    known, which is like no other.  drafts: tokens drafted in a step, "" for none.
    """

    weights: str
    system: str
    family: str = ""
    version: str = ""
    drafts: str = ""

    def key(self, shared: str, alone: int) -> tuple[str, ...]:
        """What an entry of `SHARED` compares; of its own, number `alone`, without a version."""
        names = SHARED[shared]
        if "version" in names and not self.version:
            return (str(alone),)
        return tuple(getattr(self, name) for name in names)


@dataclass(frozen=True, slots=True)
class Kernel:
    """How residuals of a figure spread, and how near is near.

    constant, near: standard deviations by name of `SHARED` and of `NEAR`.  lengths: distances
    between logarithms, of each of `SIZES`, that count as one.  noise: of one run.
    """

    constant: Mapping[str, float]
    near: Mapping[str, float]
    lengths: tuple[float, ...]
    noise: float

    @property
    def variance(self) -> float:
        """Of a residual of which nothing is known, without its noise."""
        return sum(sd**2 for sd in (*self.constant.values(), *self.near.values()))

    def covariance(self, shared: Mapping[str, Mask], one: Array, other: Array) -> Array:
        """Between residuals at sizes `one` [m, sizes] and `other` [n, sizes], [m, n].

        shared: which pairs share what, by name of `SHARED`, [m, n] or to be broadcast.
        """
        one, other = (sizes / np.asarray(self.lengths) for sizes in (one, other))
        squares = (one**2).sum(1)[:, None] + (other**2).sum(1)[None, :] - 2.0 * one @ other.T
        distance = np.sqrt(3.0 * np.maximum(squares, 0.0))
        fading = (1.0 + distance) * np.exp(-distance)
        flat = sum(sd**2 * shared[name] for name, sd in self.constant.items())
        return np.asarray(flat + fading * sum(sd**2 * shared[n] for n, sd in self.near.items()))


@dataclass(frozen=True, slots=True)
class Correction:
    """What neighbours say of a figure: logs to add to ln(predicted), [configs].

    novelty: standard deviation of what remains, over that where no run is near, both with noise:
    1 where nothing near was measured.  weights: of each run's residual in the correction,
    [configs, runs].
    """

    log: Array
    novelty: Array
    weights: Array


@dataclass(frozen=True)
class MeasuredRuns:
    """Runs of one engine with one model, and what the physics missed of them.

    Hold and share it: what is solved once is kept with it.

    names: of the runs.  facts: [runs].  sizes: logarithms of `SIZES`, [runs, sizes].
    logs: ln(measured / predicted) by figure, NaN where a run has none, [runs].
    kernels: by figure.
    """

    names: tuple[str, ...]
    facts: tuple[RunFacts, ...]
    sizes: Array
    logs: Mapping[str, Array]
    kernels: Mapping[str, Kernel]

    def picked(self, chosen: Mask) -> MeasuredRuns:
        """Some of the runs."""
        at = np.flatnonzero(chosen)
        return replace(
            self,
            names=tuple(self.names[i] for i in at),
            facts=tuple(self.facts[i] for i in at),
            sizes=self.sizes[at],
            logs={figure: logs[at] for figure, logs in self.logs.items()},
        )

    def count(self, facts: RunFacts) -> int:
        """Runs with the same weights on the same system."""
        alike = facts.weights, facts.system
        return sum((run.weights, run.system) == alike for run in self.facts)

    def correction(self, figure: str, facts: RunFacts, sizes: Array) -> Correction:
        """The correction of a figure ("tpot_s", "ttft_s") at sizes, [configs, sizes].

        Sizes beyond all runs count as the largest or smallest of theirs: trends are not continued.
        The novelty counts them as they are, so it grows with the distance from all runs.
        Drafts that no run has count as none: their steps are priced, and otherwise alike.
        """
        asked = np.log(sizes)
        logs = np.clip(asked, self.sizes.min(0), self.sizes.max(0))
        found = self._correction(figure, facts, logs)
        if np.array_equal(logs, asked):
            return found
        return replace(found, novelty=self._correction(figure, facts, asked).novelty)

    def _correction(self, figure: str, facts: RunFacts, logs: Array) -> Correction:
        """The correction at logarithms of sizes, [configs, sizes]."""
        if facts.drafts not in {run.drafts for run in self.facts}:
            facts = replace(facts, drafts="")
        parts = [
            self._corrected(figure, facts, logs[start : start + _AT_ONCE])
            for start in range(0, len(logs), _AT_ONCE)
        ]
        return Correction(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS)
        )

    def _corrected(self, figure: str, facts: RunFacts, sizes: Array) -> Correction:
        kernel, (inverse, residuals) = self.kernels[figure], self._solved[figure]
        shared = {
            name: np.array([run.key(name, at) == facts.key(name, -1) for at, run in self._numbered])
            for name in SHARED
        }
        near = kernel.covariance(shared, sizes, self.sizes) * np.isfinite(self.logs[figure])
        weights = near @ inverse
        left = kernel.variance - np.einsum("cr,cr->c", weights, near)
        noise, whole = kernel.noise**2, kernel.variance + kernel.noise**2
        novelty = np.sqrt((np.maximum(left, 0.0) + noise) / whole)
        return Correction(weights @ residuals, novelty, weights)

    @property
    def _numbered(self) -> Sequence[tuple[int, RunFacts]]:
        return list(enumerate(self.facts))

    @cached_property
    def shared(self) -> Mapping[str, Mask]:
        """Which pairs of runs share what, [runs, runs] by name of `SHARED`."""
        pairs = {}
        for name in SHARED:
            codes: dict[tuple[str, ...], int] = {}
            keys = [run.key(name, at) for at, run in self._numbered]
            code = np.array([codes.setdefault(key, len(codes)) for key in keys])
            pairs[name] = code[:, None] == code[None, :]
        return pairs

    @cached_property
    def _solved(self) -> Mapping[str, tuple[Array, Array]]:
        """Inverse covariance of the runs, noise included, and their residuals, by figure."""
        return {figure: self._solved_for(figure) for figure in self.logs}

    def weights(self, figure: str) -> Array:
        """Weight of each run's residual of a figure, by how it fits its neighbours, [runs]."""
        kernel, (signal, residuals) = self.kernels[figure], self._signal(figure)
        weights = np.ones(len(residuals))
        for _ in range(_ROUNDS):
            noisy = signal + np.diag(kernel.noise**2 / weights)
            missed = residuals - signal @ np.linalg.solve(noisy, residuals)
            weights = (FREEDOM + 1.0) / (FREEDOM + (missed / kernel.noise) ** 2)
        return weights

    def _solved_for(self, figure: str) -> tuple[Array, Array]:
        signal, residuals = self._signal(figure)
        noise = self.kernels[figure].noise ** 2 / self.weights(figure)
        return np.asarray(np.linalg.inv(signal + np.diag(noise)), dtype=float), residuals

    def _signal(self, figure: str) -> tuple[Array, Array]:
        """Covariance of the runs without noise, and their residuals, 0 where there is none."""
        known = np.isfinite(self.logs[figure])
        residuals = np.clip(np.where(known, self.logs[figure], 0.0), -MOST[figure], MOST[figure])
        signal = self.kernels[figure].covariance(self.shared, self.sizes, self.sizes)
        return signal * np.outer(known, known), residuals


_FIELDS = ("log", "novelty", "weights")
