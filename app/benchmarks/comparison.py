"""Measured figures against predicted ones: inside the interval or not, and whether below the bound.

Every figure of a result is a row: the mean and percentiles of each latency, and the rates.  The
closed form predicts some with an interval; the simulation, if it is requested, all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from app.answers.column import Column
from app.answers.columns import COLUMNS
from app.benchmarks import names
from app.benchmarks.closed_form import RATES, Predicted, Prediction, predict
from app.benchmarks.deployment import Deployment
from app.scenario.results import ResultTable
from genz_core.errors import RidgelineError
from genz_core.steps.step_correction import least_scale
from profilers.comparison import account
from profilers.comparison.account import Check
from profilers.serving_results import LATENCIES, ServingMeasurement

#: Where a measured figure lies.  "below bound": faster than physics allows, so the run was not the
#: deployment that is priced, or the figure has another meaning than its name.
Place = Literal["inside", "better", "worse", "below bound", "not validated", "not predicted"]
#: Percentiles that are compared.
PERCENTS = (50.0, 90.0, 95.0, 99.0)
_ROUNDING = 1e-3
#: Other explanations of a figure beyond what the hardware allows.
BEYOND = (
    "the run used another model, format, parallelism or device, hit the prefix cache, accepted "
    "drafts, or its tool counts differently"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A measured figure and its predictions, SI units, NaN where there is none.

    figure: "ttft_mean_s", "tpot_p99_s", "output_tokens_per_s".  simulated: of the simulation.
    """

    figure: str
    measured: float
    predicted: Predicted
    simulated: float = math.nan

    @property
    def column(self) -> Column:
        """The declaration of the figure."""
        return COLUMNS[self.figure]

    @property
    def is_rate(self) -> bool:
        return self.figure in RATES

    @property
    def ratio(self) -> float:
        """Measured over predicted, NaN where nothing is predicted."""
        return self.measured / self.predicted.value

    @property
    def place(self) -> Place:
        """The position of the measured figure; for a rate, "worse" means less."""
        one = self.predicted
        if not math.isfinite(one.value):
            return "not predicted"
        if self._beyond_bound():
            return "below bound"
        if not (math.isfinite(one.low) and math.isfinite(one.high)):
            return "not validated"
        if one.low <= self.measured <= one.high:
            return "inside"
        above = self.measured > one.high
        return "worse" if above != self.is_rate else "better"

    def _beyond_bound(self) -> bool:
        bound = self.predicted.bound
        if not math.isfinite(bound) or bound <= 0:
            return False
        if self.is_rate:
            return self.measured > bound * (1.0 + _ROUNDING)
        return self.measured < bound * (1.0 - _ROUNDING)

    def to_dict(self) -> dict[str, Any]:
        """The row as `ridgeline compare --json` prints it."""
        one = self.predicted
        return {
            "figure": self.figure,
            "measured": self.measured,
            "predicted": one.value,
            "low": one.low,
            "high": one.high,
            "bound": one.bound,
            "ratio": self.ratio,
            "place": self.place,
            "simulated": self.simulated,
            "basis": one.basis,
        }


@dataclass(frozen=True, slots=True)
class Point:
    """A measured run with its prediction.

    refused: why nothing is predicted, "" where something is.
    checks: consistency checks of the run; that of the hardware only where something is predicted.
    """

    deployment: Deployment
    rows: tuple[Row, ...]
    prediction: Prediction | None = None
    refused: str = ""
    checks: tuple[Check, ...] = ()

    @property
    def measurement(self) -> ServingMeasurement:
        return self.deployment.measurement

    @property
    def load_value(self) -> float:
        """Concurrency or rate of the run."""
        return float(self.deployment.load.rate or self.deployment.load.users)

    @property
    def label(self) -> str:
        """The file, label and load that identify this run."""
        file = self.measurement.file
        return f"{file}, {self.in_its_file}" if file else self.in_its_file

    @property
    def in_its_file(self) -> str:
        """The label and load that identify this run within its file."""
        m = self.measurement
        named = (m.subject.label, self.deployment.load.words, m.phase)
        return ", ".join(part for part in named if part)

    @property
    def refusal(self) -> str:
        """Why nothing is predicted, and for which file or run; "" where something is."""
        needs = self.deployment.resolved is None
        return self.refused if needs or not self.refused else f"{self.label}: {self.refused}"

    @property
    def failed(self) -> tuple[Check, ...]:
        """The failed checks; a run with any is not used for calibration."""
        return account.failed(self.checks)

    @property
    def contradiction(self) -> str:
        """The failed checks in words, with the run; "" where all pass."""
        said = "; ".join(one.sentence for one in self.failed)
        return f"{self.label}: a run that fails its checks is not used: {said}" if said else ""

    def row(self, figure: str) -> Row | None:
        """The row of a figure, None where the result has none."""
        return next((row for row in self.rows if row.figure == figure), None)


