"""What whole steps and requests say about an engine: a maximum-a-posteriori fit of its constants.

A measured step cannot tell thirty constants of kernels apart, but it can tell whether this engine
reaches less bandwidth here, or spends more on the host, than its profile says.  Close to a
profile, r = ln(predicted / measured) is linear in the logarithms x of its constants, so a
Gauss-Newton step d solves a ridge problem, its weights w those of Student's t, so that runs with
other flags or a warm-up in them say little::

    min  sum_i w_i (r_i + J_i d)^2 / spread_i^2  +  sum_c (x_c + d_c)^2 / width_c^2

The same step serves the fit of every engine on all that was measured (`app/engine_fit`) and the
calibration from one to five points of one's own.  TTFT and TPOT under load also get a scale each,
for what no constant describes: flags, streaming intervals, versions.
Source of the weights: Lange, Little and Taylor, Robust Statistical Modeling Using the t
Distribution (1989), whose four degrees of freedom are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.engine import CONSTANTS, FIELDS, EngineProfile
from genz_core.error_metrics import ErrorSummary, error_summary
from genz_core.errors import InvalidValue
from genz_core.operator_calibration import TOLERANCE
from genz_core.types import Array

#: Expected spread of ln(predicted / measured) by what is measured, once its constants are right.
SPREAD: Mapping[str, float] = {
    "tpot_s": 0.15, "ttft_s": 0.45, "prefill": 0.2, "decode": 0.15, "e2e": 0.15,
}  # fmt: skip
#: Expected spread of the scales of figures under load.
SCALES: Mapping[str, float] = {"tpot_s": 0.1, "ttft_s": 0.15}
_STEP = 0.05  # of a logarithm, in a numerical derivative
_FREEDOM = 4.0  # degrees of Student's t
_ROUNDS_OF_WEIGHTS = 12
ROUNDS = 4
_MOST_STEP = 1.0  # of a logarithm, in one round
MOST_WIDTHS = 3.0  # that a constant may lie from the level above
_STEPS_GRID = np.array([0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12])
_DOUBT = 0.1  # cost of steps that differ e-fold from the engine's, per point missing
_SHRINK = 4.0  # points that the scale of a TTFT is worth before it is believed


def moved(engine: EngineProfile, moves: Array) -> EngineProfile:
    """The engine with its constants' logarithms moved, [constants] as in `CONSTANTS`."""
    fields = {
        constant.field: max(getattr(engine, constant.field), constant.least) * float(np.exp(move))
        for constant, move in zip(CONSTANTS, moves, strict=True)
        if move
    }
    return replace(engine, **fields)


def map_step(logs: Array, design: Array, spread: Array, at: Array, width: Array) -> Array:
    """The step to the optimum of the linearised problem at the top, [parameters].

    logs: r, [points].  design: its derivatives, [points, parameters].  at: x, where the prior is
    zero.  Points that are not finite say nothing; parameters of no width stay.
    """
    usable = np.isfinite(logs) & np.isfinite(design).all(1)
    r, j, s = logs[usable], design[usable], spread[usable]
    free = width > 0
    j, x, precision = j[:, free], at[free], width[free] ** -2.0
    step: NDArray[Any] = np.zeros(int(free.sum()))
    for _ in range(_ROUNDS_OF_WEIGHTS):
        weight = (_FREEDOM + 1.0) / (_FREEDOM + ((r + j @ step) / s) ** 2) / s**2
        left = (j.T * weight) @ j + np.diag(precision)
        step = np.linalg.solve(left, -(j.T * weight) @ r - precision * x)
    whole = np.zeros(width.size)
    whole[free] = step
    return whole


def optimum(
    around: Callable[[Array], tuple[Array, Array]],
    spread: Array,
    width: Array,
    limited: Callable[[Array], Array],
    told: Callable[[int, Array], None] = lambda number, logs: None,
) -> tuple[Array, Array, Array]:
    """Gauss-Newton from the prior: the parameters, and r and its derivatives there.

    around: r and its derivatives at some parameters.  limited: the parameters within their limits.
    told: the number of each round and the r that it starts from.
    """
    at = np.zeros(width.size)
    logs, design = around(at)
    for number in range(ROUNDS):
        told(number, logs)
        step = map_step(logs, design, spread, at, width)
        at = limited(at + np.clip(step, -_MOST_STEP, _MOST_STEP))
        logs, design = around(at)
    return at, logs, design


def first_token(logs: Array, waiting: Array) -> tuple[float, float]:
    """Scale of the decode steps waited for, and of the whole TTFT, of runs that share both.

    logs: ln(predicted / measured) TTFT, [runs].  waiting: the share of each prediction that is
    steps waited for.  The steps are chosen on a grid, with the scale that then remains; both are
    pulled towards one, the more the fewer the runs.
    """
    belief = logs.size / (logs.size + _SHRINK)

    def cost(steps: float) -> tuple[float, float, float]:
        after = logs + waited(waiting, steps)
        scale = -float(np.median(after)) * belief
        doubt = _DOUBT * abs(float(np.log(steps))) * (1.0 - belief) / belief
        return float(np.abs(after + scale).mean()) + doubt, steps, scale

    _, steps, scale = min(cost(steps) for steps in _STEPS_GRID)
    return float(steps**belief), float(np.exp(scale))


