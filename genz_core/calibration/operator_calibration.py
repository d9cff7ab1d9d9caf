"""Few-shot calibration of latency constants from measured operators: a maximum-a-posteriori fit.

The given profile is the prior: every constant is log-normal around its value, with the spread
between measured devices as its width, and the points move it towards the value of this device.  A
single scale factor would not do, since launch time, bandwidth and compute differ between devices by
different factors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from genz_core.calibration.error_metrics import ErrorSummary, error_summary
from genz_core.errors import InvalidValue
from genz_core.latency.measured_operators import OperatorPoints, bound_s, price_s
from genz_core.latency.parameters import Parameters, describe
from genz_core.latency.profile import Fit, LatencyProfile, Tier
from genz_core.systems import System
from genz_core.types import Array

#: Log residuals above this count linearly, not squared, so that one bad point does not distort a
#: profile.
ROBUST_SCALE = 0.10
#: A point that is faster than its bound by more than this share is refused; less is timer noise.
TOLERANCE = 0.05
#: Spread of a constant where no profile states it: within a factor of 1.6 in two cases of three.
_SPREAD = 0.5
_SPREAD_OF_TIER: Mapping[Tier, float] = {"measured": 0.2, "sibling": 0.35, "default": _SPREAD}


@dataclass(frozen=True, slots=True)
class FittedParameters:
    """Fitted constants of one operator class and format.

    uncertainty: {constant: standard deviation of its logarithm}.  cost: half the remaining sum of
    squares, to compare fits to the same points.
    """

    parameters: Parameters
    uncertainty: Mapping[str, float]
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """A calibrated profile, how certain its constants are, and its errors.

    uncertainty: {"class.format": {constant: standard deviation of its logarithm}}.
    before, after: errors on the points of the fit, by "class.format".
    """

    profile: LatencyProfile
    uncertainty: Mapping[str, Mapping[str, float]]
    before: Mapping[str, ErrorSummary]
    after: Mapping[str, ErrorSummary]


def calibrate(
    profile: LatencyProfile, system: System, points: Sequence[OperatorPoints], *, date: str = ""
) -> Calibration:
    """Fit a profile to measured operators of one device.

    Args:
        profile: the prior; its fits state the width of each constant's prior.
        system: the device that was measured.
        points: one entry per operator class and format; 20 to 100 points in total are best.
        date: date of the measurement, recorded in the fits.

    Raises:
        InvalidValue: no points, a time that is not positive, or points more than 5 % faster than
            the system's peaks allow (named); nothing is fitted then.
    """
    if not points or not any(entry.measured_s.size for entry in points):
        raise InvalidValue("calibration needs measured operators; give 20 to 100")
    refuse_impossible(points, system)
    parameters = {operator: dict(formats) for operator, formats in profile.parameters.items()}
    fits, uncertainty, before, after = dict(profile.fits), {}, {}, {}
    for entry in points:
        key = f"{entry.operator}.{entry.fmt}"
        start = profile.constants(entry.operator, entry.fmt)
        old = profile.fit(entry.operator, entry.fmt)
        # Where no spread is recorded, priors are narrower on a measured device.
        of_tier = dict.fromkeys((c.name for c in describe(type(start))), _SPREAD_OF_TIER[old.tier])
        spread = old.spread or of_tier
        solution = fit(entry, system, start, spread=spread, prior=True)
        before[key] = error_summary(price_s(entry, system, start), entry.measured_s)
        after[key] = error_summary(price_s(entry, system, solution.parameters), entry.measured_s)
        uncertainty[key] = solution.uncertainty
        parameters.setdefault(entry.operator, {})[entry.fmt] = solution.parameters
        fits[key] = Fit(
            "measured", entry.source, entry.measured_s.size, date=date, spread=solution.uncertainty
        )
    calibrated = dataclasses.replace(
        profile,
        tier="measured",
        parameters=parameters,
        fits=fits,
        residual=None,
        note=f"calibrated with {sum(p.measured_s.size for p in points)} points; prior: "
        f"{profile.note or profile.name}",
    )
    return Calibration(calibrated, uncertainty, before, after)


def refuse_impossible(points: Sequence[OperatorPoints], system: System) -> None:
    """Refuse points that are not times, or that no device with these peaks can have reached.

    Raises:
        InvalidValue: the first such entry, with its worst point.
    """
    for entry in points:
        measured = np.asarray(entry.measured_s, np.float64)
        if not np.all(np.isfinite(measured) & (measured > 0)):
            first = int(np.flatnonzero(~(np.isfinite(measured) & (measured > 0)))[0])
            raise InvalidValue(
                f"{entry.operator}.{entry.fmt} point {first} took {measured[first]:g} s; "
                "times must be positive seconds"
            )
        beaten = impossible(entry, system)
        if beaten.any():
            raise InvalidValue(_complaint(entry, measured, bound_s(entry, system), beaten))


def impossible(entry: OperatorPoints, system: System) -> NDArray[np.bool_]:
    """Whether each point is faster than the device's bound by more than `TOLERANCE`, [points]."""
    measured = np.asarray(entry.measured_s, np.float64)
    return np.asarray(measured < bound_s(entry, system) / (1.0 + TOLERANCE))


