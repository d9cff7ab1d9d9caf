"""Calibrate an engine with one to five runs of one's own: a CSV of measured figures in.

A row is one of the points file (`app.scenario.points_file`) with what was measured beside it.  Rows
of one engine, model, weight format and system are fitted together and kept as a recipe of the
user's own, which every later prediction of the four applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import hardware_db
from app.scenario import points_file
from app.scenario.points_row import NAMES, Point, parse
from app.scenario.scenario import Resolved, Scenario, resolve
from genz_core.deployment import as_measured, recipe_key
from genz_core.engine import EngineProfile, MeasuredRecipe, RecipeKey
from genz_core.engine_calibration import SCALES, EngineCalibration, calibrate_engine
from genz_core.errors import InvalidValue
from genz_core.types import Array
from genz_core.workload import OUT_OF_MEMORY
from hardware_db import recipes

Progress = Callable[[float, str], None]


def _column(metric: str) -> str:
    """Where a row says what was measured: "measured_ttft_s"."""
    return f"measured_{points_file.FIGURES[metric].predicted}"


#: The metric that a column measures.
METRICS: Mapping[str, str] = {_column(metric): metric for metric in points_file.FIGURES}
#: What a run can measure, by kind.
KINDS: Mapping[str, tuple[str, ...]] = {
    "Under load": tuple(_column(metric) for metric in points_file.FIGURES if metric in SCALES),
    "Static batch": tuple(
        _column(metric) for metric in points_file.FIGURES if metric not in SCALES
    ),
}
#: Their names for a reader.
LABELS: Mapping[str, str] = {
    "measured_ttft_s": "TTFT [ms]",
    "measured_tpot_s": "TPOT [ms]",
    "measured_prefill_s": "Prefill [ms]",
    "measured_decode_step_s": "Decode step [ms]",
    "measured_e2e_s": "Whole batch [ms]",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One measured figure of one row."""

    asked: Resolved
    point: Point
    metric: str
    measured_s: float


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What the runs of one recipe say.

    before_s, after_s: predictions of the runs, [runs].  measured: what to keep.
    """

    key: RecipeKey
    runs: tuple[Run, ...]
    fit: EngineCalibration
    measured: MeasuredRecipe
    before_s: Array
    after_s: Array


def of(scenario: Scenario, rows: Sequence[points_file.Row]) -> list[points_file.Row]:
    """Rows that say load and figures, with the names, degrees and lengths of a scenario."""
    names = (*NAMES, "tp", "pp", "dp", "ep", "moe_tp", "isl", "osl")
    given = {name: str(getattr(scenario, name) or "") for name in names}
    return [{**given, **row} for row in rows]


def read(path: Path, progress: Progress = lambda share, what: None) -> list[Calibrated]:
    """Calibrate with every recipe in a CSV.

    progress: told the share that is done, and of what.

    Raises:
        InvalidValue: the file cannot be read, a row measures nothing or cannot be priced, or a
            figure contradicts physics.
    """
    return calibrate(points_file.read(path), progress)


def calibrate(
    rows: Sequence[points_file.Row], progress: Progress = lambda share, what: None
) -> list[Calibrated]:
    """As `read`, from rows already read."""
    together: dict[RecipeKey, list[Run]] = {}
    for at, row in enumerate(rows, start=1):
        label = row.get("id") or f"row {at}"
        point = parse(row, label)
        asked = resolve(point.scenario)
        key = recipe_key(asked.engine, asked.model, asked.system)
        together.setdefault(key, []).extend(_measured(row, point, asked))
    if not together:
        raise InvalidValue(f"no runs: give a row a run, with {' or '.join(METRICS)}")
    found = []
    for at, (key, runs) in enumerate(together.items()):

        def told(share: float, at: int = at, key: RecipeKey = key) -> None:
            progress((at + share) / len(together), named(key))

        found.append(_fitted(key, runs, told))
    return found


def keep(found: Calibrated) -> Path:
    """Save a calibration among the user's own recipes."""
    return recipes.keep_recipe(found.key, found.measured)


def forget(path: Path) -> dict[RecipeKey, bool]:
    """Drop what was kept for the recipes of a CSV; of each, whether there was something."""
    keys = [_key(parse(row, str(at))) for at, row in enumerate(points_file.read(path))]
    return {key: recipes.forget_recipe(key) for key in dict.fromkeys(keys)}


