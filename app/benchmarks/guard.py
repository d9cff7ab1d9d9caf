"""A gate for continuous integration: whether a result is worse than it should be, and why.

Two judges: the prediction (a figure beyond the bad end of its interval at a level) and a baseline,
another result of the same deployment and load (a figure worse than its own there by more than
noise, or missing although the baseline has it).  A run that fails a consistency check is judged by
neither.  Noise is
the standard error of both means, for a percentile the range of ranks that chance explains, or the
spread of repeated baselines; it is at least `tolerance`, an assumption about how much runs of one
deployment differ.  A percentile with too few requests beyond it is not judged.  A result better
than predicted is reported but does not fail.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np

from app.answers.columns import COLUMNS
from app.benchmarks import baseline as earlier_runs
from app.benchmarks.comparison import Comparison, Point, Row, measured_figures, rows_of
from app.benchmarks.levels import quantile
from genz_core.errors import InvalidValue
from profilers.serving_results import Percentiles, ServingMeasurement

#: Assumed relative difference between runs of one deployment, unless given.
TOLERANCE = 0.05
Judge = Literal["prediction", "baseline"]
Outcome = Literal["pass", "fail", "missing", "better"]
_OUTCOMES: Mapping[str, Outcome] = {"inside": "pass", "worse": "fail", "better": "better"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judgement on a figure.

    allowed: the worst value that passes, SI units.  reference: the prediction, or the baseline's
    figure.  outcome "missing": the baseline has the figure and the result does not (`measured` is
    NaN).
    """

    run: str
    figure: str
    judge: Judge
    outcome: Outcome
    measured: float
    reference: float
    allowed: float

    @property
    def sentence(self) -> str:
        """The verdict in words."""
        column = COLUMNS[self.figure]
        if self.outcome == "missing":
            return (
                f"{self.run}: {column.head} is missing, the baseline's is "
                f"{column.words(self.reference)}"
            )
        share = self.measured / self.reference - 1.0
        against = "predicted" if self.judge == "prediction" else "the baseline's"
        words = (
            f"{self.run}: {column.head} {column.words(self.measured)}, "
            f"{against} {column.words(self.reference)} ({share:+.1%})"
        )
        if self.outcome == "fail":
            return f"{words}, worse than the limit of {column.words(self.allowed)}"
        if self.outcome == "better":
            return f"{words}, better than expected"
        return words

    def to_dict(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self.__slots__},
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class Guarded:
    """All verdicts on a result.

    unjudged: sentences on figures that could not be judged, and the notes of the files.
    """

    verdicts: tuple[Verdict, ...]
    level: float
    unjudged: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[Verdict, ...]:
        return tuple(one for one in self.verdicts if one.outcome in ("fail", "missing"))

    @property
    def better(self) -> tuple[Verdict, ...]:
        return tuple(one for one in self.verdicts if one.outcome == "better")

    @property
    def passed(self) -> bool:
        return not self.failed

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        judged = len(self.verdicts)
        if self.failed:
            return (
                f"failed: {len(self.failed)} of {judged} figures are worse than expected or missing"
            )
        also = f", {len(self.better)} of them better than expected" if self.better else ""
        return f"passed: {judged} figures are no worse than expected{also}"


def guard(
    compared: Comparison,
    baseline: Sequence[ServingMeasurement] = (),
    tolerance: float = TOLERANCE,
) -> Guarded:
    """Judge results.

    Args:
        compared: the results beside their predictions, at the level to judge by.
        baseline: earlier results; several of one load are repeats of it.
        tolerance: relative difference between runs of one deployment that is ignored.

    Raises:
        InvalidValue: no figure could be judged, or an invalid tolerance.
    """
    if not 0.0 <= tolerance < 1.0:
        raise InvalidValue(f"tolerance = {tolerance:g}: give a share from 0 to 1")
    verdicts: list[Verdict] = []
    unjudged: list[str] = []
    for point in compared.points:
        if point.contradiction:
            unjudged.append(f"not judged: {point.contradiction}")
            continue
        if point.refused:
            unjudged.append(f"not judged by the prediction: {point.refusal}")
        elif point.deployment.differences:
            said = "; ".join(map(str, point.deployment.differences))
            unjudged.append(f"{point.label}: not judged by the prediction: {said}")
        else:
            verdicts += _by_prediction(point)
        if baseline:
            same, unused = earlier_runs.usable(point.measurement, baseline)
            verdicts += _by_baseline(point, same, compared.level, tolerance)
            unjudged += unused
            if not (same or unused):
                unjudged.append(f"{point.label}: the baseline has no run of this load")
    if not verdicts:
        why = "; ".join(dict.fromkeys(unjudged)) or "no figure has an interval: give --baseline"
        raise InvalidValue(f"nothing can be judged: {why}")
    noted = (f"{one.label}: {note}" for one in compared.points for note in one.measurement.notes)
    notes = dict.fromkeys((*unjudged, *noted))
    return Guarded(tuple(verdicts), compared.level, tuple(notes))


