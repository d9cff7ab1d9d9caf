"""What measured runs tell of their neighbours: residuals of the fit, and how far they reach.

`genz_core.measured_runs` has the model.  Its standard deviations and lengths are those under which
the residuals of all engines are likeliest, by figure, around priors of round numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from scipy.optimize import minimize

from app.engine_fit.targets import EngineFitData
from genz_core.engine_calibration import SCALES
from genz_core.measured_runs import MOST, NEAR, SHARED, SIZES, Kernel, MeasuredRuns, RunFacts
from genz_core.types import Array, Mask
from hardware_db.measured_runs import kernels as shipped_kernels

#: Prior standard deviation of a figure's residual, shared by its terms; a third of it is noise.
_SPREAD: Mapping[str, float] = {"tpot_s": 0.15, "ttft_s": 0.4}
_LENGTH = 1.5  # prior, of every logarithm
_DOUBT = 1.0  # standard deviation of the logarithm of each, around its prior
_STEPS = 40  # of the search, twice
_FIGURES = tuple(SCALES)


def corrected(data: EngineFitData, logs: Array, kept: Mask) -> tuple[Array, Array]:
    """ln(predicted / measured) with the correction by the kept runs of their model, [targets].

    And the novelty of each target among these runs, 1 where there are none.  Where all are kept,
    each run is among its own neighbours.
    """
    after, novelty = logs.copy(), np.ones_like(logs)
    for runs, rows in by_model(data, logs):
        for figure in _FIGURES:
            at = np.array([rows[name].get(figure, -1) for name in runs.names])
            here = (at >= 0) & np.isfinite(np.where(at >= 0, logs[at], np.nan))
            known = here & kept[at]
            if not known.any():
                continue
            neighbours = runs.picked(known)
            for place in np.flatnonzero(here & (~kept[at] | kept.all())):
                sizes = np.exp(runs.sizes[place : place + 1])
                found = neighbours.correction(figure, runs.facts[place], sizes)
                after[at[place]] += found.log[0]
                novelty[at[place]] = found.novelty[0]
    return after, novelty


def by_model(
    data: EngineFitData, logs: Array, kernels: Mapping[str, Kernel] | None = None
) -> Iterator[tuple[MeasuredRuns, Mapping[str, Mapping[str, int]]]]:
    """The served runs of each model, and the targets of each run by figure.

    logs: ln(predicted / measured), [targets].
    """
    models: dict[str, dict[str, dict[str, int]]] = {}
    for at, target in enumerate(data.targets):
        if target.facts["set"] == "serving":
            runs = models.setdefault(target.facts["parameters"], {})
            runs.setdefault(target.run, {})[target.metric] = at
    for rows in models.values():
        first = [next(iter(figures.values())) for figures in rows.values()]
        yield (
            MeasuredRuns(
                names=tuple(rows),
                facts=tuple(run_facts(data, at) for at in first),
                sizes=np.log([run_sizes(data, at) for at in first]),
                logs={
                    figure: np.array(
                        [_missed(data, logs, row.get(figure)) for row in rows.values()]
                    )
                    for figure in _FIGURES
                },
                kernels=kernels or shipped_kernels(),
            ),
            rows,
        )


def _missed(data: EngineFitData, logs: Array, at: int | None) -> float:
    """ln(measured / predicted) of a target; none of a load that cannot have run."""
    possible = at is not None and data.targets[at].facts["possible"] == "yes"
    return -float(logs[at]) if at is not None and possible else np.nan


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


def run_sizes(data: EngineFitData, at: int) -> list[float]:
    """The sizes of the run of a target, in the order of `SIZES`."""
    question = data.rows[data.targets[at].row].question
    sizes = {"concurrency": question.concurrency or question.batch}
    return [float(sizes.get(name) or getattr(question, name)) for name in SIZES]


# ------------------------------------------------------------------------------- the kernel


def fit_kernels(pairs: Sequence[tuple[EngineFitData, Array]]) -> dict[str, Kernel]:
    """The kernel of each figure under which the residuals of all engines are likeliest.

    pairs: of every engine, its data and the logs without scales [targets].
    """
    return {figure: _fit_kernel(figure, pairs) for figure in _FIGURES}


def _fit_kernel(figure: str, pairs: Sequence[tuple[EngineFitData, Array]]) -> Kernel:
    kernel = _start(figure)
    for _ in range(2):  # the weights of runs rest on the kernel, and the other way round
        blocks = [
            (runs, runs.weights(figure))
            for data, logs in pairs
            for runs, _ in by_model(data, logs, dict.fromkeys(_FIGURES, kernel))
        ]
        cost = partial(_cost, figure, blocks)
        start = np.log(_vector(kernel))
        found = minimize(cost, start, method="L-BFGS-B", options={"maxiter": _STEPS})
        kernel = _kernel(np.exp(found.x))
    return kernel


def _cost(figure: str, blocks: Sequence[tuple[MeasuredRuns, Array]], at: Array) -> float:
    """How unlikely residuals and parameters are, but for a constant; at: logarithms of these."""
    tried = _kernel(np.exp(at))
    unlikely = sum(_unlikely(runs, figure, tried, weights) for runs, weights in blocks)
    moved = at - np.log(_vector(_start(figure)))
    return float(unlikely + 0.5 * moved @ moved / _DOUBT**2)


def _unlikely(runs: MeasuredRuns, figure: str, kernel: Kernel, weights: Array) -> float:
    """Negative logarithm of the marginal likelihood of residuals, but a constant."""
    known = np.isfinite(runs.logs[figure])
    signal = kernel.covariance(runs.shared, runs.sizes, runs.sizes)[np.ix_(known, known)]
    residuals = np.clip(runs.logs[figure][known], -MOST[figure], MOST[figure])
    lower = np.linalg.cholesky(signal + np.diag(kernel.noise**2 / weights[known]))
    scaled = np.linalg.solve(lower, residuals)
    return float(0.5 * scaled @ scaled + np.log(np.diag(lower)).sum())


def _start(figure: str) -> Kernel:
    each = _SPREAD[figure] / 2.0
    return Kernel(
        dict.fromkeys(SHARED, each),
        dict.fromkeys(NEAR, each),
        (_LENGTH,) * len(SIZES),
        _SPREAD[figure] / 3.0,
    )


def _vector(kernel: Kernel) -> Array:
    return np.array(
        [*kernel.constant.values(), *kernel.near.values(), *kernel.lengths, kernel.noise]
    )


def _kernel(values: Array) -> Kernel:
    constant, near, lengths = np.split(values[:-1], [len(SHARED), len(SHARED) + len(NEAR)])
    return Kernel(
        dict(zip(SHARED, map(float, constant), strict=True)),
        dict(zip(NEAR, map(float, near), strict=True)),
        tuple(map(float, lengths)),
        float(values[-1]),
    )
