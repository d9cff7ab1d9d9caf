"""Intervals of measured / predicted from held-out points, and how often they hold.

What was known when a figure was predicted decides which held-out points its interval comes from:

    recipe   this model and format were measured on the device (other loads, degrees, lengths)
    release  the same of another release of the engine
    few      they were calibrated with three runs of the user's
    device   static batches: the engine was measured on the device, with other models
    none     nothing of it
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.engine_fit.splits import REQUEST, SPLITS, Residuals
from app.engine_fit.targets import Target
from genz_core.engine_calibration import SCALES, SPREAD
from genz_core.types import Array
from hardware_db.engine_files import GENERIC
from hardware_db.intervals import LEVEL, WIDEST

#: Splits beside those of `splits.SPLITS`.
OWN, AS_GENERIC = "three runs of the user's", "the generic engine"
_LEAST_POINTS = 10
_LEAST_LABELS = 3  # of devices or models, of which one says nothing of the next
_MANY = 100.0  # residuals worth counting from which on the shortest interval is looked for
_STARTS = 201
_FOLDS = 5
_LOAD = (*SCALES, REQUEST)
_BATCH = tuple(metric for metric in SPREAD if metric not in SCALES)
#: State of knowledge, the splits whose residuals stand for it, and the metrics of these.
_KNOWN: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("recipe", ("configurations held out",), _LOAD),
    ("release", ("one release left out",), _LOAD),
    ("few", (OWN,), _LOAD),
    ("none", ("one model left out", "one GPU left out"), _LOAD),
    ("device", ("configurations held out",), _BATCH),
    ("none", ("one GPU left out",), _BATCH),
)
_TIERS = ("measured", "sibling", "default")


@dataclass(frozen=True, slots=True)
class HeldOutResidual:
    """ln(measured / predicted) of a held-out target.

    left_out: the label of the targets that were left out of the fit with it.
    """

    target: Target
    log: float
    left_out: str


def interval_table(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """Quantiles of measured / predicted, by metric, tier, what was known, and engine.

    engine "*" pools all engines that were measured; "generic", which was fitted to none, stands for
    the others.  A cell of fewer than ten points, or of one or two labels, has no row.

    residuals: by split, those of `splits.SPLITS`, `OWN` and `AS_GENERIC`.
    """
    rows = []
    for metric, tier, known, samples in _cells(residuals):
        engines: dict[str, list[HeldOutResidual]] = defaultdict(list)
        for sample in samples:
            engines[sample.target.facts["engine"]].append(sample)
            engines["*"].append(sample)
        if known == "none":
            generic = _samples(residuals[AS_GENERIC], AS_GENERIC, metric)
            engines[GENERIC] = [s for s in generic if s.target.facts["tier"] == tier]
        for engine, drawn in sorted(engines.items()):
            if _enough(drawn):
                names = {"metric": metric, "tier": tier, "known": known, "engine": engine}
                low, high = (round(end, 4) for end in _interval(drawn))
                rows.append({**names, "low": low, "high": high, "points": len(drawn)})
    return rows


def coverage_table(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """Share of points inside intervals drawn from the residuals of other points.

    "refused" counts the points without one: too few others, or an interval wider than `WIDEST`.

    Points that were left out together stay in one fold, so neither the constants nor the interval
    of a point rest on it.  residuals: as `interval_table`.
    """
    rows = []
    for metric, tier, known, samples in _cells(residuals):
        stated = [(s, ends) for s, ends in _judged(samples) if ends is not None]
        judged = [(s, ends) for s, ends in stated if ends[1] <= WIDEST]
        if not judged:
            continue
        inside = [low <= np.exp(s.log) <= high for s, (low, high) in judged]
        width = [(high - low) / 2.0 for _, (low, high) in judged]
        errors = [abs(np.expm1(-s.log)) for s, _ in judged]
        rows.append(
            {
                "metric": metric,
                "tier": tier,
                "known": known,
                "points": len(judged),
                "refused": len(samples) - len(judged),
                "coverage %": round(100 * float(np.mean(inside)), 1),
                "median half-width %": round(100 * float(np.median(width)), 1),
                "median error %": round(100 * float(np.median(errors)), 1),
            }
        )
    return rows


def _cells(
    residuals: Mapping[str, Residuals],
) -> Iterator[tuple[str, str, str, list[HeldOutResidual]]]:
    """Metric, tier, state of knowledge and held-out points of each cell that has some."""
    for known, splits, metrics in _KNOWN:
        for metric in metrics:
            samples = [s for split in splits for s in _samples(residuals[split], split, metric)]
            for tier in _TIERS:
                of_tier = [sample for sample in samples if sample.target.facts["tier"] == tier]
                if of_tier:
                    yield metric, tier, known, of_tier


def _samples(residuals: Residuals, split: str, metric: str) -> Iterator[HeldOutResidual]:
    by = SPLITS.get(split, "model")
    for target, log in zip(residuals.targets, residuals.logs, strict=True):
        if target.metric == metric and np.isfinite(log):
            yield HeldOutResidual(target, -float(log), target.facts[by])


def _enough(samples: Sequence[HeldOutResidual]) -> bool:
    """Whether samples are points, and labels, enough for an interval."""
    labels = {sample.left_out for sample in samples}
    return len(samples) >= _LEAST_POINTS and len(labels) >= _LEAST_LABELS


def _interval(samples: Sequence[HeldOutResidual]) -> tuple[float, float]:
    """Low and high end as factors of the prediction, around 1.

    Quantiles of n residuals hold a new one less often than they say: the level is raised by
    (n + 1) / n, as conformal prediction does (Vovk et al., 2005), n the number of independent
    residuals.  Where they are many the shortest interval of that level is taken, which leaves out
    more of the longer tail; where they are few, looking for it would cost coverage.
    """
    logs = np.array([sample.log for sample in samples])
    count = _independent(logs, [sample.left_out for sample in samples])
    upper = min(1.0, (1.0 + LEVEL) / 2.0 * (count + 1.0) / count)
    level = 2.0 * upper - 1.0
    below = np.linspace(0.0, 1.0 - level, _STARTS) if count >= _MANY else np.array([1.0 - upper])
    lows, highs = np.exp(np.quantile(logs, [below, below + level]))
    shortest = int(np.argmin(highs - lows))
    return min(float(lows[shortest]), 1.0), max(float(highs[shortest]), 1.0)


def _independent(logs: Array, labels: Sequence[str]) -> float:
    """Effective number of independent residuals, given the labels left out together.

    n / (1 + (m - 1) rho), m to a label and rho the share of the variance between labels, from an
    analysis of variance of one way (Kish, Survey Sampling, 1965, 5.4).
    """
    groups: dict[str, list[float]] = defaultdict(list)
    for log, label in zip(logs, labels, strict=True):
        groups[label].append(float(log))
    sizes = np.array([len(group) for group in groups.values()], dtype=float)
    if len(sizes) in (1, logs.size):
        return float(len(sizes))
    means = np.array([np.mean(group) for group in groups.values()])
    between = float(sizes @ (means - logs.mean()) ** 2) / (len(sizes) - 1.0)
    inside = sum(float(np.var(group)) * len(group) for group in groups.values())
    inside /= logs.size - len(sizes)
    size = (logs.size - float(sizes @ sizes) / logs.size) / (len(sizes) - 1.0)
    spread = between + (size - 1.0) * inside
    share = float(np.clip((between - inside) / spread, 0.0, 1.0)) if spread else 0.0
    return logs.size / (1.0 + (logs.size / len(sizes) - 1.0) * share)


def _judged(
    samples: Sequence[HeldOutResidual],
) -> Iterator[tuple[HeldOutResidual, tuple[float, float] | None]]:
    """Each point with the interval of the other folds, None where they have too few points."""
    folds = _folds([sample.left_out for sample in samples])
    engines = np.array([sample.target.facts["engine"] for sample in samples])
    cells: dict[tuple[int, str], tuple[float, float] | None] = {}
    for sample, fold, engine in zip(samples, folds, engines, strict=True):
        if (fold, engine) not in cells:
            others = folds != fold
            own, pooled = (
                [samples[int(at)] for at in np.flatnonzero(chosen)]
                for chosen in (others & (engines == engine), others)
            )
            drawn = own if _enough(own) else pooled
            cells[fold, engine] = _interval(drawn) if _enough(drawn) else None
        yield sample, cells[fold, engine]


def _folds(labels: Sequence[str]) -> Array:
    """The fold of each label, [labels]: five folds, or one a label where labels are few."""
    unique = {label: at for at, label in enumerate(sorted(set(labels)))}
    folds = len(unique) if len(unique) <= 2 * _FOLDS else _FOLDS
    order = np.random.default_rng(0).permutation(len(unique))
    return np.array([int(order[unique[label]]) % folds for label in labels])