def _by_prediction(point: Point) -> list[Verdict]:
    """Verdicts on the figures that have an interval."""
    return [
        Verdict(
            point.label,
            row.figure,
            "prediction",
            _OUTCOMES[row.place],
            row.measured,
            row.predicted.value,
            row.predicted.low if row.is_rate else row.predicted.high,
        )
        for row in point.rows
        if row.place in _OUTCOMES
    ]


# ------------------------------------------------------------------------------- the baseline


def _by_baseline(
    point: Point, same: Sequence[ServingMeasurement], level: float, tolerance: float
) -> list[Verdict]:
    """Verdicts on the figures that earlier runs of the same deployment and load also have."""
    found = []
    for row in (*point.rows, *_missing(point, same)):
        earlier = [
            (one, value)
            for one in same
            if (value := measured_figures(one).get(row.figure)) is not None
        ]
        if not earlier:
            continue
        reference = fmean(value for _, value in earlier)
        noise = _noise(row, point.measurement, earlier, level)
        if math.isinf(noise):
            continue
        found.append(_against(point.label, row, reference, max(noise, tolerance)))
    return found


def _missing(point: Point, same: Sequence[ServingMeasurement]) -> tuple[Row, ...]:
    """Rows without a measured value of the figures that every baseline has and the result lacks."""
    every = [list(measured_figures(one)) for one in same]
    shared = [name for name in every[0] if all(name in one for one in every)] if every else []
    return rows_of({name: math.nan for name in shared if point.row(name) is None}, {})


def _against(run: str, row: Row, reference: float, noise: float) -> Verdict:
    """The verdict on a figure that may be worse than its reference by a given share."""
    worst = reference / (1.0 + noise) if row.is_rate else reference * (1.0 + noise)
    best = reference * (1.0 + noise) if row.is_rate else reference / (1.0 + noise)
    worse = row.measured < worst if row.is_rate else row.measured > worst
    better = row.measured > best if row.is_rate else row.measured < best
    outcome: Outcome = "fail" if worse else "better" if better else "pass"
    if math.isnan(row.measured):
        outcome = "missing"
    return Verdict(run, row.figure, "baseline", outcome, row.measured, reference, worst)


def _noise(
    row: Row,
    measured: ServingMeasurement,
    earlier: Sequence[tuple[ServingMeasurement, float]],
    level: float,
) -> float:
    """Share of the reference that chance explains at a level.

    0 where it is unknown, infinity where a percentile has too few requests to be judged.  Repeats
    give it by their spread; single runs by the standard errors of their means, as if requests were
    independent.
    """
    values = [value for _, value in earlier]
    if len(values) > 2:
        spread = stdev(values) / fmean(values) * math.sqrt(1.0 + 1.0 / len(values))
        return quantile(level) * spread
    if row.is_rate:
        return 0.0
    stem, _, what = row.figure.removesuffix("_s").partition("_")
    latency = f"{stem}_s"
    if what != "mean":
        return _percentile_noise(earlier[0][0], latency, float(what[1:]), level)
    errors = [_relative_error(getattr(one, latency), one) for one in (measured, earlier[0][0])]
    return quantile(level) * math.hypot(*errors)


def _percentile_noise(
    measurement: ServingMeasurement, latency: str, percent: float, level: float
) -> float:
    """How much larger a percentile may come out by chance, as a share of it.

    Chance changes its rank by the standard error of a binomial share, for two runs; the value there
    is interpolated between known percentiles.  Infinity where that rank lies beyond them.
    """
    spread: Percentiles = getattr(measurement, latency)
    count = measurement.load.completed or measurement.load.requests or spread.count
    if not count:
        return 0.0
    share = percent / 100.0
    rank = percent + 100.0 * quantile(level) * math.sqrt(2.0 * share * (1.0 - share) / count)
    known = [(at, value) for at, value in spread.at.items() if at >= percent]
    if not known or rank > known[-1][0]:
        return math.inf
    ranks, values = ([pair[side] for pair in known] for side in (0, 1))
    return float(np.interp(rank, ranks, values)) / values[0] - 1.0


def _relative_error(spread: Percentiles, measurement: ServingMeasurement) -> float:
    """Relative standard error of a mean; 0 where it is not known."""
    count = spread.count or measurement.load.completed or measurement.load.requests
    if not (spread.mean and spread.std and count):
        return 0.0
    return spread.std / spread.mean / math.sqrt(count)
