"""What measured runs teach of an engine's steps, and how far it reaches.

`genz_core.measured_runs` has the model: of each run the scale of its steps and its wait, with which
the closed form gives what was measured.  Its standard deviations and lengths are those under which
these are likeliest over all engines, around priors of round numbers.
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

#: Prior standard deviation of each latent, shared by its terms; a third of it is noise.
_SPREAD: Mapping[str, float] = {"steps": 0.15, "wait": 0.4}
_LENGTH = 1.5  # prior, of every logarithm
_DOUBT = 1.0  # standard deviation of the logarithm of each, around its prior
#: Sizes that runs are alike at whatever they are.  A first token comes before the answer, and that
#: of one user alone would depend on its length.  With users a correction would break laws: near
#: saturation the throughput is one over the scale of steps, and a share of a first token that falls
#: with users brings it earlier.
_NO_MATTER = ("osl", "concurrency")
_STEPS = 60  # of the search, twice
_ROUNDS = 3  # of the search for the latents of a run
_EXPLAINED = 0.1  # of a logarithm: a wait that leaves more of a first token open teaches nothing


@dataclass(frozen=True, slots=True)
class Latents:
    """What each row of an engine's measurements teaches, [rows]; NaN where nothing.

    steps, wait: see `genz_core.measured_runs`.  physics: ln(measured / predicted) of each figure
    with nothing learned, by its name.
    """

    steps: Array
    wait: Array
    physics: Mapping[str, Array]

    def shifted(self, physics: Mapping[str, Array]) -> Latents:
        """Under other constants, with which physics misses each figure by this much instead."""
        tpot, ttft = (physics[name] - self.physics[name] for name in ("tpot_s", "ttft_s"))
        return Latents(self.steps + tpot, self.wait + ttft - tpot, physics)


def by_row(data: EngineFitData, logs: Array) -> Mapping[str, Array]:
    """ln(measured / predicted) of each figure under load, NaN where there is none, [rows].

    logs: ln(predicted / measured), [targets].
    """
    found = {name: np.full(len(data.rows), np.nan) for name in MOST}
    for at, target in enumerate(data.targets):
        if target.facts["set"] == "serving":
            found[target.metric][target.row] = -logs[at]
    return found


def latents(data: EngineFitData, moves: Array, logs: Array) -> Latents:
    """The steps and the wait with which each served run's figures are those measured.

    Of runs that can have run as they are described, and that physics misses by at most
    `genz_core.measured_runs.MOST`.

    moves: of the constants, [targets, constants].  logs: ln(predicted / measured) by physics.
    """
    physics = by_row(data, logs)
    possible = np.zeros(len(data.rows), dtype=bool)
    for target in data.targets:
        possible[target.row] |= target.facts["possible"] == "yes"
    told = {name: possible & (np.abs(physics[name]) <= most) for name, most in MOST.items()}
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
    """Engines of rows whose steps and waits are known, 0 where they are not."""

    def under(resolved: Resolved, rows: Sequence[int], engine: EngineProfile) -> EngineProfile:
        of_steps = np.nan_to_num(steps[list(rows)])
        first = of_steps + np.nan_to_num(wait[list(rows)])
        by_row: Any = np.exp([of_steps, first])  # a scale for each row, side by side
        return replace(engine, recipe=Recipe(*by_row))

    return under


def corrected(
    data: EngineFitData, moves: Array, learned: Latents, kept: Mask, wanted: Mask
) -> tuple[Array, Array]:
    """ln(predicted / measured) with what the kept runs of each model teach, [targets].

    And the novelty of each target among these runs, 1 where there are none.

    moves: of the constants, [targets, constants].  kept: targets whose runs teach; wanted: those
    to be priced.
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
    """How far each target lies from the runs of its model, see `StepCorrection`, [targets]."""
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
    """Parameters of each model, its served runs, and the rows that they are."""
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
    """What tells the run of a target apart from others of its model."""
    target = data.targets[at]
    question = data.rows[target.row].asked.question
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
    """The kernel of each latent under which the runs of all engines are likeliest.

    pairs: of every engine, its data and what its rows teach.
    """
    return {latent: _fit_kernel(latent, pairs) for latent in LATENTS}


def _fit_kernel(latent: str, pairs: Sequence[tuple[EngineFitData, Latents]]) -> Kernel:
    kernel, at = _start(latent), np.log(_vector(_start(latent)))
    for _ in range(2):  # the weights of runs rest on the kernel, and the other way round
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
    """Runs of a model, as the likelihood of a kernel takes them.

    taught, weights: [runs].  shared: which pairs share what, by name of `SHARED`.  squares: of the
    distance of each pair in each size, [sizes, runs, runs].
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
        """Negative logarithm of the marginal likelihood but a constant, and its derivatives by the
        logarithms of a kernel's values, see `_vector`."""
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
        sign = inverse - np.outer(solved, solved)  # twice the derivative by the covariance
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