def _complaint(
    entry: OperatorPoints, measured: Array, limit: Array, beaten: NDArray[np.bool_]
) -> str:
    """The message on points that are faster than their bound, quoting the worst of them."""
    worst = int(np.argmax(np.where(beaten, limit / measured, 0.0)))
    shape = ", ".join(f"{name}={values[worst]:g}" for name, values in entry.arrays().items())
    return (
        f"{int(beaten.sum())} of {measured.size} {entry.operator}.{entry.fmt} points are faster "
        f"than the device's peaks allow; the worst, point {worst} ({shape}), took "
        f"{measured[worst] * 1e6:.2f} us where {limit[worst] * 1e6:.2f} us is the least: check "
        "the unit, the number format and the device"
    )


# ------------------------------------------------------------------------------- the regression


@dataclass(frozen=True, slots=True)
class _Space:
    """Vector space of the free constants of a parameter set: their logarithms, within bounds.

    names: of the free constants, in order.  low, high: logarithms of their bounds, [constants].
    fixed: {constant: value} of the others.
    """

    kind: type[Parameters]
    names: tuple[str, ...]
    low: Array
    high: Array
    fixed: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: type[Parameters], fixed: Mapping[str, float]) -> _Space:
        """The space of a parameter set's constants, without the fixed ones."""
        free = [constant for constant in describe(kind) if constant.name not in fixed]
        # A bound of zero has no logarithm; a ten-thousandth of the upper bound is small enough.
        low = [np.log(max(c.low, c.high * 1e-4 if c.low == 0 else c.low)) for c in free]
        return cls(
            kind,
            tuple(c.name for c in free),
            np.array(low),
            np.log([c.high for c in free]),
            fixed,
        )

    def vector(self, parameters: Parameters) -> Array:
        """Logarithms of the free constants, moved just inside their bounds, [constants]."""
        values = [getattr(parameters, name) for name in self.names]
        inside = 1e-6 * (self.high - self.low)
        with np.errstate(divide="ignore"):
            return np.clip(np.log(values), self.low + inside, self.high - inside)

    def parameters(self, vector: Array) -> Parameters:
        """The parameter set of a vector."""
        bounds = {constant.name: constant for constant in describe(self.kind)}
        values = {
            name: min(max(float(value), bounds[name].low), bounds[name].high)
            for name, value in zip(self.names, np.exp(vector), strict=True)
        }
        return self.kind(**values, **self.fixed)


def fit(
    points: OperatorPoints,
    system: System,
    start: Parameters,
    *,
    spread: Mapping[str, float] | None = None,
    prior: bool = False,
    fixed: Collection[str] = (),
) -> FittedParameters:
    """Constants fitted to measured points of one operator class and format on one device.

    Minimises the sum of rho(ln predicted - ln measured), rho quadratic up to `ROBUST_SCALE` and
    linear beyond, plus, with `prior`, ((ln c - ln start) / spread)^2 for every constant.

    Args:
        points: measured shapes [points].  system: the device that was measured.
        start: first guess and centre of the prior.
        spread: {constant: standard deviation of its logarithm in the prior}.
        prior: whether the prior counts.
        fixed: constants that stay as in `start`.
    """
    return fit_pool([(points, system, 1.0)], start, spread=spread, prior=prior, fixed=fixed)


def fit_pool(
    pool: Sequence[tuple[OperatorPoints, System, float]],
    start: Parameters,
    *,
    spread: Mapping[str, float] | None = None,
    prior: bool = False,
    fixed: Collection[str] = (),
) -> FittedParameters:
    """One set of constants for several devices, each as (points, system, weight); see `fit`."""
    space = _Space.of(type(start), {name: getattr(start, name) for name in fixed})
    centre = space.vector(start)
    width = np.array([(spread or {}).get(name, _SPREAD) for name in space.names])
    logs = [np.log(np.asarray(points.measured_s, np.float64)) for points, _, _ in pool]
    # The solver's steps are relative to each variable, so variables are shifted away from zero.
    origin = space.low - 1.0

    def residuals(shifted: Array) -> Array:
        vector = shifted + origin
        parameters = space.parameters(vector)
        parts = [
            np.sqrt(weight) * _robust(np.log(price_s(points, system, parameters)) - measured)
            for (points, system, weight), measured in zip(pool, logs, strict=True)
        ]
        return np.concatenate([*parts, (vector - centre) / width] if prior else parts)

    best = least_squares(
        residuals,
        centre - origin,
        bounds=(space.low - origin, space.high - origin),
        max_nfev=_MAX_EVALUATIONS,
        diff_step=1e-3,
        x_scale=width if prior else "jac",
    )
    deviation = _deviation(best.jac, width if prior else None)
    return FittedParameters(
        space.parameters(best.x + origin),
        dict(zip(space.names, (float(value) for value in deviation), strict=True)),
        float(best.cost),
    )


_MAX_EVALUATIONS = 40


def _robust(error: Array) -> Array:
    """Residuals whose squares are the soft-L1 loss in units of `ROBUST_SCALE`."""
    scaled = error / ROBUST_SCALE
    return np.asarray(np.sign(scaled) * np.sqrt(2.0 * (np.sqrt(1.0 + scaled**2) - 1.0)))


def _deviation(jacobian: Array, width: Array | None) -> Array:
    """Standard deviation of each logarithm, from the curvature at the optimum."""
    curvature = jacobian.T @ jacobian
    if width is None:
        curvature = curvature + np.eye(len(curvature)) / 10.0**2
    covariance = np.linalg.pinv(curvature)
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))
