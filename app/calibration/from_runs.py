"""Calibrate an engine with the user's own runs: rows of a points file with measured figures.

Rows (see `app.scenario.points_file`, with additional "measured_..." columns) of one engine, model,
weight format and system are fitted together.  The result is saved as the user's recipe; every later
prediction of these four uses it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import hardware_db
from app.answers.columns import COLUMNS
from app.calibration.measured_figures import MeasuredFigure, check_explained, check_rows
from app.question.parameters import PARAMETERS
from app.question.query import Sources
from app.question.question import Question
from app.question.validity import has_pool
from app.scenario import points_file
from app.scenario.points_row import Point, parse
from app.scenario.scenario import Resolved, resolve
from app.scenario.served_rows import deployed, prefill_pool, served
from genz_core.calibration.engine_calibration import SCALES, EngineCalibration, calibrate_engine
from genz_core.common.progress import Progress, silent
from genz_core.deployment import as_measured, recipe_key
from genz_core.engine import EngineProfile, MeasuredRecipe, RecipeKey
from genz_core.errors import InvalidValue
from genz_core.serving.traffic import OVERLOADED
from genz_core.types import Array
from genz_core.workload import WITH_TIMES
from hardware_db import recipes


def _column(metric: str) -> str:
    """The column for a metric's measured seconds: "measured_ttft_s"."""
    return f"measured_{points_file.FIGURES[metric].predicted}"


#: Metric by column.
METRICS: Mapping[str, str] = {_column(metric): metric for metric in points_file.FIGURES}
#: Columns by kind of run.
KINDS: Mapping[str, tuple[str, ...]] = {
    "Under load": tuple(_column(metric) for metric in points_file.FIGURES if metric in SCALES),
    "Static batch": tuple(
        _column(metric) for metric in points_file.FIGURES if metric not in SCALES
    ),
}
#: Column titles for readers.
LABELS: Mapping[str, str] = {
    _column(metric): f"{COLUMNS[one.predicted].head} [ms]"
    for metric, one in points_file.FIGURES.items()
}


@dataclass(frozen=True, slots=True)
class RecipeCalibration:
    """The fit of an engine to the runs of one recipe.

    runs: the measured figures.  measured: the recipe to save.  before_s, after_s: predictions of
    the figures [s], [runs].
    """

    key: RecipeKey
    runs: tuple[MeasuredFigure, ...]
    fit: EngineCalibration
    measured: MeasuredRecipe
    before_s: Array
    after_s: Array


def with_scenario(scenario: Question, rows: Sequence[points_file.Row]) -> list[points_file.Row]:
    """Rows with load and figures, completed with a scenario's names, degrees and lengths."""
    stated = {name: value for name, value in scenario.changed().items() if name != "batch"}
    defaults = {name: str(value) for name, value in stated.items() if name in PARAMETERS}
    defaults |= {name: str(getattr(scenario, name)) for name in ("model", "system", "isl", "osl")}
    return [{**defaults, **row} for row in rows]


def calibrate(
    rows: Sequence[points_file.Row],
    progress: Progress = silent,
    sources: Sources = dict,
) -> list[RecipeCalibration]:
    """Fit the engine of every recipe in `rows` to its measured figures.

    progress: called with the completed share and the current recipe.  sources: resolves models and
    systems; by default it opens no file.

    Raises:
        InvalidValue: a row measures nothing or cannot be priced, a figure contradicts physics,
            rows contradict themselves or each other, or no fit explains them.
    """
    by_recipe: dict[RecipeKey, list[MeasuredFigure]] = {}
    for at, row in enumerate(rows, start=1):
        label = row.get("id") or f"row {at}"
        point = parse(row, label, sources)
        resolved = deployed(point.query)
        _refuse_two_recipes(label, resolved)
        if point.load == "rate" and _nearly_full(resolved, point):
            point = parse(_as_open_requests(row, resolved, point), label, sources)
            resolved = deployed(point.query)
        key = _key(resolve(point.query.question, point.query.objects))
        by_recipe.setdefault(key, []).extend(_measured(row, point, resolved))
    if not by_recipe:
        raise InvalidValue(f"no runs: give one row per run, with {' or '.join(METRICS)}")
    calibrations = []
    for at, (key, runs) in enumerate(by_recipe.items()):

        def recipe_progress(share: float, at: int = at, key: RecipeKey = key) -> None:
            progress((at + share) / len(by_recipe), recipe_words(key))

        calibrations.append(_fitted(key, runs, recipe_progress))
    return calibrations


