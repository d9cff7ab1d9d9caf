"""Errors on held-out configurations, models and devices, and after calibration with a few own
runs.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

import hardware_db
from app.engine_fit.hierarchy import EngineFit, Errors
from app.engine_fit.targets import EngineFitData, Target
from genz_core.calibration.engine_calibration import SCALES, SPREAD, calibrate_engine, moved
from genz_core.calibration.error_metrics import error_summary
from genz_core.engine import EngineProfile, Recipe
from genz_core.types import Array, Mask
from hardware_db.engine_files import GENERIC

#: The fact whose equal values are left out together, by split.
SPLITS: Mapping[str, str] = {
    "configurations held out": "configuration",
    "one model left out": "model",
    "one GPU left out": "system",
    "one release left out": "release",
    "newest release left out": "newest",
    "one source left out": "source",
}
#: The fact and its value that select a subset of the rows; see `app.engine_fit.targets.Target`.
SUBSETS: Mapping[str, tuple[str, str]] = {
    "plausible runs": ("plausible", "yes"),
    "concurrency 1-4": ("load", "low"),
    "uncorrected": ("plausible", "yes"),
}
PHYSICS = "uncorrected"  # of plausible runs
OWN_RUNS = (0, 1, 3, 5)
REQUEST = "e2e_s"  # the whole request of a serving run
_FOLDS = 5
_DRAWS = 2  # numbers of own runs tried, from every recipe
_LEAST_RUNS = 8  # fewest runs of a recipe: some calibrate, the others are judged


@dataclass(frozen=True, slots=True)
class Residuals:
    """Targets of all engines with their ln(predicted / measured), [targets].

    novelty: distance from the runs that corrected them, 1 if none did; physics: the residuals
    without corrections; [targets].
    """

    targets: list[Target]
    logs: Array
    novelty: Array
    physics: Array

    def of_metric(self, metric: str, subset: str = "") -> Array:
        """The residuals of one metric: of all rows, of a subset of `SUBSETS`, or for `PHYSICS`."""
        fact, value = SUBSETS.get(subset, ("metric", metric))
        chosen = [
            t.metric == metric and {"metric": metric, **t.facts}[fact] == value
            for t in self.targets
        ]
        return (self.physics if subset == PHYSICS else self.logs)[np.array(chosen)]

    def of_set(self, name: str) -> Array:
        """The residuals of "serving" or "published" points."""
        return self.logs[np.array([target.facts["set"] == name for target in self.targets])]


def in_sample(fitted: Sequence[EngineFit]) -> Residuals:
    """Residuals of the points used by the fit."""
    return _gather(
        fitted,
        lambda engine_fit: engine_fit.priced(np.ones(len(engine_fit.data.targets), dtype=bool)),
    )


def left_out(fitted: Sequence[EngineFit], by: str) -> Residuals:
    """Residuals of each point with all points of the same fact `by` left out of the fit.

    Points for which that fact is unknown are not judged.
    """

    def priced(engine_fit: EngineFit) -> Errors:
        found = Errors(*(np.full(len(engine_fit.data.targets), np.nan) for _ in fields(Errors)))
        for mask in _folds(engine_fit.data.targets, by):
            of_fold = engine_fit.priced(~mask)
            for entry in fields(Errors):
                getattr(found, entry.name)[mask] = getattr(of_fold, entry.name)[mask]
        return found

    residuals = _gather(fitted, priced)
    known = np.array([target.facts[by] != "" for target in residuals.targets])
    targets = [target for target, judged in zip(residuals.targets, known, strict=True) if judged]
    return Residuals(targets, *(getattr(residuals, entry.name)[known] for entry in fields(Errors)))


def as_generic(fitted: Sequence[EngineFit]) -> Residuals:
    """Residuals of the measured engines when priced as the generic engine, which no point fitted.

    They represent all engines without measurements.
    """
    engine = hardware_db.load_engine(GENERIC)

    def priced(engine_fit: EngineFit) -> Errors:
        logs = engine_fit.data.logs_of(engine)
        return Errors(logs, np.ones_like(logs), logs)

    residuals = _gather(fitted, priced)
    pairs = zip(residuals.targets, residuals.logs, strict=True)
    today = [(target, log) for target, log in pairs if not target.facts["era"]]
    targets = [replace(t, facts={**t.facts, "engine": GENERIC}) for t, _ in today]
    logs = np.array([log for _, log in today])
    return Residuals(targets, logs, np.ones_like(logs), logs)


def with_requests(residuals: Residuals) -> Residuals:
    """The residuals, plus those of whole requests computed from a run's TTFT and TPOT.

    A request is mostly decode, so its novelty is that of TPOT.
    """
    targets, logs = list(residuals.targets), residuals.logs.tolist()
    novelty, physics = residuals.novelty.tolist(), residuals.physics.tolist()
    pairs = zip(residuals.targets, residuals.targets[1:], logs, logs[1:], strict=False)
    for at, (one, other, one_log, other_log) in enumerate(pairs):
        if one.run != other.run or {one.metric, other.metric} != set(SCALES):
            continue
        novelty.append(novelty[at if one.metric == "tpot_s" else at + 1])
        parts = {one.metric: (one.measured_s, one_log), other.metric: (other.measured_s, other_log)}
        gaps = float(one.facts["output"]) - 1.0
        (first, first_log), (gap, gap_log) = parts["ttft_s"], parts["tpot_s"]
        measured = first + gaps * gap
        predicted = first * np.exp(first_log) + gaps * gap * np.exp(gap_log)
        targets.append(replace(one, metric=REQUEST, measured_s=measured))
        logs.append(float(np.log(predicted / measured)))
        physics.append(np.nan)
    return Residuals(targets, np.array(logs), np.array(novelty), np.array(physics))


def _gather(fitted: Sequence[EngineFit], priced: Callable[[EngineFit], Errors]) -> Residuals:
    targets = [target for engine_fit in fitted for target in engine_fit.data.targets]
    found = [priced(engine_fit) for engine_fit in fitted]
    columns = ([getattr(one, entry.name) for one in found] for entry in fields(Errors))
    return Residuals(targets, *map(np.concatenate, columns))


def _folds(targets: Sequence[Target], by: str) -> Iterator[Mask]:
    """Masks of the targets left out together, [targets] each, one label at a time.

    Configurations of serving runs are divided into five folds; those of the few batch points are
    left out one at a time.
    """
    labels = np.array([target.facts[by] for target in targets])
    serving = np.array([target.facts["set"] == "serving" for target in targets])
    dealt = serving & (by == "configuration")
    for label in np.unique(labels[~dealt & (labels != "")]):
        yield labels == label
    unique = np.unique(labels[dealt])
    order = np.random.default_rng(0).permutation(unique.size)
    for fold in range(_FOLDS if unique.size else 0):
        yield np.isin(labels, unique[order % _FOLDS == fold])


def split_errors(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """Number of points and errors [%] by split and metric."""
    rows = []
    for label, of_split in residuals.items():
        judged = {target.metric for target in of_split.targets}
        logs = {metric: of_split.of_metric(metric) for metric in (*SPREAD, REQUEST)}
        logs |= {
            f"{metric}, {subset}": of_split.of_metric(metric, subset)
            for subset in SUBSETS
            for metric in SCALES
        }
        logs["published, all"] = of_split.of_set("published")
        rows += [
            {"split": label, "metric": name, **error_figures(ratios)}
            for name, ratios in logs.items()
            if ratios.size and name.split(",")[0] in {*judged, "published"}
        ]
    return rows


def error_figures(logs: Array) -> dict[str, float]:
    """Errors [%] of residuals ln(predicted / measured), and their number."""
    row = error_summary(np.exp(logs), np.ones(len(logs))).row()
    names = ("mape", "median", "p90", "bias", "within_10", "within_20", "within_30")
    return {"points": row["points"], **{name: round(100 * row[name], 1) for name in names}}


# ------------------------------------------------------------------------------- own runs


def with_own_runs(fitted: Sequence[EngineFit], count: int) -> Residuals:
    """Residuals of models left out of the fit, after calibration with `count` of their runs.

    Every recipe of eight or more runs is left out together with its model.  Random runs of it
    calibrate the engine as `calibrate_engine` does; runs that are not drawn for any `count` are
    judged.  This is done twice for each recipe.
    """
    targets: list[Target] = []
    logs: list[Array] = []
    for engine_fit in fitted:
        draws = np.random.default_rng(0)
        for mask in _folds(engine_fit.data.targets, "model"):
            moves = engine_fit.design.moves(engine_fit.refitted(~mask))
            for runs in _runs_by_recipe(
                engine_fit.data.targets, mask & np.isfinite(engine_fit.logs)
            ):
                engine = moved(engine_fit.data.prior, moves[runs[0, 0]])
                for _ in range(_DRAWS):
                    mixed = draws.permutation(len(runs))
                    own, rest = runs[mixed[:count]], runs[mixed[max(OWN_RUNS) :]]
                    judged = [engine_fit.data.targets[at] for at in rest.ravel()]
                    logs.append(_calibrated(engine_fit.data, engine, own.ravel(), judged))
                    targets += judged
    joined = np.concatenate(logs)
    return Residuals(targets, joined, np.ones_like(joined), joined)


def _calibrated(
    data: EngineFitData, engine: EngineProfile, own: Array, judged: Sequence[Target]
) -> Array:
    """ln(predicted / measured) of the judged targets after calibration with the targets `own`."""
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
    """Remaining errors [%], by number of own runs and metric."""
    return [
        {
            "own runs": count,
            "metric": name,
            **error_figures(residuals.of_metric(metric, subset)),
        }
        for count, residuals in by_count.items()
        for metric in SCALES
        for name, subset in ((metric, ""), (f"{metric}, plausible runs", "plausible runs"))
    ]


def _runs_by_recipe(targets: Sequence[Target], chosen: Mask) -> Iterator[np.ndarray]:
    """Targets of the chosen runs of each recipe with enough runs: TPOT and TTFT, [runs,
    metrics].
    """
    by_recipe: dict[str, dict[int, dict[str, int]]] = {}
    for at in (int(row) for row in np.flatnonzero(chosen)):
        if targets[at].facts["set"] == "serving":
            runs = by_recipe.setdefault(targets[at].facts["recipe"], {})
            runs.setdefault(targets[at].row, {})[targets[at].metric] = at
    for runs in by_recipe.values():
        whole = [[run[metric] for metric in SCALES] for run in runs.values() if len(run) == 2]
        if len(whole) >= _LEAST_RUNS:
            yield np.array(whole)