def _key(point: Point) -> RecipeKey:
    asked = resolve(point.scenario)
    return recipe_key(asked.engine, asked.model, asked.system)


def named(key: RecipeKey) -> str:
    """A recipe in words, without its model."""
    return f"{key.engine} on {key.system}, {key.weights} weights"


def sentence(found: Calibrated) -> str:
    """What the calibration did to the errors, in words."""
    before, after = found.fit.before, found.fit.after
    return (
        f"Mean error of the {after.points} figures: {before.mape:.1%} before, {after.mape:.1%} "
        "after. What other runs of this recipe gain is on the page Accuracy (after runs of your "
        "own)."
    )


def table(found: Calibrated) -> list[dict[str, Any]]:
    """A row a figure: before, after and measured [s]."""
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
        for run, before, after in zip(found.runs, found.before_s, found.after_s, strict=True)
    ]


def constants(found: Calibrated) -> list[dict[str, Any]]:
    """A row a constant or scale: what it was multiplied by, and how well the runs tell it."""
    rows = [
        {"constant": name, "factor": factor, "uncertainty": found.fit.uncertainty[name]}
        for name, factor in found.fit.factors.items()
    ]
    scales = {"tpot_scale": found.fit.tpot_scale, "ttft_scale": found.fit.ttft_scale}
    rows += [
        {"constant": name, "factor": factor, "uncertainty": float("nan")}
        for name, factor in scales.items()
    ]
    return sorted(rows, key=lambda row: -abs(float(np.log(row["factor"]))))


def _measured(row: points_file.Row, point: Point, asked: Resolved) -> Iterator[Run]:
    """The figures that a row measures."""
    label = point.id
    given = {name: row[name] for name in METRICS if row.get(name)}
    fitting = KINDS["Under load" if point.concurrency else "Static batch"]
    if not given:
        known = " or ".join(f"{LABELS[name].partition(' [')[0]} ({name})" for name in fitting)
        raise InvalidValue(f"{label} measures nothing: give {known}")
    for name, text in given.items():
        if name not in fitting:
            load = "a concurrency" if point.concurrency else "a batch"
            raise InvalidValue(f"{label}: with {load}, give {' or '.join(fitting)}, not {name}")
        try:
            seconds = float(text)
        except ValueError:
            seconds = float("nan")
        if not 0 < seconds < float("inf"):
            raise InvalidValue(f"{label}: {name} = {text!r} is no positive number of seconds")
        yield Run(asked, point, METRICS[name], seconds)


def _fitted(key: RecipeKey, runs: list[Run], progress: Callable[[float], None]) -> Calibrated:
    """Fit the shipped engine, as it was measured on this device and recipe, to the runs."""
    shipped = recipes.load_recipe(key, own=False)
    first = runs[0].asked
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
        points=len({id(run.point) for run in runs if run.point.concurrency}),
    )
    moved = {name: factors.get(name, 1.0) * by for name, by in fit.factors.items()}
    return Calibrated(
        key=key,
        runs=tuple(runs),
        fit=fit,
        measured=MeasuredRecipe(fitted, moved, first.model.name, own=True),
        before_s=predicted(engine),
        after_s=_priced(runs, replace(fit.engine, recipe=fitted), "predicted"),
    )


def _priced(runs: Sequence[Run], engine: EngineProfile, what: str) -> Array:
    """The predicted or least time of every run [s], [runs].

    Raises:
        InvalidValue: a run that cannot be priced.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for at, run in enumerate(runs):
        groups.setdefault(points_file.group_of(run.point), []).append(at)
    seconds = np.full(len(runs), np.nan)
    for members in groups.values():
        asked = replace(runs[members[0]].asked, engine=engine)
        priced = points_file.price_group(asked, [runs[at].point for at in members])
        for at, row in zip(members, priced, strict=True):
            if row["status"] not in ("ok", OUT_OF_MEMORY):
                raise InvalidValue(f"{runs[at].point.id}: {row['message']}")
            seconds[at] = float(row[getattr(points_file.FIGURES[runs[at].metric], what)])
    return seconds