@dataclass(frozen=True, slots=True, eq=False)
class Comparison(ResultTable):
    """Runs with their predictions.  level: share of runs within an interval."""

    points: tuple[Point, ...]
    level: float
    notes: tuple[str, ...] = field(default=())

    def label(self, point: Point) -> str:
        """Text that identifies a run among the others; within one file, its label and load."""
        files = {one.measurement.file for one in self.points}
        return point.label if len(files) > 1 else point.in_its_file

    @property
    def sums(self) -> list[Check]:
        """The checks of all runs; for several runs, each check names its run."""
        several = len(self.points) > 1
        return [
            replace(one, name=f"{one.name} ({self.label(point)})")
            if several and one.outcome != "not made" else one
            for point in self.points for one in point.checks
        ]  # fmt: skip

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per figure of every run, with everything known about it."""
        return [
            {"run": point.label, **row.to_dict()} for point in self.points for row in point.rows
        ]

    @property
    def predicted(self) -> tuple[Point, ...]:
        """The runs with any prediction."""
        return tuple(point for point in self.points if point.prediction)

    @property
    def sound(self) -> tuple[Point, ...]:
        """The predicted runs that pass every check, so findings may use them."""
        return tuple(point for point in self.predicted if not point.failed)


def compare(deployments: Sequence[Deployment], level: float = 0.8) -> Comparison:
    """Compare measured runs with the closed form; a run that cannot be priced states why."""
    return Comparison(tuple(compare_one(one, level) for one in deployments), level)


def compare_one(deployment: Deployment, level: float = 0.8) -> Point:
    """Compare a measured run with the closed form, and make its checks."""
    figures = measured_figures(deployment.measurement)
    checks = account.of_result(deployment.measurement)
    try:
        prediction = predict(deployment, level)
    except RidgelineError as error:
        return Point(deployment, rows_of(figures, {}), refused=str(error), checks=checks)
    rows = rows_of(figures, prediction.figures)
    checks = (*checks, *_bytes(deployment), _hardware(rows))
    return Point(deployment, rows, prediction, checks=checks)


def _bytes(deployment: Deployment) -> tuple[Check, ...]:
    """Check of the bits per weight in the file against the priced format, where both are known."""
    subject = deployment.measurement.subject
    bits = subject.bits_per_weight
    priced = deployment.scenario.weights or names.weight_format(subject.precision)
    if not bits or not priced:
        return ()
    outcome: account.Outcome = "passed" if names.holds(priced, bits) else "failed"
    why = "" if outcome == "passed" else "the weights are in another format than stated"
    right = names.bits_of(priced)
    return (Check("bytes over parameters = bits of the format", outcome, bits, right, "bits", why),)


_HARDWARE = "no figure beyond the hardware"


def _hardware(rows: Sequence[Row]) -> Check:
    """Check of every figure against its bound, and of TPOT against the bandwidth that kernels
    reach.

    The check reports the figure that exceeds its limit the most.
    """
    worst: tuple[float, Row, float] | None = None
    for row in rows:
        bound = row.predicted.bound
        if not math.isfinite(bound) or bound <= 0:
            continue
        limit = bound
        if row.figure in ("tpot_mean_s", "itl_mean_s"):
            limit = _reached_s(bound)
        beyond = row.measured / limit if row.is_rate else limit / row.measured
        if worst is None or beyond > worst[0]:
            worst = beyond, row, limit
    if worst is None:
        return Check(_HARDWARE, "not made", why="no figure has a bound")
    beyond, row, limit = worst
    outcome: account.Outcome = "failed" if beyond > 1.0 + _ROUNDING else "passed"
    unit, scale = ("/s", 1.0) if row.is_rate else ("ms", 1e3)
    name = f"{_HARDWARE}: {row.column.head}"
    why = BEYOND if outcome == "failed" else ""
    return Check(name, outcome, row.measured * scale, limit * scale, unit, why)


def _reached_s(bound: float) -> float:
    """The least time of a decode step [s] from its bound, at the bandwidth that kernels reach."""
    twice = np.array([2.0 * bound])
    return float((twice * least_scale(twice, np.array([bound])))[0])


def rows_of(
    figures: Mapping[str, float],
    predicted: Mapping[str, Predicted],
    simulated: Mapping[str, float] | None = None,
) -> tuple[Row, ...]:
    """One row per measured figure."""
    none = Predicted(math.nan)
    return tuple(
        Row(name, value, predicted.get(name, none), (simulated or {}).get(name, math.nan))
        for name, value in figures.items()
    )


def measured_figures(measurement: ServingMeasurement) -> dict[str, float]:
    """Every figure of a result by name, SI units: "ttft_mean_s", "ttft_p99_s", "requests_per_s"."""
    named = dict(_latency_figures(measurement))
    for rate in RATES:
        value = getattr(measurement.throughput, rate)
        if value is not None and math.isfinite(value) and value > 0:
            named[rate] = float(value)
    return named


def _latency_figures(measurement: ServingMeasurement) -> Iterator[tuple[str, float]]:
    spreads = {name: getattr(measurement, name) for name in LATENCIES}
    spreads["tpot_s"] = measurement.decode_tpot_s
    for latency, spread in spreads.items():
        stem = latency.removesuffix("_s")
        known = {"mean": spread.mean, **{f"p{at:g}": spread.at.get(at) for at in PERCENTS}}
        for what, value in known.items():
            if value is not None and math.isfinite(value) and value > 0:
                yield f"{stem}_{what}_s", float(value)
