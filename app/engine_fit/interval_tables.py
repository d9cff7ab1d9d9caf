"""Intervals of measured / predicted from held-out points, and their coverage.

The state of knowledge of a prediction decides which held-out points its interval comes from:

    recipe   this model and format were measured on the device (other loads, degrees, lengths)
    release  the same, but only under another release of the engine
    few      calibrated with three of the user's own runs
    device   static batches: the engine was measured on the device, with other models
    none     nothing about it was measured

For serving, the interval of each figure is widened with the load's distance from measured runs and
with its number of users (`hardware_db.intervals.stretch`).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm, t

from app.engine_fit.splits import REQUEST, SPLITS, Residuals
from app.engine_fit.targets import Target
from genz_core.calibration.engine_calibration import SCALES, SPREAD
from genz_core.types import Array
from hardware_db.engine_files import GENERIC
from hardware_db.intervals import LEVEL, WIDEST, stretch

#: Splits besides those of `splits.SPLITS`.
OWN, AS_GENERIC = "three runs of the user's", "the generic engine"
_LEAST_POINTS = 10
_LEAST_LABELS = 3  # fewest devices or models: one alone says nothing about another
#: Largest total weight, in points, of other engines' points at the same tier and of points at other
#: tiers, beside the engine's own points; the former also weigh at least this number of labels.
_OF_TIER, _OF_REST, _LABELS_OF_TIER = 40.0, 80.0, 4.0
_MANY = 100.0  # effective number of residuals from which the shortest interval is used
_STARTS = 201
_FOLDS = 5
_LOAD = (*SCALES, REQUEST)
_BATCH = tuple(metric for metric in SPREAD if metric not in SCALES)
#: States of knowledge, the splits whose residuals represent them, and their metrics.
_KNOWN: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("recipe", ("configurations held out",), _LOAD),
    ("release", ("one release left out",), _LOAD),
    ("few", (OWN,), _LOAD),
    ("none", ("one model left out", "one GPU left out"), _LOAD),
    ("device", ("configurations held out",), _BATCH),
    ("none", ("one GPU left out",), _BATCH),
)
#: States in which loads may be close to measured runs or far from them.
_AMONG_RUNS = ("recipe", "release")
_TIERS = ("measured", "sibling", "default")
_POWERS = ((0.0, 1.5), (0.0, 1.0))  # limits of the powers of novelty and crowd


@dataclass(frozen=True, slots=True)
class HeldOutResidual:
    """ln(measured / predicted) of a held-out target.

    left_out: label shared by all targets left out of the same fit.  novelty: distance from the runs
    that were not left out.
    """

    target: Target
    log: float
    left_out: str
    novelty: float = 1.0

    @property
    def users(self) -> float:
        """Open requests per attention rank, 1 for a batch point."""
        return float(self.target.facts["users"])


@dataclass(frozen=True, slots=True)
class Kind:
    """The held-out points of a metric in one state of knowledge, with their widenings."""

    metric: str
    known: str
    samples: tuple[HeldOutResidual, ...]
    powers: tuple[float, float]

    @property
    def tiers(self) -> list[str]:
        """Tiers with points."""
        found = {sample.target.facts["tier"] for sample in self.samples}
        return [tier for tier in _TIERS if tier in found]


def interval_table(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """Quantiles of measured / predicted, by metric, tier, state of knowledge, and engine.

    engine "*" pools all measured engines; "generic", which no point fitted, represents engines
    without measurements.  A cell of fewer than ten points, or of one or two labels, has no row.
     novelty, crowd: powers of the widening; low and high apply to a load of typical novelty.

    residuals: by split: those of `splits.SPLITS`, `OWN` and `AS_GENERIC`.
    """
    rows = []
    for kind in _kinds(residuals):
        engines = {engine: kind.samples for engine in ("*", *_names(kind.samples))}
        if kind.known == "none":
            generic = _samples(residuals[AS_GENERIC], AS_GENERIC, kind.metric)
            engines[GENERIC] = tuple(generic)
        for tier in kind.tiers:
            for engine, samples in sorted(engines.items()):
                found = _cell(samples, tier, engine, kind.powers)
                if found is None:
                    continue
                low, high = (round(end, 4) for end in found.ends)
                near, crowd = kind.powers
                rows.append(
                    {
                        "metric": kind.metric,
                        "tier": tier,
                        "known": kind.known,
                        "engine": engine,
                        "low": low,
                        "high": high,
                        "novelty": near,
                        "crowd": crowd,
                        "points": found.points,
                    }
                )
    return rows


def coverage_table(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """Share of points inside intervals made from the residuals of other points.

    "refused" counts points without an interval: too few others, or wider than `WIDEST`.
    "most novel third %" is the coverage of the third of them that is farthest from measured runs.

    Points left out together stay in one fold, so neither the constants nor the interval of a point
    depend on it; the powers of the widening, two numbers per kind, depend on all points.
    residuals: as `interval_table`.
    """
    rows = []
    for kind in _kinds(residuals):
        stated = list(_judged(kind))
        for tier in kind.tiers:
            of_tier = [pair for pair in stated if pair[0].target.facts["tier"] == tier]
            judged = [(s, ends) for s, ends in of_tier if ends is not None and ends[1] <= WIDEST]
            if not judged:
                continue
            inside = np.array([low <= np.exp(s.log) <= high for s, (low, high) in judged])
            width = [(high - low) / 2.0 for _, (low, high) in judged]
            errors = [abs(np.expm1(-s.log)) for s, _ in judged]
            novel = np.argsort([s.novelty for s, _ in judged], kind="stable")[-len(judged) // 3 :]
            among = kind.known in _AMONG_RUNS
            rows.append(
                {
                    "metric": kind.metric,
                    "tier": tier,
                    "known": kind.known,
                    "points": len(judged),
                    "refused": len(of_tier) - len(judged),
                    "coverage %": _percent(np.mean(inside)),
                    "most novel third %": _percent(np.mean(inside[novel])) if among else "",
                    "median half-width %": _percent(np.median(width)),
                    "median error %": _percent(np.median(errors)),
                }
            )
    return rows


def _percent(share: Any) -> float:
    return round(100.0 * float(share), 1)


def _kinds(residuals: Mapping[str, Residuals]) -> Iterator[Kind]:
    """The held-out points of each metric and state of knowledge, where there are any."""
    for known, splits, metrics in _KNOWN:
        for metric in metrics:
            samples = tuple(
                s for split in splits for s in _samples(residuals[split], split, metric)
            )
            if samples:
                loaded = metric in _LOAD
                powers = _powers(samples, known in _AMONG_RUNS) if loaded else (0.0, 0.0)
                yield Kind(metric, known, samples, powers)


def _samples(residuals: Residuals, split: str, metric: str) -> Iterator[HeldOutResidual]:
    by = SPLITS.get(split, "model")
    columns = (residuals.targets, residuals.logs, residuals.novelty)
    for target, log, novelty in zip(*columns, strict=True):
        if target.metric == metric and np.isfinite(log):
            yield HeldOutResidual(target, -float(log), target.facts[by], float(novelty))


def _names(samples: Sequence[HeldOutResidual]) -> list[str]:
    return sorted({sample.target.facts["engine"] for sample in samples})


# ------------------------------------------------------------------------------- the stretch


def _powers(samples: Sequence[HeldOutResidual], among_runs: bool) -> tuple[float, float]:
    """Maximum-likelihood powers of novelty and crowd for the residuals of the engines.

    Residuals follow a Laplace distribution around their engine's median; its scale is the engine's
    own times the widening.  among_runs: whether novelty may be used.
    """
    logs, novelty, users = (
        np.array([getattr(s, name) for s in samples]) for name in ("log", "novelty", "users")
    )
    engines = np.array([s.target.facts["engine"] for s in samples])
    groups = [engines == engine for engine in np.unique(engines)]
    off = np.empty_like(logs)
    for group in groups:
        off[group] = np.abs(logs[group] - np.median(logs[group]))

    def unlikely(powers: Array) -> float:
        wide = stretch(novelty, users, *powers)
        scales = sum(group.sum() * np.log(np.mean(off[group] / wide[group])) for group in groups)
        return float(np.log(wide).sum() + scales)

    limits = _POWERS if among_runs else ((0.0, 0.0), _POWERS[1])
    found = minimize(unlikely, np.array([low for low, _ in limits]), bounds=limits)
    near, crowd = (round(float(power), 2) for power in found.x)
    return near, crowd


# ------------------------------------------------------------------------------- a cell


@dataclass(frozen=True, slots=True)
class Cell:
    """An interval at typical novelty as factors of the prediction; points: in the cell itself."""

    ends: tuple[float, float]
    points: int


def _cell(
    samples: Sequence[HeldOutResidual], tier: str, engine: str, powers: tuple[float, float]
) -> Cell | None:
    """The interval of an engine at a tier, "*" for any; None if it has too few points of its own.

    Points of other engines and tiers are added with a limited total weight, because a cell with few
    points or few labels is unreliable by itself.
    """
    at_tier = np.array([s.target.facts["tier"] == tier for s in samples], dtype=bool)
    of_engine = np.array([s.target.facts["engine"] == engine for s in samples], dtype=bool)
    cell = at_tier & (of_engine | (engine == "*"))
    inside = [samples[int(at)] for at in np.flatnonzero(cell)]
    if not _enough(inside):
        return None
    own, most = cell, _LABELS_OF_TIER * len(inside) / len({s.left_out for s in inside})
    if engine == "*":
        own, most = np.zeros_like(cell), 0.0
    weights = np.where(own, 1.0, 0.0)
    for others, count in ((at_tier & ~own, max(most, _OF_TIER)), (~at_tier, _OF_REST)):
        if others.any():
            weights[others] = min(1.0, count / others.sum())
    return Cell(_interval(samples, weights, powers), len(inside))


def _enough(samples: Sequence[HeldOutResidual]) -> bool:
    """Whether samples have enough points and labels for an interval."""
    labels = {sample.left_out for sample in samples}
    return len(samples) >= _LEAST_POINTS and len(labels) >= _LEAST_LABELS


def _interval(
    samples: Sequence[HeldOutResidual], weights: Array, powers: tuple[float, float]
) -> tuple[float, float]:
    """Low and high end as factors of the prediction at typical novelty, including 1.

    Quantiles of n residuals cover a new one less often than their nominal level.  They are
    therefore widened by the ratio of Student's t to the normal, t(n - 1) sqrt(1 + 1 / n) / z, with
    n the number of independent residuals (a prediction interval; Hahn and Meeker, Statistical
    Intervals, 1991, 4.7).  With many residuals the shortest interval of the level is taken, which
    omits more of the longer tail; with few, searching for it would lower the coverage.
    """
    users, novelty = (np.array([getattr(s, n) for s in samples]) for n in ("users", "novelty"))
    logs = np.array([s.log for s in samples]) / stretch(novelty, users, *powers)
    count = max(_independent(logs, [s.left_out for s in samples]), 2.0)
    tail = (1.0 - LEVEL) / 2.0
    below = np.linspace(0.0, 1.0 - LEVEL, _STARTS) if count >= _MANY else np.array([tail])
    lows, highs = (_quantiles(logs, weights, at) for at in (below, below + LEVEL))
    shortest = int(np.argmin(highs - lows))
    low, high = lows[shortest], highs[shortest]
    wider = t.ppf(1.0 - tail, count - 1.0) * np.sqrt(1.0 + 1.0 / count) / norm.ppf(1.0 - tail)
    centre, half = (low + high) / 2.0, (high - low) / 2.0 * wider
    return float(np.exp(min(centre - half, 0.0))), float(np.exp(max(centre + half, 0.0)))


def _quantiles(values: Array, weights: Array, at: Array) -> Array:
    """Quantiles of weighted values, each placed in the middle of its weight."""
    order = np.argsort(values)
    middles = np.cumsum(weights[order]) - weights[order] / 2.0
    return np.asarray(np.interp(at, middles / weights.sum(), values[order]))


def _independent(logs: Array, labels: Sequence[str]) -> float:
    """Effective number of independent residuals, given the labels left out together.

    n / (1 + (m - 1) rho), with m residuals per label and rho the share of the variance between
    labels, from a one-way analysis of variance (Kish, Survey Sampling, 1965, 5.4).
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


