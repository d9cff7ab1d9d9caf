"""Symbolic sizes: formulas run on them once, and can then be evaluated for any numbers.

A graph is built by plain formulas of its sizes (`Group`).  Run on `Symbol`s, they record `Results`:
every distinct result once, in order of creation; anything that depends on no size is computed as a
constant.  A `Program` (`genz_core.symbolic.programs`) then evaluates the selected ones, for numbers
or arrays.

Formulas of kernels try several variants at once: combined with arrays of constants, a symbol
represents an array, if its results allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, prod
from threading import Lock
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: The index of a result, a factor and a constant; constants of formulas are never tuples.
Multiple = tuple[int, float, float]


class Unresolved(Exception):
    """Raised when a formula needs the number behind a symbol in order to decide what to do."""


@dataclass(slots=True)
class Results:
    """Results of formulas of named sizes; a result is a function of earlier ones.

    `genz_core.symbolic.formulas.Formulas` adds NumPy's functions.

    arrays: symbols may be combined with arrays of constants.
    steps: of each result, the function and its arguments, a `Multiple` for a symbol; of a size, its
    name.  least: lower bound of each result.  shapes: of the results, () for numbers.
    """

    arrays: bool = False
    steps: list[tuple[Callable[..., Any], tuple[Any, ...]] | str] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def __reduce__(self) -> Any:
        """For another process, which has a lock of its own."""
        return type(self), (self.arrays, self.steps, self.least, self.shapes, self._known)

    def size(self, name: str, least: float) -> Symbol:
        """A size of at least `least`."""
        self.steps.append(name)
        self.least.append(least)
        self.shapes.append(())
        return Symbol(self, len(self.steps) - 1)

    def result(
        self,
        function: Callable[..., Any],
        *given: Any,
        least: float = -inf,
        shape: tuple[int, ...] | None = None,
    ) -> Symbol:
        """The result of a function of symbols and numbers; equal arguments give the same result.

        shape: of the result; by default the shape that its arguments broadcast to.
        """
        keys = tuple(map(key_of, given))
        with self._lock:  # several threads may price with the same graph
            at = self._known.setdefault((function, *keys), len(self.steps))
            if at == len(self.steps):
                # no symbols, which refer to these results: both are freed when nothing uses them
                one_each = zip(given, keys, strict=True)
                arguments = tuple(key if isinstance(v, Symbol) else v for v, key in one_each)
                self.least.append(least)
                self.shapes.append(_shape_of(*map(np.shape, given)) if shape is None else shape)
                self.steps.append((function, arguments))
        return Symbol(self, at)

    def operand(self, value: Any) -> Symbol | float | bool | Array:
        """A symbol unchanged, a constant as one number, or as an array where arrays are allowed."""
        if isinstance(value, (Symbol, float, bool)):
            return value
        if self.arrays and np.size(value) > 1:
            return np.asarray(value)
        return constant(value)

    def applied(self, ufunc: np.ufunc, *values: Any) -> Any:
        """The result of a NumPy ufunc on symbols and constants, simplified."""
        raise Unresolved(ufunc.__name__)

    def called(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a NumPy function that is not a ufunc."""
        raise Unresolved(function.__name__)

    def depends(self, name: str) -> list[bool]:
        """Whether each result depends on a size."""
        found: list[bool] = []
        for step in self.steps:
            if isinstance(step, str):
                found.append(step == name)
            else:
                found.append(any(found[a[0]] for a in step[1] if isinstance(a, tuple)))
        return found


