"""Corrections of an engine's steps from measured runs, and how far each correction reaches.

The model is in `genz_core.measured_runs`: for each run, the scale of its steps and its wait with
which the closed form reproduces the measurement.  The standard deviations and length scales of
these corrections maximise their likelihood over all engines, with round numbers as priors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize

from app.engine_fit.targets import EngineFitData, Under
from app.scenario.scenario import Resolved
from genz_core.engine import NO_RECIPE, EngineProfile, Recipe
from genz_core.measured_runs import (
    LATENTS,
    MOST,
    NEAR,
    SHARED,
    SIZES,
    Kernel,
    MeasuredRuns,
    RunFacts,
)
from genz_core.types import Array, Mask
from hardware_db.measured_runs import kernels as shipped_kernels

#: Prior standard deviation of each latent, divided among its terms; a third of it is noise.
_SPREAD: Mapping[str, float] = {"steps": 0.15, "wait": 0.4}
_LENGTH = 1.5  # prior mean of every logarithm
_DOUBT = 1.0  # standard deviation of the logarithm of each, around its prior
#: Sizes that are ignored when two runs are compared.  TTFT is over before the answer, and TTFT of a
#: single user would otherwise depend on the answer's length.  A correction that depends on the
#: number of users would break laws: near saturation the throughput is the reciprocal of the step
#: scale, and a TTFT factor that falls with the number of users would make TTFT earlier under more
#: load.
_NO_MATTER = ("osl", "concurrency")
_STEPS = 60  # of the search, which runs twice
_ROUNDS = 3  # of the search for the latents of a run
_EXPLAINED = 0.1  # of a logarithm: a wait that leaves a larger error of TTFT is ignored


@dataclass(frozen=True, slots=True)
class Latents:
    """The corrections from each row of an engine's measurements, [rows]; NaN if there is none.

    steps, wait: see `genz_core.measured_runs`.  physics: ln(measured / predicted) of each figure
    without corrections, by name.
    """

    steps: Array
    wait: Array
    physics: Mapping[str, Array]

    def shifted(self, physics: Mapping[str, Array]) -> Latents:
        """The corrections under other constants, which give these errors of each figure instead."""
        tpot, ttft = (physics[name] - self.physics[name] for name in ("tpot_s", "ttft_s"))
        return Latents(self.steps + tpot, self.wait + ttft - tpot, physics)


def by_row(data: EngineFitData, logs: Array) -> Mapping[str, Array]:
    """ln(measured / predicted) of each serving figure, NaN if there is none, [rows].

    logs: ln(predicted / measured), [targets].
    """
    found = {name: np.full(len(data.rows), np.nan) for name in MOST}
    for at, target in enumerate(data.targets):
        if target.facts["set"] == "serving":
            found[target.metric][target.row] = -logs[at]
    return found


def latents(data: EngineFitData, moves: Array, logs: Array) -> Latents:
    """The step scale and the wait with which each served run's predictions equal its measurements.

    Only for runs that are plausible as described and whose error is at most
    `genz_core.measured_runs.MOST`.

    moves: of the constants, [targets, constants].  logs: ln(predicted / measured) without
    corrections.
    """
    physics = by_row(data, logs)
    plausible = np.zeros(len(data.rows), dtype=bool)
    for target in data.targets:
        plausible[target.row] |= target.facts["plausible"] == "yes"
    told = {name: plausible & (np.abs(physics[name]) <= most) for name, most in MOST.items()}
    teaches = told["tpot_s"]
    steps, wait = physics["tpot_s"].copy(), physics["ttft_s"] - physics["tpot_s"]
    wanted = np.array([bool(teaches[target.row]) for target in data.targets])
    left = physics
    for _ in range(_ROUNDS):
        left = by_row(data, data.logs(moves, wanted, _as_told(steps, wait)))
        steps = steps + left["tpot_s"]
        wait = np.clip(wait + left["ttft_s"] - left["tpot_s"], -MOST["ttft_s"], MOST["ttft_s"])
    left = by_row(data, data.logs(moves, wanted, _as_told(steps, wait)))
    teaches &= np.abs(left["tpot_s"]) <= _EXPLAINED
    explained = teaches & told["ttft_s"] & (np.abs(left["ttft_s"]) <= _EXPLAINED)
    return Latents(np.where(teaches, steps, np.nan), np.where(explained, wait, np.nan), physics)


def _as_told(steps: Array, wait: Array) -> Under:
    """Engines of rows with known step scales and waits, 0 where unknown."""

    def under(resolved: Resolved, rows: Sequence[int], engine: EngineProfile) -> EngineProfile:
        of_steps = np.nan_to_num(steps[list(rows)])
        first = of_steps + np.nan_to_num(wait[list(rows)])
        by_row: Any = np.exp([of_steps, first])  # one scale per row, as an array
        return replace(engine, recipe=Recipe(*by_row))

    return under


def corrected(
    data: EngineFitData, moves: Array, learned: Latents, kept: Mask, wanted: Mask
) -> tuple[Array, Array]:
    """ln(predicted / measured) with corrections from the kept runs of each model, [targets].

    Also returns the novelty of each target relative to these runs, 1 if there are none.

    moves: of the constants, [targets, constants].  kept: targets whose runs give corrections;
    wanted: targets to price.
    """
    rows = np.zeros(len(data.rows), dtype=bool)
    rows[[target.row for target, keep in zip(data.targets, kept, strict=True) if keep]] = True
    taught = {
        model: runs.picked(rows[places])
        for model, runs, places in by_model(data, learned)
        if rows[places].any()
    }

    def under(resolved: Resolved, rows: Sequence[int], engine: EngineProfile) -> EngineProfile:
        runs = taught.get(str(round(resolved.model.parameters)))
        version = resolved.engine.version
        return replace(engine, recipe=NO_RECIPE, neighbours=runs, version=version)

    return data.logs(moves, wanted, under), _novelty(data, taught)


def _novelty(data: EngineFitData, taught: Mapping[str, MeasuredRuns]) -> Array:
    """Distance of each target from the runs of its model, see `StepCorrection`, [targets]."""
    found = np.ones(len(data.targets))
    for at, target in enumerate(data.targets):
        runs = taught.get(target.facts["parameters"])
        if runs is None or target.facts["set"] != "serving":
            continue
        left = whole = 0.0
        for latent in LATENTS[:1] if target.metric == "tpot_s" else LATENTS:
            facts, sizes = run_facts(data, at), np.array([run_sizes(data, target.row)])
            left += float(runs.correction(latent, facts, sizes).variance[0])
            whole += runs.variance(latent, facts)
        found[at] = np.sqrt(left / whole)
    return found


def by_model(
    data: EngineFitData, learned: Latents, kernels: Mapping[str, Kernel] | None = None
) -> Iterator[tuple[str, MeasuredRuns, list[int]]]:
    """Each model's parameters, its served runs, and the indices of their rows."""
    models: dict[str, dict[int, int]] = {}
    for at, target in enumerate(data.targets):
        if target.facts["set"] == "serving":
            models.setdefault(target.facts["parameters"], {}).setdefault(target.row, at)
    for parameters, targets in models.items():
        rows = list(targets)
        yield (
            parameters,
            MeasuredRuns(
                names=tuple(data.targets[at].run for at in targets.values()),
                facts=tuple(run_facts(data, at) for at in targets.values()),
                sizes=np.log([run_sizes(data, row) for row in rows]),
                latents={name: getattr(learned, name)[rows] for name in LATENTS},
                kernels=kernels or shipped_kernels(),
            ),
            rows,
        )


