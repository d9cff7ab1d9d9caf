"""The predicted curve behind measured points: figures over the load, with interval and bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from app.benchmarks.closed_form import figures_under_load
from app.benchmarks.comparison import Comparison, Point
from app.benchmarks.report import best_known
from app.scenario import served_rows
from app.scenario.pools import devices_of

#: Figures of a curve by the figures of a result that belong on it; the first is its own.
FIGURES = {
    "ttft": ("ttft_mean_s", "ttft_p50_s"),
    "tpot": ("tpot_mean_s", "tpot_p50_s", "itl_mean_s"),
    "rate": ("output_tokens_per_s",),
}
_LOADS, _BEYOND = 25, 2.0
_SAME_LENGTH = 0.1


@dataclass(frozen=True, slots=True)
class Group:
    """Measured runs of one deployment with similar lengths, in order of load, for one curve."""

    points: tuple[Point, ...]

    @property
    def kind(self) -> str:
        """What the load is: "concurrency" or "rate"."""
        return "rate" if self.points[0].deployment.load.rate else "concurrency"

    @property
    def label(self) -> str:
        """Lengths and deployment in words."""
        one = self.points[0].deployment
        resolved = one.priced()
        devices = sum(devices_of(resolved.scenario))
        return (
            f"{resolved.model.name} on {devices} x {resolved.system.slug}, "
            f"{resolved.engine.name}, {one.load.length_words}"
        )


@dataclass(frozen=True, slots=True)
class Curve:
    """The closed form over the load.

    columns: [loads] of "load", "status", and of ttft, tpot and rate (output tokens/s) "*", "*_low",
    "*_high", "*_bound", NaN where there is none.
    """

    kind: str
    columns: dict[str, list[Any]]


def groups(comparison: Comparison) -> list[Group]:
    """Runs under load by deployment and lengths, the largest group first.

    Runs beyond what the deployment sustains are included.
    """
    found: list[list[Point]] = []
    for point in comparison.points:
        if point.measurement.phase or point.deployment.resolved is None:
            continue
        mine = next((group for group in found if _alike(group[0], point)), None)
        if mine is None:
            found.append([point])
        else:
            mine.append(point)
    found.sort(key=len, reverse=True)
    return [Group(tuple(sorted(points, key=lambda point: point.load_value))) for points in found]


def _alike(one: Point, other: Point) -> bool:
    a, b = one.deployment, other.deployment
    near = all(
        math.isclose(getattr(a.load, side), getattr(b.load, side), rel_tol=_SAME_LENGTH)
        for side in ("mean_isl", "mean_osl")
    )
    priced = [
        (d.priced().model.name, d.priced().system.slug, d.priced().engine.name) for d in (a, b)
    ]
    split = a.scenario.parallelism == b.scenario.parallelism
    split = split and devices_of(a.scenario) == devices_of(b.scenario)
    kinds = bool(a.load.rate) == bool(b.load.rate)
    return near and split and kinds and priced[0] == priced[1]


def curve(group: Group, level: float) -> Curve:
    """The closed form from half the smallest load of a group to twice its largest."""
    values = [point.load_value for point in group.points]
    low, high = min(values) / _BEYOND, max(values) * _BEYOND
    if group.kind == "concurrency":
        loads = np.unique(np.round(np.geomspace(max(low, 1.0), max(high, 2.0), _LOADS)))
    else:
        loads = np.geomspace(low, high, _LOADS)
    first = group.points[0]
    prediction = first.prediction
    resolved = prediction.resolved if prediction else first.deployment.priced()
    question = replace(resolved.scenario, **_mean_load(group.points))
    result = served_rows.served(replace(resolved, scenario=question), {group.kind: loads})
    figures = figures_under_load(resolved, result, first.deployment.load, level)
    columns: dict[str, list[Any]] = {
        "load": loads.tolist(), "status": [str(s) for s in result.status],
    }  # fmt: skip
    for name, (figure, *_) in FIGURES.items():
        one = figures[figure]
        ends = {"": one.value, "_low": one.low, "_high": one.high, "_bound": one.bound}
        for end, values in ends.items():
            columns[name + end] = np.broadcast_to(values, loads.shape).tolist()
    return Curve(group.kind, columns)


def _mean_load(points: Sequence[Point]) -> dict[str, Any]:
    """The mean of a group's lengths, and of the number of requests per user."""
    loads = [point.deployment.load for point in points]
    mean: dict[str, Any] = {
        name: max(round(fmean(getattr(load, name) for load in loads)), 1) for name in ("isl", "osl")
    }
    waves = fmean(load.waves for load in loads)
    if waves and loads[0].users:
        mean |= {"burst_start": True, "requests": round(waves * max(loads[0].users, 1.0))}
    return mean


def measured_points(group: Group, name: str) -> list[dict[str, Any]]:
    """Measured points of a curve: load, value, words, and position of each.

    name: "ttft", "tpot" or "rate".
    """
    found = []
    for point in group.points:
        rows = (point.row(figure) for figure in FIGURES[name])
        row = next((row for row in rows if row is not None), None)
        if row is not None:
            found.append(
                {
                    "load": point.load_value,
                    "value": row.measured,
                    "figure": row.figure,
                    "place": row.place,
                    "label": point.label,
                }
            )
    return found


def best_points(group: Group, name: str) -> list[dict[str, Any]]:
    """The best measured runs known near the loads of a curve: load, value, label; see
    `measured_points`."""
    found = ((one.load_value, best_known(one.deployment, f"{name}_s")) for one in group.points)
    return [
        {"load": load, "value": best.seconds, "label": best.run} for load, best in found if best
    ]
