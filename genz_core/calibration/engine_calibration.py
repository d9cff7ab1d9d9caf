"""Calibration of an engine's constants from whole steps and requests: a maximum-a-posteriori fit.

A measured step cannot identify thirty constants of kernels, but it can show whether this engine
reaches less bandwidth on this device, or spends more time on the host, than its profile says.
Close to a profile, r = ln(predicted / measured) is linear in the logarithms x of the constants, so
a Gauss-Newton step d solves a ridge problem::

    min  sum_i w_i (r_i + J_i d)^2 / spread_i^2  +  sum_c (x_c + d_c)^2 / width_c^2

The weights w are those of Student's t, so that runs with other flags or with warm-up in them count
little.  The same step serves the fit of every engine on all measurements (`app/engine_fit`) and the
calibration from one to five points of a user.  TTFT and TPOT under load also get a scale each, for
what no constant describes: flags, streaming intervals, versions.
Source of the weights: Lange, Little and Taylor, Robust Statistical Modeling Using the t
Distribution (1989), whose four degrees of freedom are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.calibration.error_metrics import ErrorSummary, error_summary
from genz_core.calibration.operator_calibration import TOLERANCE
from genz_core.engine import EngineProfile
from genz_core.engine_constants import CONSTANTS, FIELDS
from genz_core.errors import InvalidValue
from genz_core.types import Array

#: Expected spread of ln(predicted / measured) by metric, once its constants are right.
SPREAD: Mapping[str, float] = {
    "tpot_s": 0.15, "ttft_s": 0.45, "prefill": 0.2, "decode": 0.15, "e2e": 0.15,
}  # fmt: skip
#: Expected spread of the scales of figures under load.
SCALES: Mapping[str, float] = {"tpot_s": 0.1, "ttft_s": 0.15}
_STEP = 0.05  # step of a logarithm in a numerical derivative
_FREEDOM = 4.0  # degrees of freedom of Student's t
_ROUNDS_OF_WEIGHTS = 12
ROUNDS = 4
_MOST_STEP = 1.0  # largest change of a logarithm in one round
MOST_WIDTHS = 3.0  # widths of the prior that a constant may deviate from the level above


# ------------------------------------------------------------------------------- the regression


def moved(engine: EngineProfile, moves: Array) -> EngineProfile:
    """The engine with `moves` added to the logarithms of its constants, [constants].

    Constants are ordered as in `CONSTANTS`; those that are zero start at their `least`.
    """
    fields = {
        constant.field: max(getattr(engine, constant.field), constant.least) * float(np.exp(move))
        for constant, move in zip(CONSTANTS, moves, strict=True)
        if move
    }
    return replace(engine, **fields)


def map_step(logs: Array, design: Array, spread: Array, at: Array, width: Array) -> Array:
    """The step to the optimum of the linearised problem in the module's docstring, [parameters].

    Points that are not finite are left out; parameters of zero width do not move.

    Args:
        logs: r, [points].
        design: derivatives of r, [points, parameters].
        spread: expected spread of r, [points].
        at: x, where the prior is zero, [parameters].
        width: of the prior, [parameters].
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
    linearise: Callable[[Array], tuple[Array, Array]],
    spread: Array,
    width: Array,
    limit: Callable[[Array], Array],
    on_round: Callable[[int, Array], None] = lambda number, logs: None,
) -> tuple[Array, Array, Array]:
    """Parameters at the optimum by Gauss-Newton from the prior, with r and its derivatives there.

    Args:
        linearise: parameters -> r [points] and its derivatives [points, parameters].
        spread, width: see `map_step`.
        limit: parameters -> the nearest within their limits.
        on_round: called with the number of each round and the r that it starts from.
    """
    at = np.zeros(width.size)
    logs, design = linearise(at)
    for number in range(ROUNDS):
        on_round(number, logs)
        step = map_step(logs, design, spread, at, width)
        at = limit(at + np.clip(step, -_MOST_STEP, _MOST_STEP))
        logs, design = linearise(at)
    return at, logs, design


def slopes(logs: Callable[[Array], Array], moves: Array, start: Array) -> Array:
    """Derivatives of r by the logarithm of each constant, [points, constants].

    logs: moves [constants] -> r [points].  start: `logs(moves)`.
    """
    columns = []
    for number in range(len(CONSTANTS)):
        nudge = np.zeros(len(CONSTANTS))
        nudge[number] = _STEP
        columns.append((logs(moves + nudge) - start) / _STEP)
    return np.stack(columns, axis=1)


# ------------------------------------------------------------------------------- a few points


@dataclass(frozen=True, slots=True)
class EngineCalibration:
    """An engine fitted to measured steps and requests of one model on one device.

    engine: with the fitted constants.  factors: fitted over prior value of each constant;
    uncertainty: the standard deviation of its logarithm.  tpot_scale, ttft_scale: additional
    factors of the figures under load.  before, after: errors on the points of the fit.
    """

    engine: EngineProfile
    factors: Mapping[str, float]
    uncertainty: Mapping[str, float]
    tpot_scale: float
    ttft_scale: float
    before: ErrorSummary
    after: ErrorSummary


