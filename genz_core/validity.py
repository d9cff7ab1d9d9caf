"""Configurations side by side: scalars and arrays brought to one length, and which can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.types import DEGREES, Array, Mask, Model, Num, Parallelism, Workload

_SIZES = ("batch", "isl", "osl", "cached")
_SPLIT = (*DEGREES, "micro_batches", "expert_imbalance")
_MAY_BE_ZERO = ("cached", "micro_batches")


def length(*values: Num) -> int:
    """How many configurations the values describe; 1 where all are scalars."""
    return int(np.broadcast(*(np.atleast_1d(value) for value in values)).size)


def stack(rows: Iterable[Num], size: int) -> Array:
    """Rows that are scalars or arrays of configurations -> [rows, configs]."""
    given = list(rows)
    stacked = np.empty((len(given), size))
    for at, row in enumerate(given):
        stacked[at] = row
    return stacked


def columns(workload: Workload, parallelism: Parallelism) -> dict[str, Array]:
    """Every number of a workload and its split by name, as arrays [configs] of one length.

    `moe_tp` is among them where it is given.

    Raises:
        InvalidValue: a number beyond what a float holds.
    """
    values = {name: getattr(workload, name) for name in _SIZES}
    values |= {name: getattr(parallelism, name) for name in _SPLIT}
    if parallelism.moe_tp is not None:
        values["moe_tp"] = parallelism.moe_tp
    size = length(*values.values())
    return {name: np.broadcast_to(_floats(name, value), (size,)) for name, value in values.items()}


def _floats(name: str, value: Num) -> Array:
    try:
        return np.asarray(value, dtype=float)
    except OverflowError:
        raise InvalidValue(f"{name} is beyond any number that can be priced") from None


def split_of(parallelism: Parallelism, numbers: Mapping[str, Array]) -> Parallelism:
    """The same way to split with the numbers of other configurations, named as in `columns`."""
    names = (*_SPLIT, "moe_tp")
    changed: dict[str, Any] = {name: numbers[name] for name in names if name in numbers}
    return replace(parallelism, **changed)


@dataclass(frozen=True, slots=True)
class Checked:
    """Configurations that were looked through, [configs].

    status: "ok" or a reason code.  complaints: the sentence behind each code.
    workload, parallelism: as asked, the ones that cannot run replaced by ones that can.
    """

    status: NDArray[np.str_]
    complaints: dict[int, str]
    workload: Workload
    parallelism: Parallelism


def check(
    model: Model, workload: Workload, parallelism: Parallelism, batch_is: str = "batch"
) -> Checked:
    """Find the configurations that cannot run.

    batch_is: what the batch is called in complaints.

    Raises:
        InvalidValue, InvalidParallelism: where there is only one configuration and it cannot.
    """
    asked = columns(workload, parallelism)
    bad = np.any([_unsound(name, column) for name, column in asked.items()], axis=0)
    status = np.where(bad, InvalidValue.code, "ok").astype("U24")
    complaints = {int(at): _size_complaint(asked, int(at), batch_is) for at in np.flatnonzero(bad)}
    for at, message in _split_complaints(model, parallelism, asked, ~bad).items():
        status[at], complaints[at] = InvalidParallelism.code, message
    if len(status) == 1 and complaints:
        raise (InvalidValue if bad[0] else InvalidParallelism)(complaints[0])
    good = status == "ok"
    safe = {name: np.where(good, column, 1.0) for name, column in asked.items()}
    known = np.where(good, np.minimum(safe["cached"], safe["isl"] - 1.0), 0.0)
    load = Workload(safe["batch"], safe["isl"], safe["osl"], known)
    return Checked(status, complaints, load, split_of(parallelism, safe))


def _unsound(name: str, column: Array) -> Mask:
    least = 0.0 if name in _MAY_BE_ZERO else 1.0
    whole = (column == np.floor(column)) | (name == "expert_imbalance")
    return ~(np.isfinite(column) & (column >= least) & whole)


def _size_complaint(asked: Mapping[str, Array], at: int, batch_is: str) -> str:
    wrong = {name: column[at] for name, column in asked.items() if _unsound(name, column)[at]}
    names = {"batch": batch_is}
    listed = ", ".join(f"{names.get(name, name)} = {value:g}" for name, value in wrong.items())
    if set(wrong) == {"expert_imbalance"}:
        return f"{listed}: the busiest rank has the mean of all ranks at least, which is 1"
    least = 0 if set(wrong) <= set(_MAY_BE_ZERO) else 1
    return f"{listed}: sizes and degrees are whole numbers of at least {least}"


def _split_complaints(
    model: Model, parallelism: Parallelism, asked: Mapping[str, Array], sound: Mask
) -> dict[int, str]:
    """Sentence per configuration whose degrees do not divide the model, one look per kind."""
    names = [name for name in (*DEGREES, "moe_tp") if name in asked]
    rows = np.stack([asked[name] for name in names])[:, sound]
    kinds, of = np.unique(rows, axis=1, return_inverse=True)
    where = np.flatnonzero(sound)
    complaints: dict[int, str] = {}
    for kind, degrees in enumerate(kinds.T):
        values: dict[str, Any] = {n: int(d) for n, d in zip(names, degrees, strict=True)}
        message = model.invalid(replace(parallelism, **values))
        if message:
            complaints |= {int(at): message for at in where[of.ravel() == kind]}
    return complaints