def run_facts(data: EngineFitData, at: int) -> RunFacts:
    """Facts by which the run of a target differs from other runs of its model."""
    target = data.targets[at]
    question = data.rows[target.row].query.question
    return RunFacts(
        weights=target.facts["recipe"].split("|")[2],
        system=target.facts["system"],
        family=target.facts["family"],
        version=question.engine_version.removeprefix("v"),
        drafts=str(question.draft_tokens or ""),
    )


def run_sizes(data: EngineFitData, row: int) -> list[float]:
    """The sizes of the run of a row, in the order of `SIZES`."""
    question = data.rows[row].question
    sizes = {"concurrency": question.concurrency or question.batch}
    return [float(sizes.get(name) or getattr(question, name)) for name in SIZES]


# ------------------------------------------------------------------------------- the kernel


def fit_kernels(pairs: Sequence[tuple[EngineFitData, Latents]]) -> dict[str, Kernel]:
    """The maximum-likelihood kernel of each latent, for the runs of all engines.

    pairs: for every engine, its data and the corrections from its rows.
    """
    return {latent: _fit_kernel(latent, pairs) for latent in LATENTS}


def _fit_kernel(latent: str, pairs: Sequence[tuple[EngineFitData, Latents]]) -> Kernel:
    kernel, at = _start(latent), np.log(_vector(_start(latent)))
    for _ in range(2):  # the weights of runs depend on the kernel and vice versa: iterate
        every = [
            runs.picked(np.isfinite(runs.latents[latent]) & ~runs.far(latent))
            for data, learned in pairs
            for _, runs, _ in by_model(data, learned, dict.fromkeys(LATENTS, kernel))
        ]
        blocks = [_Block.of(runs, latent) for runs in every if runs.names]
        start = np.log(_vector(_start(latent)))

        def cost(at: Array, blocks: Sequence[_Block] = blocks, start: Array = start):
            moved = at - start
            value, slope = 0.5 * moved @ moved / _DOUBT**2, moved / _DOUBT**2
            for block in blocks:
                more, steeper = block.unlikely(np.exp(at))
                value, slope = value + more, slope + steeper
            return value, slope

        options = {"maxiter": _STEPS}
        at = minimize(cost, at, jac=True, method="L-BFGS-B", options=options).x
        kernel = _kernel(np.exp(at))
    return kernel


