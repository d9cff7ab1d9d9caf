"""What systems, engines and formats can reach: every load at every degree, and the frontier."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from app.answers.column import THROUGHPUT_ENDS
from app.decide.axes import Axis, frontier
from app.decide.measured_loads import MeasuredLoad, bases, measured_loads, nearest
from app.planning.candidates import economy_columns, latency_columns
from app.planning.families import Family, LeftOut, asking_for, families
from app.planning.space import DEGREES, shapes
from app.question.comparison import of_served
from app.question.query import Query
from app.scenario.intervals import beside, bounds_of_load, of_throughput
from app.scenario.served_rows import served
from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import RidgelineError
from genz_core.types import Array, Mask

#: Numbers of open requests of a replica, half an octave apart.
_USERS: Array = np.unique(np.round(np.exp2(np.arange(0, 12.5, 0.5))))
_TRIED = 4  # most degrees that are priced anew at a speed
#: Relative distance from the best on its line, beyond which a degree is not priced anew: several
#: times the error of a straight line between two loads.
_NEAR = 0.1
_BETWEEN = 24  # loads that are priced anew between two of a curve, for the largest one
_NEAREST = 8  # number of measured runs at other lengths that are shown where there is none at these
_RUNNING = 1.001  # ratio of open to running requests above which users wait


@dataclass(frozen=True, slots=True)
class Curve:
    """A family at every degree and load that runs without waiting.

    columns: figures, degrees, "users", "batch" and the ends of the intervals, [points].
    basis: how well measurements cover each point, see `measured_loads.BASES`.
    measured: loads measured at these lengths, otherwise the nearest at other lengths; at_measured:
    predictions there, with the same columns.  label: name in a chart, "" for the family's.
    best: what `at_speed` found, by speed and axis.
    """

    family: Family
    columns: dict[str, Array]
    basis: NDArray[np.intp]
    measured: tuple[MeasuredLoad, ...]
    at_measured: dict[str, Array]
    label: str = ""
    best: dict[tuple[float, str], dict[str, float] | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def name(self) -> str:
        """The label, or the name of the family."""
        return self.label or str(self.family)

    def __len__(self) -> int:
        return len(self.basis)

    def vertices(self, x: Axis, y: Axis) -> NDArray[np.intp]:
        """The points on the exact frontier of two axes, in horizontal order."""
        return frontier(x.values(self.columns), y.values(self.columns), x, y)


def curves(
    query: Query, progress: Progress = silent, cancelled: Cancel = never
) -> tuple[tuple[Curve, ...], tuple[LeftOut, ...]]:
    """The curve of every family that a question names; its load and targets are ignored.

    A replica has at most as many devices as the question allows.

    Raises:
        RidgelineError: as `app.planning.families.families`.
        Cancelled: between two families; an incomplete set of curves is not returned.
    """
    loop = replace(query.question, batch=1, rate=None, trace=None, concurrency=1)
    query = replace(query, question=loop)
    found, left = families(query)
    result, missing = [], list(left)
    for number, family in enumerate(found):
        if cancelled():
            raise Cancelled(str(family))
        progress(number / len(found), str(family))
        try:
            curve = _curve(query, family)
        except RidgelineError as error:
            missing.append(LeftOut(str(family), str(error)))
            continue
        if len(curve):
            result.append(curve)
        else:
            missing.append(LeftOut(str(family), "it does not fit on so few devices"))
    return tuple(result), tuple(missing)


def _curve(query: Query, family: Family) -> Curve:
    degrees = shapes(family.resolved.model, family.resolved.system, query)
    every = np.repeat(degrees, len(_USERS), axis=1)
    users = np.tile(_USERS, degrees.shape[1])
    columns = _priced(family, every, users) if users.size else {}
    runs = _all_run(columns) if users.size else np.zeros(0, dtype=bool)
    kept = {name: column[runs] for name, column in columns.items()}
    loads = measured_loads(family)
    lengths = (query.question.isl, query.question.osl)
    reached = bases(loads, every[:, runs], users[runs], lengths)
    shown = [one for one in loads if (one.isl, one.osl) == lengths]
    if not shown and runs.any():
        order = (nearest(loads, every[:, at], users[at], lengths) for at in np.flatnonzero(runs))
        shown = list({one: None for one in order if one})[:_NEAREST]
    here = tuple(sorted(shown, key=lambda one: (one.length_ratio, one.isl, one.osl)))
    return Curve(family, kept, reached, here, _at_measured(family, here))


def _at_measured(family: Family, loads: tuple[MeasuredLoad, ...]) -> dict[str, Array]:
    """Predictions for the measured loads, [loads], each as it ran."""
    parts = []
    for asked, same in groupby(loads, key=lambda one: one.asked):
        mine = list(same)
        degrees = np.array([load.degrees for load in mine], dtype=float).T
        users = np.array([load.concurrency for load in mine])
        drawn = replace(family, resolved=asking_for(family.resolved, **asked))
        parts.append(_priced(drawn, degrees, users))
    names = parts[0] if parts else {}
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def _priced(family: Family, degrees: Array, users: Array) -> dict[str, Array]:
    """Figures of a replica under closed loops, [points]."""
    question, resolved = family.question, family.resolved
    named = dict(zip(DEGREES, degrees, strict=True))
    found = served(resolved, {**named, "concurrency": users})
    rate = found.output_tokens_per_s / found.osl / question.samples
    of = of_served(found, resolved.engine.name, resolved.model)
    known = family.intervals(found.novelty, of)
    devices = degrees[0] * degrees[1] * degrees[2]
    columns = {
        **named,
        "users": users,
        "running": found.running,
        "open_requests": found.open_requests,
        "ok": (found.status == "ok").astype(float),
        **latency_columns(
            found.ttft_s, found.ttft_median_s, found.prefill_s, found.tpot_s, question
        ),
        **economy_columns([(family.system, devices)], rate, question),
    }
    seconds = {name: columns[name] for name in ("ttft_s", "tpot_s", "e2e_s")}
    trusted = beside(seconds, known, bounds_of_load(found))
    del trusted["not_validated"]
    trusted |= of_throughput(columns["output_tokens_per_s"], trusted)
    columns |= {
        name: np.full(1, np.nan) if column is None else column for name, column in trusted.items()
    }
    return {name: np.broadcast_to(column, users.shape) for name, column in columns.items()}


def _all_run(columns: Mapping[str, Array]) -> Mask:
    """Whether a replica serves its load and every open request runs, [points]."""
    waits = columns["open_requests"] > columns["running"] * _RUNNING
    return np.asarray((columns["ok"] > 0) & ~waits)


# ------------------------------------------------------------------------------- one speed


def at_speed(curve: Curve, tokens_per_s: float, y: Axis) -> dict[str, float] | None:
    """The best deployment of a family, by the vertical axis, that gives every user at least a given
    speed.

    Loads between those of the curve are priced anew, not interpolated.

    Args:
        tokens_per_s: least tokens per second of each user.

    Returns:
        Its columns, one number each; None if no load of the family is that fast.  Kept in the
        curve for the next call.
    """
    asked = (tokens_per_s, y.name)
    if asked not in curve.best:
        curve.best[asked] = _best_at(curve, tokens_per_s, y)
    return curve.best[asked]


def _best_at(curve: Curve, tokens_per_s: float, y: Axis) -> dict[str, float] | None:
    tried = _loads_at(curve, tokens_per_s, y)
    if not tried.size:
        return None
    degrees, users = tried[:-1], tried[-1]
    columns = _priced(curve.family, degrees, users)
    values = y.values(columns)
    fast = columns["interactivity"] >= tokens_per_s
    runs = _all_run(columns)
    good = fast & runs & np.isfinite(values)
    if not good.any():
        return None
    best = int(np.argmax(np.where(good, -values if y.smaller else values, -np.inf)))
    return {name: float(column[best]) for name, column in columns.items()}


def most_users(curve: Curve, met: Callable[[Mapping[str, Array]], Mask]) -> dict[str, Array]:
    """The largest load of each degree of a family that meets a condition and runs without waiting.

    Loads between those of the curve are priced anew, not interpolated.

    Args:
        met: of columns, whether each point meets the condition.

    Returns:
        Columns, one number per degree; degrees that meet it at no load are left out.
    """
    good = met(curve.columns)
    if not good.any():
        return {}
    degrees = np.stack([curve.columns[name][good] for name in DEGREES])
    each, which = np.unique(degrees, axis=1, return_inverse=True)
    low = np.zeros(each.shape[1])
    np.maximum.at(low, which.ravel(), curve.columns["users"][good])
    tried = np.floor(low[:, None] * np.geomspace(1.0, math.sqrt(2.0), _BETWEEN))
    columns = _priced(curve.family, np.repeat(each, _BETWEEN, axis=1), tried.ravel())
    runs = _all_run(columns)
    fits = (met(columns) & runs).reshape(tried.shape)
    best = np.where(fits, tried, 0.0).argmax(axis=1) + np.arange(len(low)) * _BETWEEN
    return {name: column[best] for name, column in columns.items()}


def _loads_at(curve: Curve, tokens_per_s: float, y: Axis) -> Array:
    """Degrees and users to price for a speed, [5, loads]: near the crossing of each degree's curve.

    Between two loads a curve is nearly a straight line in logarithms: several numbers of users
    around the crossing are tried, for the degrees that are best on that line.
    """
    degrees = np.stack([curve.columns[name] for name in DEGREES])
    value = y.values(curve.columns) * (-1.0 if y.smaller else 1.0)
    tried: list[tuple[float, Array]] = []
    for own in np.unique(degrees, axis=1).T:
        mine = np.flatnonzero((degrees == own[:, None]).all(axis=0))
        mine = mine[np.argsort(curve.columns["users"][mine])]
        users, speed = (curve.columns[name][mine] for name in ("users", "interactivity"))
        fast = np.flatnonzero(speed >= tokens_per_s)
        if not fast.size:
            continue
        last = int(fast[-1])
        counts, about = users[[last]], float(value[mine[last]])
        if last + 1 < users.size:
            share = np.log(speed[last] / tokens_per_s) / np.log(speed[last] / speed[last + 1])
            crossing = users[last] * (users[last + 1] / users[last]) ** share
            about += share * float(value[mine[last + 1]] - value[mine[last]])
            near = np.floor(crossing * np.array([0.93, 0.96, 0.98, 1.0, 1.02]))
            counts = np.unique(np.clip([users[last], *near], users[last], users[last + 1]))
        loads = np.vstack([np.repeat(own[:, None], counts.size, axis=1), counts])
        tried.append((about if np.isfinite(about) else -np.inf, loads))
    tried.sort(key=lambda one: one[0], reverse=True)
    least = tried[0][0] - _NEAR * abs(tried[0][0]) if tried else 0.0
    near = [loads for about, loads in tried[:_TRIED] if not about < least]
    return np.concatenate([np.zeros((len(DEGREES) + 1, 0)), *near], axis=1)


def reach(row: dict[str, float], y: Axis) -> tuple[float, float, float]:
    """The vertical value of a row of `at_speed` with the ends of its 80 % interval, NaN without
    one.

    All vertical axes depend on the throughput, with hourly cost and power as given.
    """
    value = float(y.values({y.column: np.array([row[y.column]])})[0])
    shares = [row[name] / row["output_tokens_per_s"] for name in THROUGHPUT_ENDS]
    low, high = (value / share if y.smaller else value * share for share in shares)
    return value, min(low, high), max(low, high)


def speed_reach(row: dict[str, float]) -> tuple[float, float]:
    """The ends of the 80 % interval of tokens per second of each user, NaN without one."""
    return 1.0 / row["tpot_high_s"], 1.0 / row["tpot_low_s"]


def is_validated(row: dict[str, float]) -> bool:
    """Whether every latency and the throughput of a row of `at_speed` have an interval."""
    names = ("ttft_low_s", "tpot_low_s", *THROUGHPUT_ENDS)
    return all(np.isfinite(row[name]) for name in names)
