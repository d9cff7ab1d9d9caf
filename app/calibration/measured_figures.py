"""Measured figures of runs, and the checks that they must pass before an engine is fitted to them.

The figures of a row must satisfy the checks of a measured result, repeats of a run must agree, and
the fit must explain the figures.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.answers.columns import COLUMNS
from app.calibration.from_one_run import LEAST, MOST
from app.scenario import points_file
from app.scenario.points_row import Point
from app.scenario.scenario import Resolved
from app.wording import quantities
from genz_core.calibration.engine_calibration import SPREAD
from genz_core.errors import InvalidValue
from genz_core.types import Array
from profilers.comparison import account
from profilers.serving_results import (
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
)

#: Expected spreads of a figure by which repeats of a run may differ.
_REPEATS = 2.0
#: Share of the difference between prediction and measurement that a fit must explain.
_LEAST_EXPLAINED = 0.05
#: The figure that includes the wait in a queue, which may be many times a prediction without one.
_WITH_WAIT = "ttft_s"
_UNITS = (
    "check the unit (the columns are in seconds), the model, its format, the split and the load; "
    "nothing is kept"
)


@dataclass(frozen=True, slots=True)
class MeasuredFigure:
    """One measured figure of one row.

    resolved: model, system and engine of the row.  metric: of `points_file.FIGURES`.
    """

    resolved: Resolved
    point: Point
    metric: str
    measured_s: float

    @property
    def words(self) -> str:
        """Row, name and value of the figure."""
        column = COLUMNS[points_file.FIGURES[self.metric].predicted]
        return f"{self.point.id}: {column.head} {quantities.seconds(self.measured_s)}"


def check_rows(figures: Sequence[MeasuredFigure]) -> None:
    """Refuse rows that contradict themselves or each other.

    Raises:
        InvalidValue: prefill, decode step and E2E of a row do not add up, or two rows of the same
            run differ by more than twice the expected spread of the figure.
    """
    by_row: dict[int, list[MeasuredFigure]] = {}
    repeats: dict[tuple[object, ...], list[MeasuredFigure]] = {}
    for one in figures:
        by_row.setdefault(id(one.point), []).append(one)
        same = one.point.query.question, tuple(one.point.numbers.items()), one.metric
        repeats.setdefault(same, []).append(one)
    for row in by_row.values():
        if wrong := account.failed(account.of_result(_as_result(row))):
            said = "; ".join(check.sentence for check in wrong)
            raise InvalidValue(f"{row[0].point.id}: the figures do not add up: {said}")
    for many in repeats.values():
        _check_repeats(many)


def _as_result(row: Iterable[MeasuredFigure]) -> ServingMeasurement:
    """The figures of a row as a measured result: requests of equal lengths."""
    [*figures] = row
    seconds = {one.metric: one.measured_s for one in figures}
    point = figures[0].point
    return ServingMeasurement(
        format="points file",
        subject=Subject(tool="points file"),
        load=MeasuredLoad(concurrency=point.numbers.get("concurrency")),
        lengths=Lengths(osl=Percentiles(float(point.question.osl), std=0.0)),
        ttft_s=Percentiles(seconds.get("ttft_s", seconds.get("prefill"))),
        tpot_s=Percentiles(seconds.get("tpot_s", seconds.get("decode"))),
        e2e_s=Percentiles(seconds.get("e2e")),
    )


def _check_repeats(figures: Sequence[MeasuredFigure]) -> None:
    least = min(figures, key=lambda one: one.measured_s)
    most = max(figures, key=lambda one: one.measured_s)
    apart = most.measured_s / least.measured_s
    if apart > math.exp(_REPEATS * SPREAD[least.metric]):
        raise InvalidValue(
            f"{least.words}, but {most.words}, {quantities.digits(apart)} times as much for the "
            "same deployment and load: state in the columns what differed, or leave out the wrong "
            "row"
        )


def check_explained(figures: Sequence[MeasuredFigure], before_s: Array, after_s: Array) -> None:
    """Refuse a fit that does not explain the figures.

    before_s, after_s: predictions of the figures before and after the fit [s], [figures].

    Raises:
        InvalidValue: a figure other than TTFT is less than a tenth or more than ten times its
            prediction after the fit, or the fit explains nothing of a difference beyond the
            expected spread.
    """
    measured = np.array([one.measured_s for one in figures])
    ratios = measured / after_s
    far = np.abs(np.log(ratios))
    bounded = np.array([one.metric != _WITH_WAIT for one in figures])
    at = int(np.argmax(np.where(bounded, far, 0.0)))
    if bounded[at] and not LEAST <= ratios[at] <= MOST:
        raise InvalidValue(f"{_beside(figures, ratios, at)}, even after the fit: {_UNITS}")
    spread = np.array([SPREAD[one.metric] for one in figures])
    before = float(np.mean(np.abs(np.log(before_s / measured)) / spread))
    after = float(np.mean(far / spread))
    if after > 1.0 and after > before * (1.0 - _LEAST_EXPLAINED):
        raise InvalidValue(
            f"no constants of the engine explain these {len(figures)} figures, the error after the "
            f"fit is as large as before it ({_beside(figures, ratios, int(np.argmax(far)))}): "
            f"{_UNITS}"
        )


def _beside(figures: Sequence[MeasuredFigure], ratios: Array, at: int) -> str:
    """A figure beside its prediction in words.  ratios: measured over predicted, [figures]."""
    return f"{figures[at].words} is {quantities.digits(ratios[at])} times the prediction"