def _refuse_two_recipes(label: str, resolved: Resolved) -> None:
    """Raise `InvalidValue` if prefill runs under another recipe: one fit cannot separate the
    two.
    """
    if not has_pool(resolved.scenario):
        return
    read_by = prefill_pool(resolved).resolved
    if _key(read_by) != _key(resolved):
        raise InvalidValue(
            f"{label}: prefill runs on {recipe_words(_key(read_by))} and decode on "
            f"{recipe_words(_key(resolved))}: one fit cannot separate two different pools; leave "
            "out prefill_system and prefill_weights, or fit runs of each pool alone"
        )


def keep(calibration: RecipeCalibration) -> Path:
    """Save a calibration among the user's recipes; returns its file."""
    return recipes.keep_recipe(calibration.key, calibration.measured)


def forget(path: Path, sources: Sources = dict) -> dict[RecipeKey, bool]:
    """Delete the user's recipes named in a CSV: {recipe: whether there was one}."""
    rows = enumerate(points_file.read(path))
    asked = [parse(row, str(at), sources).query for at, row in rows]
    keys = [_key(resolve(one.question, one.objects)) for one in asked]
    return {key: recipes.forget_recipe(key) for key in dict.fromkeys(keys)}


def _key(resolved: Resolved) -> RecipeKey:
    return recipe_key(resolved.engine, resolved.model, resolved.system)


def recipe_words(key: RecipeKey) -> str:
    """Engine, system and weight format of a recipe as text."""
    return f"{key.engine} on {key.system}, {key.weights} weights"


def sentence(calibration: RecipeCalibration) -> str:
    """Mean error before and after a calibration, in a sentence."""
    before, after = calibration.fit.before, calibration.fit.after
    return (
        f"Mean error of the {after.points} figures: {before.mape:.1%} before, {after.mape:.1%} "
        "after. Page Accuracy (After your own runs) shows how much such a calibration improves "
        "other runs."
    )


def figure_rows(calibration: RecipeCalibration) -> list[dict[str, Any]]:
    """Measured figures with predictions before and after the fit [s], and their relative errors."""
    return [
        {
            "run": run.point.id,
            "figure": run.metric,
            "measured_s": run.measured_s,
            "before_s": float(before),
            "after_s": float(after),
            "error_before": float(before / run.measured_s - 1.0),
            "error_after": float(after / run.measured_s - 1.0),
        }
        for run, before, after in zip(
            calibration.runs, calibration.before_s, calibration.after_s, strict=True
        )
    ]


def constant_rows(calibration: RecipeCalibration) -> list[dict[str, Any]]:
    """Constants and scales: factor and relative standard deviation of each."""
    rows = [
        {"constant": name, "factor": factor, "uncertainty": calibration.fit.uncertainty[name]}
        for name, factor in calibration.fit.factors.items()
    ]
    scales = {"tpot_scale": calibration.fit.tpot_scale, "ttft_scale": calibration.fit.ttft_scale}
    rows += [
        {"constant": name, "factor": factor, "uncertainty": float("nan")}
        for name, factor in scales.items()
    ]
    return sorted(rows, key=lambda row: -abs(float(np.log(row["factor"]))))


#: Column for the completed requests/s of a run that ended: fewer than arrived.
ANSWERED = "measured_requests_per_s"
#: A run whose rate exceeds this share of the predicted sustained rate is fitted by its number of
#: open requests, so that every trial of the fit can sustain its load.
_FULL = 0.5


def _nearly_full(resolved: Resolved, point: Point) -> bool:
    """Whether a run's rate is near or above the predicted sustained rate of the deployment."""
    rate = {"rate": np.array([point.numbers["rate"] / _FULL])}
    return str(served(replace(resolved, scenario=point.question), rate).status[0]) == OVERLOADED