class Symbol:
    """One of `Results` times a factor, plus a constant; NumPy's functions accept it.

    It may stand for an array of a known shape.

    Anything that needs its value, such as a branch, raises `Unresolved`.
    """

    __slots__ = ("at", "constant", "factor", "formulas")

    def __init__(
        self, formulas: Results, at: int, factor: float = 1.0, constant: float = 0.0
    ) -> None:
        self.formulas, self.at, self.factor, self.constant = formulas, at, factor, constant

    @property
    def key(self) -> Multiple:
        """A key that is equal for equal symbols of the same formulas."""
        return self.at, self.factor, self.constant

    @property
    def least(self) -> float:
        """A lower bound of its value."""
        least = self.formulas.least[self.at]
        return least * self.factor + self.constant if self.factor > 0 else -inf

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the value; () for a number."""
        return self.formulas.shapes[self.at]

    @property
    def ndim(self) -> int:
        """Number of dimensions of its shape."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    def min(self, axis: int) -> Symbol:
        """The minimum along an axis."""
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        return self.formulas.result(least_of, self, axis, least=self.least, shape=shape)

    def __getitem__(self, where: Any) -> Symbol:
        if where != (None, slice(None)):
            raise Unresolved(f"[{where}]")
        if self.ndim == 0:
            return self
        return self.formulas.result(row_of, self, least=self.least, shape=(1, *self.shape))

    def plain(self) -> Symbol:
        """The symbol without its added constant."""
        if not self.constant:
            return self
        bare = Symbol(self.formulas, self.at, self.factor)
        return self.formulas.result(np.add, bare, self.constant, least=self.least)

    def scaled(self, factor: float) -> Any:
        """The symbol times a factor."""
        if not factor:
            return np.float64(0.0)
        return Symbol(self.formulas, self.at, self.factor * factor, self.constant * factor)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **more: Any) -> Any:
        if method != "__call__" or more:
            raise Unresolved(f"{ufunc.__name__}.{method}")
        return self.formulas.applied(ufunc, *inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        return self.formulas.called(function, args, kwargs)

    def __bool__(self) -> bool:
        raise Unresolved("a branch")

    def __float__(self) -> float:
        raise Unresolved("a number")

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise Unresolved("an array")

    def __add__(self, other: Any) -> Any:
        return self.formulas.applied(np.add, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.formulas.applied(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self.formulas.applied(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (float, int)):
            return self.scaled(other)
        return self.formulas.applied(np.multiply, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.formulas.applied(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self.formulas.applied(np.divide, other, self)

    def __pow__(self, other: Any) -> Any:
        return np.power(self, other)

    def __neg__(self) -> Any:
        return self.scaled(-1.0)

    def __gt__(self, other: Any) -> Any:
        return np.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return np.greater_equal(self, other)

    def __lt__(self, other: Any) -> Any:
        return np.less(self, other)

    def __le__(self, other: Any) -> Any:
        return np.less_equal(self, other)

    def __and__(self, other: Any) -> Any:
        return np.logical_and(self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return np.logical_or(self, other)

    def __invert__(self) -> Any:
        return np.logical_not(self)


def number(value: Any) -> Array:
    """A size, or a value derived from sizes, for arithmetic: a float, or a symbol unchanged."""
    return cast(Array, value) if isinstance(value, Symbol) else np.asarray(value, dtype=float)


def lower_bound(value: Any) -> float:
    """A lower bound of a symbol or a constant."""
    return value.least if isinstance(value, Symbol) else float(np.min(value))


def constant(value: Any) -> float | bool:
    """The single number of a constant that is combined with symbols."""
    if isinstance(value, (float, int)):
        return value
    array = np.asarray(value)
    if array.size != 1:
        raise Unresolved("an array of constants cannot be combined with symbols here")
    one: float | bool = array.reshape(()).item()
    return one


def key_of(value: Any) -> Hashable:
    """A key that is equal for equal symbols and for equal constants."""
    if isinstance(value, Symbol):
        return value.key
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


@lru_cache(4096)
def _shape_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


# ------------------------------------------------------------------------------- of arrays


def least_of(values: Any, axis: int) -> Any:
    """The minimum of an array along an axis."""
    return np.minimum.reduce(values, int(axis))


def row_of(values: Any) -> Any:
    """An array [n] with shape [1, n]."""
    return values[None]


def packed(*values: Any) -> Any:
    """Numbers as an array."""
    return np.array(values)


def item(values: Any, at: int) -> Any:
    """An element of an array."""
    return values[int(at)]


def as_array(formulas: Results, values: Sequence[Any]) -> Any:
    """Symbols and constants as one symbol or array; as one number where all are the same."""
    if len({key_of(value) for value in values}) == 1:
        return values[0]
    if not any(isinstance(value, Symbol) for value in values):
        return np.array(values, dtype=float)
    return formulas.result(
        packed, *values, least=min(map(lower_bound, values)), shape=(len(values),)
    )
