"""Arrays of configurations: all of one length, with reason codes for invalid ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genz_core.errors import (
    ContextTooLong,
    InvalidParallelism,
    InvalidValue,
    OutOfMemory,
    RidgelineError,
)
from genz_core.graphs import Model
from genz_core.types import DEGREES, Array, Mask, Num, Parallelism, Workload

_SIZES = ("batch", "isl", "osl", "cached")
_SPLIT = (*DEGREES, "micro_batches", "expert_imbalance", "redundant_experts")
_MAY_BE_ZERO = ("cached", "micro_batches", "redundant_experts")
#: What to do with a configuration that cannot run: raise its error, or put a reason code in its
#: row.
OnError = Literal["raise", "status"]


def length(*values: Num) -> int:
    """Number of configurations described by the values; 1 if all are plain numbers."""
    sizes = {np.size(value) for value in values if not isinstance(value, (int, float))} - {1}
    if len(sizes) < 2:
        return sizes.pop() if sizes else 1
    return int(np.broadcast(*(np.atleast_1d(value) for value in values)).size)


def stack(rows: Iterable[Num], size: int) -> Array:
    """Array [rows, configs] from rows that are numbers or arrays [configs]."""
    values = list(rows)
    stacked = np.empty((len(values), size))
    for at, row in enumerate(values):
        stacked[at] = row
    return stacked


def columns(workload: Workload, parallelism: Parallelism) -> dict[str, Array]:
    """Every number of a workload and its split: {name: array [configs]}, all of one length.

    `moe_tp` is among them where it is not None.

    Raises:
        InvalidValue: a number beyond what a float holds.
    """
    values = {name: getattr(workload, name) for name in _SIZES}
    values |= {name: getattr(parallelism, name) for name in _SPLIT}
    if parallelism.moe_tp is not None:
        values["moe_tp"] = parallelism.moe_tp
    size = length(*values.values())
    if size == 1:
        return dict(zip(values, _single(values), strict=True))
    return {name: spread(_floats(name, value), size) for name, value in values.items()}


def _single(values: Mapping[str, Num]) -> Array:
    """Numbers and arrays or lists of one as floats, [names, 1]."""
    numbers = [
        value if isinstance(value, (int, float)) else np.asarray(value).item()
        for value in values.values()
    ]
    try:
        return np.array(numbers, dtype=float)[:, None]
    except OverflowError:
        return np.stack([_floats(name, value).reshape(1) for name, value in values.items()])


def spread(values: Array, size: int) -> Array:
    """A number or an array as an array [size]; ten times as fast as `np.broadcast_to`."""
    return values.reshape(size) if values.size == size else np.full(size, values)


def _floats(name: str, value: Num) -> Array:
    """A number as floats; `InvalidValue` names one that is too large for a float."""
    try:
        return np.asarray(value, dtype=float)
    except OverflowError:
        raise InvalidValue(f"{name} is too large a number") from None


def _alike(column: Array) -> Num:
    """The number that all configurations share, so that weights are counted once; otherwise
    [configs].
    """
    same = column.size == 1 or (column == column[0]).all()
    return float(column[0]) if same else column


def split_of(parallelism: Parallelism, numbers: Mapping[str, Num]) -> Parallelism:
    """The parallelism with other degrees, named as in `columns`."""
    names = (*_SPLIT, "moe_tp")
    changed: dict[str, Any] = {name: numbers[name] for name in names if name in numbers}
    return replace(parallelism, **changed)


def spread_out(
    workload: Workload, parallelism: Parallelism
) -> tuple[dict[str, Array], Parallelism]:
    """Sizes and degrees of every configuration, [configs].

    Returns:
        {size, or "pp": array}, and the parallelism; degrees that are numbers stay numbers.
    """
    degrees = {name: getattr(parallelism, name) for name in (*_SPLIT, "moe_tp")}
    varying: dict[str, Num] = {name: v for name, v in degrees.items() if np.ndim(v)}
    values = {name: getattr(workload, name) for name in _SIZES} | {"pp": parallelism.pp}
    size = length(*values.values(), *varying.values())
    sizes = {name: spread(_floats(name, value), size) for name, value in values.items()}
    if not varying:
        return sizes, parallelism
    whole = {name: spread(_floats(name, value), size) for name, value in varying.items()}
    return sizes, split_of(parallelism, whole)


@dataclass(frozen=True, slots=True)
class Checked:
    """Configurations and their reason codes, [configs].

    status: "ok" or a reason code.  complaints: {configuration: sentence that explains its code}.
    workload, parallelism: the configurations, with invalid ones replaced by ones that can run.
    """

    status: NDArray[np.str_]
    complaints: dict[int, str]
    workload: Workload
    parallelism: Parallelism


def check(
    model: Model, workload: Workload, parallelism: Parallelism, batch_is: str = "batch"
) -> Checked:
    """Reason codes of the configurations whose degrees cannot split the model.

    Args:
        workload, parallelism: numbers or arrays [configs].
        batch_is: name of the batch in messages.

    Raises:
        InvalidValue: a size or degree outside its range, in any configuration.
    """
    numbers = columns(workload, parallelism)
    bad = np.flatnonzero(_unsound(numbers).any(axis=0))
    if bad.size:
        raise InvalidValue(_size_complaint(numbers, int(bad[0]), batch_is))
    complaints = _split_complaints(model, parallelism, numbers)
    status = np.full(len(numbers["batch"]), "ok", dtype="U24")
    safe = numbers
    if complaints:
        wrong = list(complaints)
        status[wrong] = InvalidParallelism.code
        safe = {name: column.copy() for name, column in numbers.items()}
        for name, column in safe.items():
            column[wrong] = 0.0 if name in _MAY_BE_ZERO else 1.0
    cached = np.minimum(safe["cached"], safe["isl"] - 1.0)
    load = Workload(safe["batch"], safe["isl"], safe["osl"], cached)
    degrees = {name: _alike(safe[name]) for name in safe if name not in _SIZES}
    return Checked(status, complaints, load, split_of(parallelism, degrees))


#: The typed error behind each reason code.
_ERRORS: Mapping[str, type[RidgelineError]] = {
    error.code: error for error in (InvalidParallelism, OutOfMemory, ContextTooLong)
}


def raise_for_status(
    status: NDArray[np.str_], message: Callable[[int], str], ignore: Collection[str] = ()
) -> None:
    """Raise the error of the first configuration with a reason code.

    Args:
        status: reason codes, [configs].
        message: configuration -> its sentence.
        ignore: reason codes that raise nothing.

    Raises:
        InvalidParallelism, OutOfMemory: by its reason code; of several configurations the error
            says which.
    """
    for at, code in enumerate(status):
        if code in _ERRORS and code not in ignore:
            which = f"configuration {at}: " if len(status) > 1 else ""
            raise _ERRORS[str(code)](which + message(at))


def _unsound(numbers: Mapping[str, Array]) -> Mask:
    """Whether each number is outside the range of sizes and degrees, [names, configs]."""
    values = np.array(list(numbers.values()))
    least, fraction = _ranges(tuple(numbers))
    whole = (values == np.floor(values)) | fraction
    unsound: Mask = ~(np.isfinite(values) & (values >= least) & whole)
    return unsound


@cache
def _ranges(names: tuple[str, ...]) -> tuple[Array, Mask]:
    """Least of each number, and whether it may be a fraction, [names, 1]."""
    least = np.array([[0.0 if name in _MAY_BE_ZERO else 1.0] for name in names])
    return least, np.array([[name == "expert_imbalance"] for name in names])


def _size_complaint(numbers: Mapping[str, Array], at: int, batch_is: str) -> str:
    """The sentence on the sizes of configuration `at` that are outside their range."""
    unsound = _unsound(numbers)[:, at]
    wrong = {name: numbers[name][at] for name, bad in zip(numbers, unsound, strict=True) if bad}
    names = {"batch": batch_is}
    listed = ", ".join(f"{names.get(name, name)} = {value:g}" for name, value in wrong.items())
    if set(wrong) == {"expert_imbalance"}:
        return f"{listed}: give at least 1; the busiest rank cannot have less than the mean"
    least = 0 if set(wrong) <= set(_MAY_BE_ZERO) else 1
    return f"{listed}: sizes and degrees are whole numbers of at least {least}"


def _split_complaints(
    model: Model, parallelism: Parallelism, numbers: Mapping[str, Array]
) -> dict[int, str]:
    """{configuration: sentence} for degrees that do not divide the model.

    Each distinct combination of degrees is checked once.
    """
    names = [name for name in (*DEGREES, "moe_tp", "redundant_experts") if name in numbers]
    size = len(numbers[names[0]])
    if all(np.ndim(_alike(numbers[name])) == 0 for name in names):
        same: dict[str, Any] = {name: int(numbers[name][0]) for name in names}
        message = model.invalid(replace(parallelism, **same))
        return dict.fromkeys(range(size), message) if message else {}
    rows = np.stack([numbers[name] for name in names])
    kinds, of = np.unique(rows, axis=1, return_inverse=True)
    complaints: dict[int, str] = {}
    for kind, degrees in enumerate(kinds.T):
        values: dict[str, Any] = {n: int(d) for n, d in zip(names, degrees, strict=True)}
        message = model.invalid(replace(parallelism, **values))
        if message:
            complaints |= {int(at): message for at in np.flatnonzero(of.ravel() == kind)}
    return complaints