def _judged(kind: Kind) -> Iterator[tuple[HeldOutResidual, tuple[float, float] | None]]:
    """Each point with the interval of the other folds, None if they have too few points."""
    samples = kind.samples
    folds = _folds([sample.left_out for sample in samples])
    cells: dict[tuple[int, str, str], Cell | None] = {}
    for sample, fold in zip(samples, folds, strict=True):
        tier, engine = (sample.target.facts[name] for name in ("tier", "engine"))
        if (fold, tier, engine) not in cells:
            others = [samples[at] for at in np.flatnonzero(folds != fold)]
            own, pooled = (_cell(others, tier, name, kind.powers) for name in (engine, "*"))
            cells[fold, tier, engine] = own or pooled
        cell = cells[fold, tier, engine]
        if cell is None:
            yield sample, None
            continue
        wide = float(stretch(np.array(sample.novelty), np.array(sample.users), *kind.powers))
        yield sample, (cell.ends[0] ** wide, cell.ends[1] ** wide)


def _folds(labels: Sequence[str]) -> Array:
    """The fold of each label, [labels]: five folds, or one per label if there are few labels."""
    unique = {label: at for at, label in enumerate(sorted(set(labels)))}
    folds = len(unique) if len(unique) <= 2 * _FOLDS else _FOLDS
    order = np.random.default_rng(0).permutation(len(unique))
    return np.array([int(order[unique[label]]) % folds for label in labels])
