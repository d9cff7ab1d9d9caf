"""Where the time of a measured request goes, against bound, prediction and the best known run."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.benchmarks.closed_form import Predicted, predict
from app.benchmarks.comparison import Comparison, Point, Row
from app.benchmarks.deployment import Deployment
from app.measuring.best_runs import Best, best_served
from app.measuring.time_report import Spent, TimeReport, alternatives, ranked, worth
from app.scenario.intervals import Ranged
from app.scenario.pools import devices_of
from app.scenario.scenario import resolve
from app.scenario.served_rows import kept_step_scale
from genz_core.deployment import bulk_format
from genz_core.errors import InvalidValue

#: The figures to judge a change by; the first that a run has is used.
_JUDGED = ("e2e_mean_s", "tpot_mean_s", "tpot_p50_s", "ttft_mean_s", "ttft_p50_s")


def of_point(point: Point) -> TimeReport | None:
    """The report of a run; None if nothing is predicted, a check fails, or the user's parameters
    contradict the file.
    """
    one, prediction, judged = point.deployment, point.prediction, _judged(point)
    if prediction is None or judged is None or not (parts := _parts(point)):
        return None
    name, base = judged.figure, prediction.figures[judged.figure]

    kept = kept_step_scale(one.priced())
    learnt = one.scenario.step_scale or (kept.scale if kept else None)

    def priced(change: Mapping[str, Any]) -> Ranged:
        # what the run itself taught holds on both sides of a change, of the format too
        question = replace(one.scenario, **{"step_scale": learnt, **change})
        changed = replace(one, scenario=question, resolved=resolve(question, one.objects))
        after = predict(changed, prediction.level)
        if after.status != prediction.status:
            raise InvalidValue(f"it is {after.status}")
        return _latency(after.figures[name])

    options = alternatives(prediction.resolved, served=not one.measurement.phase)
    if prediction.status != "ok":  # a run that was simulated once, to its end
        options = iter(())
    whole = point.row("e2e_mean_s")
    total = whole.measured if whole else sum(part.measured_s for part in parts)
    of = "a request" if not one.measurement.phase else f"a {one.measurement.phase}"
    changes = worth(options, judged.measured, _latency(base), priced)
    return TimeReport(of, total, ranked(parts), changes, judged.column.head)


def reportable(comparison: Comparison) -> list[Point]:
    """The runs for which a report is possible; a report prices the changes to its run."""
    return [point for point in comparison.points if _judged(point) and _parts(point)]


def reports(comparison: Comparison) -> list[tuple[Point, TimeReport]]:
    """Every run for which a report is possible, with the report."""
    found = ((point, of_point(point)) for point in comparison.points)
    return [(point, report) for point, report in found if report is not None]


def _judged(point: Point) -> Row | None:
    """The row of the predicted figure to judge a change by; None if the run has no report."""
    prediction = point.prediction
    if prediction is None or point.failed or point.deployment.differences:
        return None
    judged = next((row for name in _JUDGED if (row := point.row(name))), None)
    return judged if judged and judged.figure in prediction.figures else None


def _latency(one: Predicted) -> Ranged:
    return Ranged(float(one.value), float(one.low), float(one.high))


def _parts(point: Point) -> list[Spent]:
    """The parts of a request: its first token, and all further tokens.

    Of a run that states only one of them and E2E, the other is the rest of E2E.
    """
    phase = point.measurement.phase
    lengths = point.measurement.lengths.osl.typical or point.deployment.load.mean_osl
    gaps = 1.0 if phase else max(float(lengths or 0.0) - 1.0, 0.0)
    times = {"ttft": 1.0, "tpot": gaps}
    rows = {name: point.row(f"{name}_mean_s") or point.row(f"{name}_p50_s") for name in times}
    measured = {name: row.measured * times[name] for name, row in rows.items() if row}
    whole, words = point.row("e2e_mean_s"), dict(_PARTS)
    if whole and gaps and len(measured) == 1:
        [(known, seconds)] = measured.items()
        [rest] = set(times) - {known}
        measured[rest] = whole.measured - seconds
        if row := rows[known]:
            words[rest] += f" ({whole.column.head} less {row.column.head})"
    found = []
    for name, part in words.items():
        if not measured.get(name, 0.0) > 0.0:
            continue
        row, often = rows[name], times[name]
        one = row.predicted if row else _predicted(point, f"{name}_mean_s")
        if row and row.figure.endswith("_p50_s"):
            part = f"{part}, by the median"
        best = best_known(point.deployment, f"{name}_s")
        found.append(
            Spent(
                part, measured[name], one.bound * often, one.value * often,
                best.seconds * often if best else math.nan, best.run if best else "",
            )
        )  # fmt: skip
    return found


_PARTS = {"ttft": "the first token", "tpot": "all further tokens"}


def _predicted(point: Point, figure: str) -> Predicted:
    """A figure of a run as it is predicted, whether or not it was measured."""
    figures = point.prediction.figures if point.prediction else {}
    return figures.get(figure, Predicted(math.nan))


def best_known(one: Deployment, figure: str) -> Best | None:
    """The smallest measured mean "ttft_s" or "tpot_s" of a deployment's model and device near its
    load; None without any, or for other figures.
    """
    if figure not in ("ttft_s", "tpot_s"):
        return None
    if one.resolved is None or one.measurement.phase or not one.load.users:
        return None
    q = one.scenario
    return best_served(
        figure, one.resolved.model.name, one.resolved.system.slug,
        bulk_format(one.resolved.model), sum(devices_of(q)),
        isl=one.load.mean_isl, osl=one.load.mean_osl, concurrency=one.load.users,
    )  # fmt: skip