def waited(waiting: Array, steps: float) -> Array:
    """Change of ln TTFT when the share of it that waits for steps is scaled."""
    return np.log1p(np.clip(waiting, 0.0, 0.98) * (steps - 1.0))


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """An engine that agrees with measured steps and requests of one model on one device.

    engine: with the fitted constants.  factors: what each was multiplied by; uncertainty: the
    standard deviation of the logarithm of each.  tpot_scale, ttft_scale: to multiply figures
    under load with, on top.  before, after: errors on the points given.
    """

    engine: EngineProfile
    factors: Mapping[str, float]
    uncertainty: Mapping[str, float]
    tpot_scale: float
    ttft_scale: float
    before: ErrorSummary
    after: ErrorSummary


def calibrate_end_to_end(
    engine: EngineProfile,
    predict_s: Callable[[EngineProfile], Array],
    measured_s: Array,
    metrics: Sequence[str],
    *,
    bound_s: Array | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> EndToEnd:
    """Fit an engine's constants to a few figures measured with one model on one device.

    Args:
        engine: the prior.
        predict_s: what an engine predicts for the points [s], [points].
        measured_s: what was measured [s], in the same order.
        metrics: what each point is, one of `SPREAD`.
        bound_s: the least each can take [s], NaN where unknown; a point more than 5 % below it
            is refused.
        progress: told the share that is done.

    Raises:
        InvalidValue: no points, a metric that does not exist, a time that is not positive, or one
            that contradicts physics.
    """
    measured = np.atleast_1d(np.asarray(measured_s, np.float64))
    _refuse(measured, metrics, bound_s)
    width = np.array([np.hypot(c.device, c.recipe) or c.engine for c in CONSTANTS])
    width = np.append(width, list(SCALES.values()))
    scaled = np.stack([np.array(metrics) == metric for metric in SCALES], axis=1).astype(float)
    spread = np.array([SPREAD[metric] for metric in metrics])

    def logs(moves: Array) -> Array:
        predicted = np.atleast_1d(predict_s(moved(engine, moves)))
        return np.asarray(np.log(predicted) - np.log(measured))

    def around(at: Array) -> tuple[Array, Array]:
        moves, scales = np.split(at, [len(CONSTANTS)])
        here = logs(moves)
        return here + scaled @ scales, np.hstack([slopes(logs, moves, here), scaled])

    def within(at: Array) -> Array:
        return np.clip(at, -MOST_WIDTHS * width, MOST_WIDTHS * width)

    rounds: list[Array] = []

    def told(number: int, here: Array) -> None:
        rounds.append(here)
        progress(number / ROUNDS)

    at, after, design = optimum(around, spread, width, within, told)
    moves, scales = np.split(at, [len(CONSTANTS)])
    scale = dict(zip(SCALES, np.exp(scales), strict=True))
    deviation = _deviation(design, spread, width)[: len(CONSTANTS)]
    return EndToEnd(
        engine=moved(engine, moves),
        factors=dict(zip(FIELDS, (float(v) for v in np.exp(moves)), strict=True)),
        uncertainty=dict(zip(FIELDS, (float(v) for v in deviation), strict=True)),
        tpot_scale=float(scale["tpot_s"]),
        ttft_scale=float(scale["ttft_s"]),
        before=error_summary(np.exp(rounds[0]), np.ones(measured.size)),
        after=error_summary(np.exp(after), np.ones(measured.size)),
    )


def slopes(logs: Callable[[Array], Array], moves: Array, here: Array) -> Array:
    """Derivatives of `logs` by the logarithm of each constant at `moves`, [points, constants]."""
    columns = []
    for number in range(len(CONSTANTS)):
        nudge = np.zeros(len(CONSTANTS))
        nudge[number] = _STEP
        columns.append((logs(moves + nudge) - here) / _STEP)
    return np.stack(columns, axis=1)


def _deviation(design: Array, spread: Array, width: Array) -> Array:
    """Standard deviations of the parameters around the optimum, [parameters]."""
    scaled = design / spread[:, None]
    return np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled + np.diag(width**-2.0))))


def _refuse(measured: Array, metrics: Sequence[str], bound_s: Array | None) -> None:
    if measured.size == 0:
        raise InvalidValue("end-to-end calibration got no points; give one to five")
    unknown = sorted(set(metrics) - set(SPREAD))
    if unknown or len(metrics) != measured.size:
        raise InvalidValue(
            f"every point needs a metric, one of {', '.join(SPREAD)}; got {', '.join(metrics)}"
        )
    if not np.all(np.isfinite(measured) & (measured > 0)):
        raise InvalidValue("points must have taken a positive number of seconds")
    if bound_s is None:
        return
    bound = np.broadcast_to(np.asarray(bound_s, np.float64), measured.shape)
    beaten = np.flatnonzero(measured < np.nan_to_num(bound) / (1.0 + TOLERANCE))
    if beaten.size:
        at = int(beaten[0])
        raise InvalidValue(
            f"point {at} ({metrics[at]}) took {measured[at] * 1e3:.3f} ms where "
            f"{bound[at] * 1e3:.3f} ms is the least this device needs: check the unit, the model, "
            "its precision, the degrees and the device"
        )
