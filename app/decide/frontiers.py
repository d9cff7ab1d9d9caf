"""What systems, engines and formats can reach: every load at every degree, and the frontier."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from app.answers.columns import ends
from app.decide.axes import Axis, frontier
from app.decide.measured_loads import MeasuredLoad, bases, measured_loads
from app.planning.candidates import economy_columns, latency_columns
from app.planning.families import Family, LeftOut, asking_for, families
from app.planning.space import DEGREES, shapes
from app.question.asking import Asked
from app.question.comparison import of_served
from app.scenario.served_rows import served
from genz_core.errors import RidgelineError
from genz_core.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.types import Array
from hardware_db.intervals import Interval

#: Open requests of a replica: half an octave apart.
_USERS: Array = np.unique(np.round(np.exp2(np.arange(0, 12.5, 0.5))))
_RUNNING = 1.001  # users over those that run, beyond which the others wait


@dataclass(frozen=True, slots=True)
class Curve:
    """A family at every degree and load that runs without waiting.

    columns: figures, degrees, "users", "batch" and the ends of the intervals, [points].
    basis: how well measurements reach each, see `measured_loads.BASES`.
    measured: loads that were measured at these lengths; at_measured: what is predicted there, the
    same columns.  label: what a chart calls it, "" for the family.
    """

    family: Family
    columns: dict[str, Array]
    basis: NDArray[np.intp]
    measured: tuple[MeasuredLoad, ...]
    at_measured: dict[str, Array]
    label: str = ""

    @property
    def name(self) -> str:
        """The label, or what the family is."""
        return self.label or str(self.family)

    def __len__(self) -> int:
        return len(self.basis)

    def vertices(self, x: Axis, y: Axis) -> NDArray[np.intp]:
        """The points on the exact frontier of two axes, in their order across."""
        return frontier(x.values(self.columns), y.values(self.columns), x, y)


def curves(
    asked: Asked, progress: Progress = silent, cancelled: Cancel = never
) -> tuple[tuple[Curve, ...], tuple[LeftOut, ...]]:
    """The curve of every family that a question names; its load and targets play no part.

    A replica has at most as many devices as the question allows.

    Raises:
        RidgelineError: as `app.planning.families.families`.
        Cancelled: between two families; some of the curves would not be what was asked.
    """
    loop = replace(asked.question, batch=1, rate=None, trace=None, concurrency=1)
    asked = replace(asked, question=loop)
    found, left = families(asked)
    result, missing = [], list(left)
    for number, family in enumerate(found):
        if cancelled():
            raise Cancelled(str(family))
        progress(number / len(found), str(family))
        try:
            curve = _curve(asked, family)
        except RidgelineError as error:
            missing.append(LeftOut(str(family), str(error)))
            continue
        if len(curve):
            result.append(curve)
        else:
            missing.append(LeftOut(str(family), "nothing of it fits on so few devices"))
    return tuple(result), tuple(missing)


def _curve(asked: Asked, family: Family) -> Curve:
    degrees = shapes(family.resolved.model, family.resolved.system, asked)
    every = np.repeat(degrees, len(_USERS), axis=1)
    users = np.tile(_USERS, degrees.shape[1])
    columns = _priced(family, every, users) if users.size else {}
    runs = (
        (columns["ok"] > 0) & (users <= columns["running"] * _RUNNING)
        if users.size
        else np.zeros(0, dtype=bool)
    )
    kept = {name: column[runs] for name, column in columns.items()}
    loads = measured_loads(family)
    lengths = (asked.question.isl, asked.question.osl)
    reached = bases(loads, every[:, runs], users[runs], lengths)
    alike = [one for one in loads if (one.isl, one.osl) == lengths]
    here = tuple(sorted(alike, key=lambda one: one.length_ratio))
    return Curve(family, kept, reached, here, _at_measured(family, here))


def _at_measured(family: Family, loads: tuple[MeasuredLoad, ...]) -> dict[str, Array]:
    """What is predicted where loads were measured, [loads]; loads by their ratio of lengths."""
    parts = []
    for ratio, same in groupby(loads, key=lambda one: one.length_ratio):
        mine = list(same)
        degrees = np.array([load.degrees for load in mine], dtype=float).T
        users = np.array([load.concurrency for load in mine])
        drawn = replace(family, resolved=asking_for(family.resolved, length_ratio=ratio))
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
        "ok": (found.status == "ok").astype(float),
        **latency_columns(
            found.ttft_s, found.ttft_median_s, found.prefill_s, found.tpot_s, question
        ),
        **economy_columns([(family.system, devices)], rate, question),
        **_ends(known["ttft_s"], "ttft_s", found.ttft_s, found.bound_prefill_s),
        **_ends(known["tpot_s"], "tpot_s", found.tpot_s, found.bound_decode_step_s),
    }
    return {name: np.broadcast_to(column, users.shape) for name, column in columns.items()}


def _ends(interval: Interval | None, name: str, values: Array, bound: Array) -> dict[str, Array]:
    """The ends of a latency's interval, NaN where not validated."""
    low, high = ends(name)
    if interval is None:
        return {low: np.full_like(values, np.nan), high: np.full_like(values, np.nan)}
    return {low: np.maximum(values * interval.low, bound), high: values * interval.high}