def _as_open_requests(row: points_file.Row, resolved: Resolved, point: Point) -> points_file.Row:
    """A run at a rate as the closed loop with as many open requests, by Little's law.

    If only one latency was measured, the engine's largest number of running requests is used.
    """
    question = point.question
    first, gap = (row.get(f"measured_{name}_s", "") for name in ("ttft", "tpot"))
    try:
        answered = float(row.get(ANSWERED) or point.numbers["rate"])
        users = answered * (float(first) + float(gap) * (question.osl - 1))
    except ValueError:
        full = replace(resolved, scenario=question)
        users = float(served(full).running[0])
    kept = {name: cell for name, cell in row.items() if name not in ("rate", "burstiness")}
    return {**kept, "concurrency": f"{max(users, 1.0):.0f}"}


def _measured(row: points_file.Row, point: Point, resolved: Resolved) -> Iterator[MeasuredFigure]:
    """The measured figures of a row."""
    label = point.id
    cells = {name: row[name] for name in METRICS if row.get(name)}
    columns = KINDS["Static batch" if point.load == "batch" else "Under load"]
    if not cells:
        examples = " or ".join(f"{LABELS[name].partition(' [')[0]} ({name})" for name in columns)
        raise InvalidValue(f"{label} has no measured figure: give {examples}")
    for name, text in cells.items():
        if name not in columns:
            raise InvalidValue(
                f"{label}: with a {point.load}, give {' or '.join(columns)}, not {name}"
            )
        try:
            seconds = float(text)
        except ValueError:
            seconds = float("nan")
        if not 0 < seconds < float("inf"):
            raise InvalidValue(f"{label}: {name} = {text!r} is not a positive number of seconds")
        yield MeasuredFigure(resolved, point, METRICS[name], seconds)


def _fitted(
    key: RecipeKey, runs: list[MeasuredFigure], progress: Callable[[float], None]
) -> RecipeCalibration:
    """Fit the engine to the runs, starting from its shipped constants for this device and
    recipe.
    """
    check_rows(runs)
    shipped = recipes.load_recipe(key, own=False)
    first = runs[0].resolved
    engine = as_measured(hardware_db.load_engine(key.engine, own=False), first.model, first.system)
    scales, factors = engine.recipe, shipped.factors if shipped else {}

    def predicted(tried: EngineProfile) -> Array:
        return _priced(runs, tried, "predicted")

    fit = calibrate_engine(
        engine,
        predicted,
        np.array([run.measured_s for run in runs]),
        [run.metric for run in runs],
        bound_s=_priced(runs, engine, "bound"),
        progress=progress,
    )
    fitted = replace(
        scales,
        tpot_scale=scales.tpot_scale * fit.tpot_scale,
        ttft_scale=scales.ttft_scale * fit.ttft_scale,
        points=len({id(run.point) for run in runs if run.point.load != "batch"}),
    )
    before_s = predicted(engine)
    after_s = _priced(runs, replace(fit.engine, recipe=fitted), "predicted")
    check_explained(runs, before_s, after_s)
    moved = {name: factors.get(name, 1.0) * by for name, by in fit.factors.items()}
    return RecipeCalibration(
        key=key,
        runs=tuple(runs),
        fit=fit,
        measured=MeasuredRecipe(fitted, moved, first.model.name, own=True),
        before_s=before_s,
        after_s=after_s,
    )


def _priced(runs: Sequence[MeasuredFigure], engine: EngineProfile, side: str) -> Array:
    """The predicted time or the lower bound of every run [s], [runs].

    side: "predicted" or "bound".
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for at, run in enumerate(runs):
        groups.setdefault(run.point.group, []).append(at)
    seconds = np.full(len(runs), np.nan)
    for members in groups.values():
        resolved = replace(runs[members[0]].resolved, engine=engine, profile=engine)
        priced = points_file.price_group(resolved, [runs[at].point for at in members])
        for at, row in zip(members, priced, strict=True):
            if row["status"] not in ("ok", *WITH_TIMES):
                raise InvalidValue(f"{runs[at].point.id}: {row['message']}")
            seconds[at] = float(row[getattr(points_file.FIGURES[runs[at].metric], side)])
    return seconds
