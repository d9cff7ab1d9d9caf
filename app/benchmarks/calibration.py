"""Calibrations from results: several runs fit the engine, one sets the scale of its steps.

Both have a scope (one model, format, engine and system), are stored among the user's own
calibrations, and can be removed by giving the same results.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from app.benchmarks.comparison import Point, compare_one
from app.benchmarks.deployment import Deployment
from app.benchmarks.replayed_load import offered
from app.calibration import from_one_run, from_runs
from app.question import literals
from app.question.verbs import parameters_of
from app.scenario.points_file import Row
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from profilers.serving_results import ServingMeasurement


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The result of a calibration: recipes from several runs, or the step scale from one.

    date: of the calibration, YYYY-MM-DD.  left_out: a sentence on each unused run.
    """

    recipes: tuple[from_runs.RecipeCalibration, ...] = ()
    steps: from_one_run.StepFit | None = None
    date: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """A sentence on the calibration and on unused runs."""
        learnt = [
            f"{one.measured.model}, {from_runs.recipe_words(one.key)}: {from_runs.sentence(one)}"
            for one in self.recipes
        ]
        if self.steps:
            learnt = [self.steps.scale.sentence]
        return "; ".join((*learnt, *self.left_out))


def calibrate(
    deployments: Sequence[Deployment],
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Calibrated:
    """Calibrate with measured runs; runs that fail a check are left out.

    Raises:
        InvalidValue: something required is missing, a file contradicts what is priced, no run
            passes every check, or the runs measure nothing that can be fitted.
        Cancelled: `cancelled` returned True.
    """
    for one in deployments:
        _check(one)
    sound, left_out = _sound(deployments)
    today = date.today().isoformat()
    [first, *others] = sound
    if not others and not first.measurement.phase and (tpot := _tpot_s(first.measurement)):
        resolved, objects = offered(first)
        fitted = from_one_run.fit(resolved, tpot, objects, progress, cancelled)
        return Calibrated(steps=fitted, date=today, left_out=left_out)

    def meant(given: Mapping[str, Any]) -> dict[str, Any]:
        return {**given, **first.objects}

    rows = [row_of(one, number) for number, one in enumerate(sound, start=1)]
    learnt = tuple(from_runs.calibrate(rows, progress, meant))
    return Calibrated(learnt, date=today, left_out=left_out)


def _sound(deployments: Sequence[Deployment]) -> tuple[list[Deployment], tuple[str, ...]]:
    """The runs that pass every check, and a sentence on each other run."""
    points = [compare_one(one) for one in deployments]
    left_out = tuple(why for point in points if (why := point.contradiction or _at_depth(point)))
    sound = [point.deployment for point in points if not (point.failed or _at_depth(point))]
    if not sound:
        raise InvalidValue("; ".join(left_out))
    return sound, left_out


def _at_depth(point: Point) -> str:
    """Why a prefill after cached tokens is not used: a row of measured runs has no such tokens."""
    cached = point.deployment.load.context
    if point.measurement.phase != "prefill" or not cached:
        return ""
    return f"{point.label}: a prefill after {cached:,.0f} cached tokens cannot be calibrated from"


def keep(calibrated: Calibrated) -> list[Path]:
    """Store a calibration among the user's own; returns the files that hold it."""
    paths = [from_runs.keep(one) for one in calibrated.recipes]
    if calibrated.steps:
        paths.append(from_one_run.keep(calibrated.steps))
    return list(dict.fromkeys(paths))


def forget(deployments: Sequence[Deployment]) -> dict[str, bool]:
    """Remove the calibrations of the deployments: {recipe in words: whether there was one}."""
    from genz_core.deployment import recipe_key
    from hardware_db import recipes

    found: dict[str, bool] = {}
    for one in deployments:
        resolved = one.priced()
        key = recipe_key(resolved.engine, resolved.model, resolved.system)
        dropped = [recipes.forget_recipe(key), from_one_run.forget(resolved)]
        words = from_runs.recipe_words(key)
        found[words] = found.get(words, False) or any(dropped)
    return found


def row_of(one: Deployment, number: int) -> Row:
    """A run as a row of a points file with its measured figures.

    Raises:
        InvalidValue: it measures neither TTFT nor TPOT.
    """
    question, measurement = one.scenario, one.measurement
    known = parameters_of("estimate")
    stated = {name: value for name, value in question.changed().items() if name in known}
    stated |= {name: getattr(question, name) for name in ("model", "system")}
    row = {"id": f"run {number}"} | {name: literals.text(value) for name, value in stated.items()}
    if measurement.phase:
        return row | _alone(one)
    figures = {
        "measured_ttft_s": measurement.ttft_s.mean,
        "measured_tpot_s": _tpot_s(measurement),
    }
    if question.rate:
        row |= {from_runs.ANSWERED: f"{measurement.throughput.requests_per_s or question.rate:.9g}"}
    cells = {name: f"{value:.9g}" for name, value in figures.items() if value}
    if not cells:
        raise InvalidValue(f"{measurement.file}: no mean TTFT and no mean TPOT to calibrate from")
    return row | cells


def _alone(one: Deployment) -> Row:
    """The load and the figure of a prefill or a decode alone."""
    load, measurement = one.load, one.measurement
    batch = max(round(load.users), 1)
    rates = measurement.throughput
    if measurement.phase == "prefill":
        rate, tokens, name = rates.input_tokens_per_s, float(batch * load.isl), "measured_prefill_s"
    else:
        rate, tokens, name = rates.output_tokens_per_s, float(batch), "measured_decode_step_s"
    if not rate:
        raise InvalidValue(f"{measurement.file}: no tokens per second to calibrate from")
    isl, osl = max(load.isl, load.context, 1.0), max(load.osl, 1.0)
    return {
        "batch": str(batch), "isl": f"{isl:.0f}", "osl": f"{osl:.0f}", name: f"{tokens / rate:.9g}",
    }  # fmt: skip


def _tpot_s(measurement: ServingMeasurement) -> float | None:
    """The mean gap between tokens of a request, as in a predicted TPOT."""
    return measurement.decode_tpot_s.mean


def _check(one: Deployment) -> None:
    """Refuse a run that cannot be used for calibration."""
    one.priced()
    if one.differences:
        said = "; ".join(map(str, one.differences))
        raise InvalidValue(f"{one.measurement.file}: the file contradicts what is priced: {said}")