@dataclass(frozen=True, slots=True)
class _Block:
    """Runs of one model, prepared for the likelihood of a kernel.

    taught, weights: [runs].  shared: which pairs have equal facts, by name of `SHARED`.  squares:
    squared distance of each pair in each size, [sizes, runs, runs].
    """

    taught: Array
    weights: Array
    shared: Mapping[str, Mask]
    squares: Array

    @classmethod
    def of(cls, runs: MeasuredRuns, latent: str) -> _Block:
        apart = runs.sizes[:, None, :] - runs.sizes[None, :, :]
        squares = np.moveaxis(apart**2, -1, 0)
        return cls(runs.latents[latent], runs.weights(latent), runs.shared, squares)

    def unlikely(self, values: Array) -> tuple[float, Array]:
        """Negative log marginal likelihood up to a constant, and its derivatives with respect to
        the logarithms of a kernel's values, see `_vector`.
        """
        kernel = _kernel(values)
        lengths = np.asarray(kernel.lengths)
        distance = np.sqrt(3.0 * np.tensordot(lengths**-2.0, self.squares, 1))
        decay = np.exp(-distance)
        fading, near = (1.0 + distance) * decay, np.zeros_like(distance)
        parts = [sd**2 * self.shared[name] for name, sd in kernel.constant.items()]
        for name, sd in kernel.near.items():
            near = near + sd**2 * self.shared[name]
            parts.append(sd**2 * self.shared[name] * fading)
        noise = kernel.noise**2 / self.weights
        covariance = sum(parts) + np.diag(noise)
        inverse = np.linalg.inv(covariance)
        solved = inverse @ self.taught
        # twice the derivative with respect to the covariance
        sign = inverse - np.outer(solved, solved)
        value = 0.5 * self.taught @ solved + 0.5 * np.linalg.slogdet(covariance)[1]
        by_parts = [float((sign * part).sum()) for part in parts]
        # d fading / d ln(length_i) = 3 exp(-distance) squares_i / length_i^2
        falling = 1.5 * sign * near * decay
        by_lengths = np.tensordot(self.squares, falling, 2) / lengths**2
        return float(value), np.array([*by_parts, *by_lengths, float(np.diag(sign) @ noise)])


def _start(latent: str) -> Kernel:
    each = _SPREAD[latent] / 2.0
    return Kernel(
        dict.fromkeys(SHARED, each),
        dict.fromkeys(NEAR, each),
        (_LENGTH,) * len(SIZES),
        _SPREAD[latent] / 3.0,
    )


def _vector(kernel: Kernel) -> Array:
    return np.array(
        [*kernel.constant.values(), *kernel.near.values(), *kernel.lengths, kernel.noise]
    )


def _kernel(values: Array) -> Kernel:
    constant, near, lengths = np.split(values[:-1], [len(SHARED), len(SHARED) + len(NEAR)])
    pairs = zip(SIZES, lengths, strict=True)
    return Kernel(
        dict(zip(SHARED, map(float, constant), strict=True)),
        dict(zip(NEAR, map(float, near), strict=True)),
        tuple(np.inf if name in _NO_MATTER else float(length) for name, length in pairs),
        float(values[-1]),
    )