def calibrate_engine(
    engine: EngineProfile,
    predict_s: Callable[[EngineProfile], Array],
    measured_s: Array,
    metrics: Sequence[str],
    *,
    bound_s: Array | None = None,
    progress: Callable[[float], None] = lambda share: None,
) -> EngineCalibration:
    """Fit an engine's constants to a few figures measured with one model on one device.

    Args:
        engine: the prior.
        predict_s: engine -> predicted time of every point [s], [points].
        measured_s: measured time of every point [s], [points].
        metrics: metric of every point, one of `SPREAD`.
        bound_s: the least each can take [s], NaN where unknown; a point more than 5 % below it
            is refused.
        progress: called with the completed share.

    Raises:
        InvalidValue: no points, a metric that does not exist, a time that is not positive, or one
            that contradicts physics.
    """
    measured = np.atleast_1d(np.asarray(measured_s, np.float64))
    _refuse(measured, metrics, bound_s)
    problem = _Problem.of(engine, predict_s, measured, metrics)
    starts: list[Array] = []

    def on_round(number: int, logs: Array) -> None:
        starts.append(logs)
        progress(number / ROUNDS)

    at, after, design = optimum(
        problem.linearise, problem.spread, problem.width, problem.limit, on_round
    )
    moves, scales = np.split(at, [len(CONSTANTS)])
    scale = dict(zip(SCALES, np.exp(scales), strict=True))
    deviation = _deviation(design, problem.spread, problem.width)[: len(CONSTANTS)]
    exact = np.ones(measured.size)
    return EngineCalibration(
        engine=moved(engine, moves),
        factors=dict(zip(FIELDS, (float(v) for v in np.exp(moves)), strict=True)),
        uncertainty=dict(zip(FIELDS, (float(v) for v in deviation), strict=True)),
        tpot_scale=float(scale["tpot_s"]),
        ttft_scale=float(scale["ttft_s"]),
        before=error_summary(np.exp(starts[0]), exact),
        after=error_summary(np.exp(after), exact),
    )


@dataclass(frozen=True, slots=True)
class _Problem:
    """The regression of a few points: parameters are the constants' moves, then the scales.

    logs: moves [constants] -> r without scales, [points].  scaled: 1 for points of the metric of
    each scale, [points, scales].  spread: [points].  width: of the priors, [parameters].
    """

    logs: Callable[[Array], Array]
    scaled: Array
    spread: Array
    width: Array

    @classmethod
    def of(
        cls,
        engine: EngineProfile,
        predict_s: Callable[[EngineProfile], Array],
        measured: Array,
        metrics: Sequence[str],
    ) -> _Problem:
        """The regression of points [points], see `calibrate_engine` for the arguments."""

        def logs(moves: Array) -> Array:
            predicted = np.atleast_1d(predict_s(moved(engine, moves)))
            return np.asarray(np.log(predicted) - np.log(measured))

        width = np.array([np.hypot(c.device, c.recipe) or c.engine for c in CONSTANTS])
        scaled = np.stack([np.array(metrics) == metric for metric in SCALES], axis=1)
        spread = np.array([SPREAD[metric] for metric in metrics])
        return cls(logs, scaled.astype(float), spread, np.append(width, list(SCALES.values())))

    def linearise(self, at: Array) -> tuple[Array, Array]:
        """r at some parameters, and its derivatives."""
        moves, scales = np.split(at, [len(CONSTANTS)])
        start = self.logs(moves)
        design = np.hstack([slopes(self.logs, moves, start), self.scaled])
        return start + self.scaled @ scales, design

    def limit(self, at: Array) -> Array:
        """The parameters within `MOST_WIDTHS` widths of the prior."""
        return np.clip(at, -MOST_WIDTHS * self.width, MOST_WIDTHS * self.width)


def _deviation(design: Array, spread: Array, width: Array) -> Array:
    """Standard deviations of the parameters at the optimum, [parameters]."""
    scaled = design / spread[:, None]
    return np.sqrt(np.diag(np.linalg.inv(scaled.T @ scaled + np.diag(width**-2.0))))


def _refuse(measured: Array, metrics: Sequence[str], bound_s: Array | None) -> None:
    """Raise `InvalidValue` for points that cannot be fitted, see `calibrate_engine`."""
    if measured.size == 0:
        raise InvalidValue("calibration needs measured points; give one to five")
    unknown = sorted(set(metrics) - set(SPREAD))
    if unknown or len(metrics) != measured.size:
        raise InvalidValue(
            f"every point needs a metric, one of {', '.join(SPREAD)}; got {', '.join(metrics)}"
        )
    if not np.all(np.isfinite(measured) & (measured > 0)):
        raise InvalidValue("every point needs a positive time in seconds")
    if bound_s is None:
        return
    bound = np.broadcast_to(np.asarray(bound_s, np.float64), measured.shape)
    beaten = np.flatnonzero(measured < np.nan_to_num(bound) / (1.0 + TOLERANCE))
    if beaten.size:
        at = int(beaten[0])
        raise InvalidValue(
            f"point {at} ({metrics[at]}) took {measured[at] * 1e3:.3f} ms, but the "
            f"device needs at least {bound[at] * 1e3:.3f} ms: check the unit, the model, its "
            "number formats, the degrees and the device"
        )
