"""Errors on what a fit did not see: configurations, models, devices; and after a few own runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hardware_db
from app.engine_fit.hierarchy import Fitted
from app.engine_fit.targets import Data, Target
from genz_core.engine import EngineProfile, Recipe
from genz_core.engine_calibration import SCALES, SPREAD, calibrate_engine, moved
from genz_core.error_metrics import error_summary
from genz_core.types import Array, Mask
from hardware_db.engine_files import GENERIC

#: What is left out together, by the name of the split.
SPLITS: Mapping[str, str] = {
    "configurations held out": "configuration",
    "one model left out": "model",
    "one GPU left out": "system",
}
OWN_RUNS = (0, 1, 3, 5)
_FOLDS = 5
_DRAWS = 2  # of own runs, from every recipe
_LEAST_RUNS = 8  # that a recipe needs for some to be drawn and others to be judged


@dataclass(frozen=True, slots=True)
class Residuals:
    """ln(predicted / measured) of every target of all engines, [targets]."""

    targets: list[Target]
    logs: Array

    def of_metric(self, metric: str, *, possible: bool = False) -> Array:
        """The logs of one metric; possible: without rows that contradict physics."""
        kept = ("yes",) if possible else ("yes", "no")
        chosen = [t.metric == metric and t.facts["possible"] in kept for t in self.targets]
        return self.logs[np.array(chosen)]

    def of_set(self, name: str) -> Array:
        """The logs of "serving" or "published" points."""
        return self.logs[np.array([target.facts["set"] == name for target in self.targets])]


def in_sample(fitted: Sequence[Fitted]) -> Residuals:
    """Residuals of the points that made the fit."""
    return _gather(fitted, lambda one: one.priced(np.ones(len(one.data.targets), dtype=bool)))


def left_out(fitted: Sequence[Fitted], by: str) -> Residuals:
    """Residuals of each point with all that share its fact `by` left out of the fit."""

    def priced(one: Fitted) -> Array:
        logs = np.full(len(one.data.targets), np.nan)
        for out in _folds(one.data.targets, by):
            logs[out] = one.priced(~out)[out]
        return logs

    return _gather(fitted, priced)


def as_generic(fitted: Sequence[Fitted]) -> Residuals:
    """Residuals under the generic engine, which no point fitted.

    It stands for all engines that nobody measured.
    """
    engine = hardware_db.load_engine(GENERIC)
    found = _gather(fitted, lambda one: one.data.logs_of(engine))
    targets = [replace(t, facts={**t.facts, "engine": GENERIC}) for t in found.targets]
    return Residuals(targets, found.logs)


def _gather(fitted: Sequence[Fitted], priced: Callable[[Fitted], Array]) -> Residuals:
    targets = [target for one in fitted for target in one.data.targets]
    return Residuals(targets, np.concatenate([priced(one) for one in fitted]))


def _folds(targets: Sequence[Target], by: str) -> Iterator[Mask]:
    """Masks of what is left out together: a label at a time.

    Configurations of serving runs are dealt into five folds; those of the few batch points are
    left out one at a time.
    """
    labels = np.array([target.facts[by] for target in targets])
    serving = np.array([target.facts["set"] == "serving" for target in targets])
    dealt = serving & (by == "configuration")
    for label in np.unique(labels[~dealt]):
        yield labels == label
    unique = np.unique(labels[dealt])
    order = np.random.default_rng(0).permutation(unique.size)
    for fold in range(_FOLDS if unique.size else 0):
        yield np.isin(labels, unique[order % _FOLDS == fold])


def splits(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """A row a split and metric: how many points, and their errors in percent."""
    rows = []
    for label, found in residuals.items():
        logs = {metric: found.of_metric(metric) for metric in SPREAD}
        logs |= {_possible(metric): found.of_metric(metric, possible=True) for metric in SCALES}
        logs["published, all"] = found.of_set("published")
        rows += [{"split": label, "metric": name, **figures(them)} for name, them in logs.items()]
    return rows


def _possible(metric: str) -> str:
    return f"{metric}, possible"


def figures(logs: Array) -> dict[str, float]:
    """Errors of ln(predicted / measured), in percent."""
    row = error_summary(np.exp(logs), np.ones(len(logs))).row()
    names = ("mape", "median", "p90", "bias", "within_10", "within_20", "within_30")
    return {"points": row["points"], **{name: round(100 * row[name], 1) for name in names}}


# ------------------------------------------------------------------------------- own runs


def with_own_runs(fitted: Sequence[Fitted], count: int) -> Residuals:
    """Residuals of a model nobody measured, after a calibration with some runs of it.

    Every recipe of eight runs or more is left out with its model; some of its runs are drawn at
    random and calibrate the engine as `calibrate_engine` does, and those that no count draws
    are judged.  Twice each.
    """
    draws = np.random.default_rng(0)
    targets: list[Target] = []
    logs: list[Array] = []
    for one in fitted:
        for out in _folds(one.data.targets, "model"):
            moves = one.design.moves(one.refitted(~out))
            for runs in _runs_by_recipe(one.data.targets, out & np.isfinite(one.logs)):
                engine = moved(one.data.prior, moves[runs[0, 0]])
                for _ in range(_DRAWS):
                    mixed = draws.permutation(len(runs))
                    own, rest = runs[mixed[:count]], runs[mixed[max(OWN_RUNS) :]]
                    judged = [one.data.targets[at] for at in rest.ravel()]
                    logs.append(_calibrated(one.data, engine, own.ravel(), judged))
                    targets += judged
    return Residuals(targets, np.concatenate(logs))


def _calibrated(data: Data, engine: EngineProfile, own: Array, judged: Sequence[Target]) -> Array:
    """ln(predicted / measured) of the judged targets after a calibration with others."""
    recipe = Recipe()
    if len(own):
        runs = [data.targets[int(at)] for at in own]
        fit = calibrate_engine(
            engine,
            lambda tried: data.predicted_s(runs, tried),
            np.array([run.measured_s for run in runs]),
            [run.metric for run in runs],
        )
        engine, recipe = fit.engine, Recipe(fit.tpot_scale, fit.ttft_scale)
    predicted = data.predicted_s(judged, engine, recipe)
    return np.asarray(np.log(predicted) - np.log([target.measured_s for target in judged]))


def own_runs_table(by_count: Mapping[int, Residuals]) -> list[dict[str, Any]]:
    """A row a count of own runs and metric: the errors that remain, in percent."""
    return [
        {"own runs": count, "metric": name, **figures(found.of_metric(metric, possible=possible))}
        for count, found in by_count.items()
        for metric in SCALES
        for name, possible in ((metric, False), (_possible(metric), True))
    ]


def _runs_by_recipe(targets: Sequence[Target], chosen: Mask) -> Iterator[np.ndarray]:
    """The chosen runs of each recipe of enough: rows of their TPOT and TTFT, [runs, metrics]."""
    found: dict[str, dict[int, dict[str, int]]] = {}
    for at in (int(row) for row in np.flatnonzero(chosen)):
        if targets[at].facts["set"] == "serving":
            runs = found.setdefault(targets[at].facts["recipe"], {})
            runs.setdefault(targets[at].row, {})[targets[at].metric] = at
    for runs in found.values():
        whole = [[run[metric] for metric in SCALES] for run in runs.values() if len(run) == 2]
        if len(whole) >= _LEAST_RUNS:
            yield np.array(whole)
