"""Corrections of an engine's steps learned from measured runs: a Gaussian process over runs of a
model.

The analytical price says how a step's time changes with loads, lengths and degrees.  Its error for
one engine and model (kernels that suit the shapes badly, versions, flags) is similar in similar
runs. It is learned as two logarithms per run (`LATENTS`)::

    steps   measured over priced time of all its steps
    wait    of a first token, over what its steps explain

With these, the closed form reproduces the measured TTFT and TPOT (`genz_core.steps.step_correction`
applies them to a price).  The values of two runs are correlated by the facts that they share, and
by how near their loads, lengths and degrees are::

    k(a, b) = sum_i v_i [same_i(a, b)] + m(|x_a - x_b|) sum_j w_j [same_j(a, b)],
    m(d) = (1 + sqrt(3) d) exp(-sqrt(3) d),  x = ln(isl, osl, concurrency, tp, pp, dp, ep) / lengths

So a price is corrected by the weighted mean of its neighbours.  The correction fades where there
are no neighbours, and also beyond the longest prompt of all runs: by nine tenths within a factor of
ten.  Prompts shorter than those of all runs are corrected like the shortest of them: with a
correction that faded there, too, some prompts of 16 tokens took longer than those of 256.

Neither latent depends on the number of users or on the output length
(`app.engine_fit.neighbours`): near saturation the throughput is one over the scale of steps, so a
dependence would let more users lower the throughput or shorten TTFT; and for a single user TTFT
does not depend on the output length.  Instead, a correction becomes less certain beyond the largest
number of users and the longest output of all runs.

A run that differs from its neighbours has less weight: the noise is Student's t, with the weights
of `genz_core.calibration.engine_calibration`.  Runs whose uncorrected error exceeds `NEAR_PHYSICS`
correct only their own recipe and release, and only if most runs there have such errors: then they
share a cause of their own.  A single such run among others is ignored, and so is any run with an
error above `MOST`: it may not be the deployment described, and with such runs included the
predictions of every left-out device and release got worse.
Source: Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), 2.2 and 4.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from genz_core.types import Array, Mask, Num

#: Sizes, as logarithms, that define how near two runs are.
SIZES = ("isl", "osl", "concurrency", "tp", "pp", "dp", "ep")
#: Sizes beyond whose measured range a correction fades, and sizes beyond which it becomes
#: uncertain.
_FADING, _UNSURE = ("isl",), ("osl", "concurrency")
_PROMPT = SIZES.index("isl")
#: Quantities that are learned of a run.
LATENTS = ("steps", "wait")
#: Facts that two runs of one engine and model may share; each has a constant in the residual.
SHARED: Mapping[str, tuple[str, ...]] = {
    "model": (),
    "format": ("weights",),
    "family": ("family",),
    "system": ("system",),
    "recipe": ("weights", "system", "drafts"),
    "version": ("version",),
    "release": ("weights", "system", "version"),
}
#: Entries of `SHARED` within which near sizes have similar residuals.
NEAR = ("model", "family", "recipe", "release")
#: Largest ln(measured / physics) of the figures of a run that teaches, and the largest of each
#: latent that teaches other recipes and releases. Judgement: round figures, chosen by their results
#: on configurations, devices and releases left out of hardware_db/measurements.
MOST: Mapping[str, float] = {"tpot_s": float(np.log(2.5)), "ttft_s": float(np.log(2.5))}
NEAR_PHYSICS: Mapping[str, float] = {"steps": float(np.log(1.3)), "wait": float(np.log(1.5))}
#: standard deviation of the constant shared by runs that teach only their own recipe; judgement
_OWN = 0.5
FREEDOM = 4.0  # degrees of freedom of Student's t
_ROUNDS = 5  # of weights
_TENFOLD = float(np.log(10.0))
#: Pairs of a configuration and a run that are compared in one array, which fits in a second-level
#: cache.
_AT_ONCE = 2**15


@dataclass(frozen=True, slots=True)
class RunFacts:
    """Facts that distinguish runs of one engine and model, as texts.

    weights: format.  system: slug; family: of silicon.  version: of the engine, "" where it is not
    known, which equals no other.  drafts: tokens drafted in a step, "" for none.
    """

    weights: str
    system: str
    family: str = ""
    version: str = ""
    drafts: str = ""

    def key(self, shared: str, alone: int) -> tuple[str, ...]:
        """The text that an entry of `SHARED` compares; an unknown version gets the unique number
        `alone`.
        """
        names = SHARED[shared]
        if "version" in names and not self.version:
            return (str(alone),)
        return tuple(getattr(self, name) for name in names)


@dataclass(frozen=True, slots=True)
class Kernel:
    """How one of `LATENTS` varies over runs, and at what distance runs are near.

    constant, near: standard deviations by name of `SHARED` and of `NEAR`.  lengths: differences of
    logarithms, for each of `SIZES`, that count as distance one.  noise: of one run.
    """

    constant: Mapping[str, float]
    near: Mapping[str, float]
    lengths: tuple[float, ...]
    noise: float

    @property
    def variance(self) -> float:
        """Prior variance of a run, without its noise."""
        return sum(sd**2 for sd in (*self.constant.values(), *self.near.values()))

    def covariance(self, shared: Mapping[str, Mask], one: Array, other: Array) -> Array:
        """Covariance of runs of sizes `one` [m, sizes] and `other` [n, sizes], [m, n].

        shared: which pairs share which fact, by name of `SHARED`, [m, n] or broadcastable to it.
        """
        one, other = (sizes / np.asarray(self.lengths) for sizes in (one, other))
        fading = _faded(one, *_columns(other))
        fading *= sum(sd**2 * shared[name] for name, sd in self.near.items())
        fading += sum(sd**2 * shared[name] for name, sd in self.constant.items())
        return fading


def _columns(sizes: Array) -> tuple[Array, Array]:
    """Sizes [n, sizes] as columns [sizes, n], contiguous, and the sums of their squares [n]."""
    return np.ascontiguousarray(sizes.T), (sizes**2).sum(1)


def _faded(one: Array, other: Array, squares: Array) -> Array:
    """Decay m(d) between runs of sizes over lengths [m, sizes] and [sizes, n], [m, n].

    Equal rows give equal decays to the last bit, unlike a matrix product.
    squares: of `other`, summed, [n].
    """
    between = np.einsum("cs,sr->cr", one, other)
    between *= 2.0
    distance = np.einsum("cs,cs->c", one, one)[:, None] + squares
    distance -= between
    np.maximum(distance, 0.0, out=distance)
    distance *= 3.0
    np.sqrt(distance, out=distance)
    fading: Array = np.exp(np.negative(distance, out=between), out=between)
    distance += 1.0
    fading *= distance
    return fading


@dataclass(frozen=True, slots=True)
class Correction:
    """Estimate of one of `LATENTS` from neighbours, [configs].

    log: its expectation.  variance: of the remainder, including the noise of one run.  weights: of
    each run in the expectation, [configs, runs].
    """

    log: Array
    variance: Array
    weights: Array


@dataclass(frozen=True)
class MeasuredRuns:
    """Runs of one engine with one model, and the uncorrected error of each.

    Share one object between callers: it caches what it solves.

    names: of the runs.  facts: [runs].  sizes: logarithms of `SIZES`, [runs, sizes].
    latents: each of `LATENTS`, NaN if a run gives none, [runs].  kernels: of each.
    """

    names: tuple[str, ...]
    facts: tuple[RunFacts, ...]
    sizes: Array
    latents: Mapping[str, Array]
    kernels: Mapping[str, Kernel]

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what was solved from them would travel with every job and result."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def picked(self, chosen: Mask) -> MeasuredRuns:
        """A selection of the runs."""
        at = np.flatnonzero(chosen)
        return replace(
            self,
            names=tuple(self.names[i] for i in at),
            facts=tuple(self.facts[i] for i in at),
            sizes=self.sizes[at],
            latents={latent: logs[at] for latent, logs in self.latents.items()},
        )

    def count(self, facts: RunFacts) -> int:
        """Number of runs with the same weights on the same system."""
        alike = facts.weights, facts.system
        return sum((run.weights, run.system) == alike for run in self.facts)

    def expected(self, latent: str, facts: RunFacts, sizes: Array) -> Array:
        """Expectation of one of `LATENTS` at sizes [configs, sizes], as used in prices, [configs].

        A number of drafts that no run has counts as no drafts: the price already includes drafts,
        and such steps are otherwise alike.
        """
        near, alike = self._adds(latent, facts)
        lengths, runs, squares = self._scaled[latent]
        logs = self._nearest(np.log(sizes))
        scaled = logs / lengths
        parts = [
            np.einsum("cr,r->c", _faded(scaled[some], runs, squares), near)
            for some in self._pieces(len(logs))
        ]
        said = parts[0] if len(parts) == 1 else np.concatenate(parts)
        return np.asarray((said + alike) * self._beyond(logs, _FADING))

    def _pieces(self, configs: int) -> Iterator[slice]:
        """Slices of configurations that are compared with all runs at a time."""
        step = max(_AT_ONCE // len(self.names), 1)
        return (slice(start, start + step) for start in range(0, configs, step))

    def _adds(self, latent: str, facts: RunFacts) -> tuple[Array, float]:
        """Contribution of each run to an expectation through nearness [runs], and the constant
        contribution of all; cached.
        """
        if (latent, facts) not in self._added:
            near, alike = self._weights(latent, facts)
            solved = self._expecting[latent] * self._teaches[latent]
            self._added[latent, facts] = np.asarray(near * solved), float(np.sum(alike * solved))
        return self._added[latent, facts]

    def _weights(self, latent: str, facts: RunFacts) -> tuple[Array, Array]:
        """Weights of each run in the near part and in the constant part of the covariance, [runs]
        both; cached.
        """
        if (latent, facts) not in self._weighed:
            shared, kernel = self._shared_with(facts), self.kernels[latent]
            near = sum(sd**2 * shared[name] for name, sd in kernel.near.items())
            alike = sum(sd**2 * shared[name] for name, sd in kernel.constant.items())
            if facts in self._apart[latent]:
                alike = alike + _OWN**2 * self._of(frozenset([facts]))
            self._weighed[latent, facts] = np.asarray(near), np.asarray(alike)
        return self._weighed[latent, facts]

    @cached_property
    def _weighed(self) -> dict[tuple[str, RunFacts], tuple[Array, Array]]:
        return {}

    @cached_property
    def _scaled(self) -> Mapping[str, tuple[Array, Array, Array]]:
        """Lengths, and `_columns` of the sizes of the runs divided by them, by latent."""
        lengths = {latent: np.asarray(kernel.lengths) for latent, kernel in self.kernels.items()}
        scaled = {latent: self.sizes / length for latent, length in lengths.items()}
        return {at: (lengths[at], *_columns(sizes)) for at, sizes in scaled.items()}

    @cached_property
    def _added(self) -> dict[tuple[str, RunFacts], tuple[Array, float]]:
        return {}

    def correction(self, latent: str, facts: RunFacts, sizes: Array) -> Correction:
        """As `expected`, with its uncertainty and the runs that contribute."""
        pieces = self._pieces(len(sizes))
        logs = self._nearest(np.log(sizes))
        parts = [self._corrected(latent, facts, logs[some]) for some in pieces]
        return Correction(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in _FIELDS)
        )

    def _corrected(self, latent: str, facts: RunFacts, sizes: Array) -> Correction:
        kernel, (inverse, taught) = self.kernels[latent], self._solved[latent]
        near = self._near(latent, facts, sizes)
        weights = near @ inverse
        known = np.einsum("cr,cr->c", weights, near) * self._beyond(sizes, _UNSURE) ** 2
        left = self.variance(latent, facts) - kernel.noise**2 - known
        return Correction(weights @ taught, np.maximum(left, 0.0) + kernel.noise**2, weights)

    def _near(self, latent: str, facts: RunFacts, sizes: Array) -> Array:
        """Covariance with each run, 0 for runs that give no correction, [configs, runs]."""
        near, alike = self._weights(latent, facts)
        lengths, runs, squares = self._scaled[latent]
        found = _faded(sizes / lengths, runs, squares) * near + alike
        return found * self._teaches[latent] * self._beyond(sizes, _FADING)[:, None]

    def _shared_with(self, facts: RunFacts) -> Mapping[str, Mask]:
        """Which runs share which fact with a deployment, [runs] by name of `SHARED`; cached."""
        if facts not in self._asked:
            known = facts.drafts in {run.drafts for run in self.facts}
            alike = facts if known else replace(facts, drafts="")
            self._asked[facts] = {
                name: np.array(
                    [run.key(name, at) == alike.key(name, -1) for at, run in enumerate(self.facts)]
                )
                for name in SHARED
            }
        return self._asked[facts]

    @cached_property
    def _asked(self) -> dict[RunFacts, Mapping[str, Mask]]:
        return {}

    def _nearest(self, sizes: Array) -> Array:
        """Logarithms of sizes, with prompts no shorter than the shortest of all runs, [configs,
        sizes].
        """
        near = sizes.copy()
        near[:, _PROMPT] = np.maximum(sizes[:, _PROMPT], self._shortest)
        return near

    @cached_property
    def _shortest(self) -> float:
        return float(self.sizes[:, _PROMPT].min())

    def _beyond(self, sizes: Array, names: Sequence[str]) -> Array:
        """1 within the range of all runs, 0.1 at ten times the largest of a size, [configs].

        sizes: logarithms, [configs, sizes].  names: entries of `SIZES` whose range counts.
        """
        tenfolds: Num = 0.0
        for at in map(SIZES.index, names):
            over = np.maximum(sizes[:, at] - self._most[at], 0.0) / _TENFOLD
            tenfolds = tenfolds + over * over
        return np.asarray(10.0**-tenfolds)

    @cached_property
    def _most(self) -> list[float]:
        most: list[float] = self.sizes.max(0).tolist()
        return most

    @cached_property
    def shared(self) -> Mapping[str, Mask]:
        """Which pairs of runs share which fact, [runs, runs] by name of `SHARED`."""
        pairs = {}
        for name in SHARED:
            codes: dict[tuple[str, ...], int] = {}
            keys = [run.key(name, at) for at, run in enumerate(self.facts)]
            code = np.array([codes.setdefault(key, len(codes)) for key in keys])
            pairs[name] = code[:, None] == code[None, :]
        return pairs

    @cached_property
    def _solved(self) -> Mapping[str, tuple[Array, Array]]:
        """Inverse covariance of the runs with noise, and the correction from each, by latent."""
        return {latent: self._solved_for(latent) for latent in self.latents}

    def variance(self, latent: str, facts: RunFacts) -> float:
        """Prior variance of a run with these facts, with its noise."""
        kernel = self.kernels[latent]
        own = _OWN**2 if facts in self._apart[latent] else 0.0
        return kernel.variance + own + kernel.noise**2

    def far(self, latent: str) -> Mask:
        """Whether the uncorrected error of each run in a latent, or in an earlier one, exceeds
        `NEAR_PHYSICS`, [runs].
        """
        names = LATENTS[: LATENTS.index(latent) + 1]
        far = [np.abs(self.latents[name]) > NEAR_PHYSICS[name] for name in names]
        return np.asarray(np.any(far, axis=0))

    @cached_property
    def _apart(self) -> Mapping[str, frozenset[RunFacts]]:
        """Recipes and releases in which most runs are `far`, by latent."""
        groups = {}
        for latent, logs in self.latents.items():
            balance: Counter[RunFacts] = Counter()
            for facts, far, log in zip(self.facts, self.far(latent), logs, strict=True):
                if np.isfinite(log):
                    balance[facts] += 1 if far else -1
            groups[latent] = frozenset(facts for facts, more in balance.items() if more > 0)
        return groups

    @cached_property
    def _teaches(self) -> Mapping[str, Mask]:
        """Whether each run gives a correction of a latent, to others or only to its own recipe,
        [runs] by latent.
        """
        return {
            latent: np.isfinite(logs) & (~self.far(latent) | self._of(self._apart[latent]))
            for latent, logs in self.latents.items()
        }

    def _of(self, groups: frozenset[RunFacts]) -> Mask:
        return np.array([facts in groups for facts in self.facts])

    @cached_property
    def _expecting(self) -> Mapping[str, Array]:
        """Contribution of each run to an expectation per unit of covariance, [runs] by latent."""
        return {latent: inverse @ taught for latent, (inverse, taught) in self._solved.items()}

    def weights(self, latent: str) -> Array:
        """Weight of each run in a latent, by its agreement with its neighbours, [runs]."""
        kernel, (signal, taught) = self.kernels[latent], self._signal(latent)
        weights = np.ones(len(taught))
        for _ in range(_ROUNDS):
            noisy = signal + np.diag(kernel.noise**2 / weights)
            missed = taught - signal @ np.linalg.solve(noisy, taught)
            weights = (FREEDOM + 1.0) / (FREEDOM + (missed / kernel.noise) ** 2)
        return weights

    def _solved_for(self, latent: str) -> tuple[Array, Array]:
        signal, taught = self._signal(latent)
        noise = self.kernels[latent].noise ** 2 / self.weights(latent)
        return np.asarray(np.linalg.inv(signal + np.diag(noise)), dtype=float), taught

    def _signal(self, latent: str) -> tuple[Array, Array]:
        """Covariance of the runs without noise, and the correction from each, 0 if it gives
        none.
        """
        known, apart = self._teaches[latent], self._apart[latent]
        taught = np.where(known, self.latents[latent], 0.0)
        signal = self.kernels[latent].covariance(self.shared, self.sizes, self.sizes)
        for facts in apart:
            own = self._of(frozenset([facts]))
            signal = signal + _OWN**2 * np.outer(own, own)
        return signal * np.outer(known, known), taught


_FIELDS = ("log", "variance", "weights")
