"""Sizes that are not known yet: formulas run on them once, and on numbers as often as wanted.

A graph is built by plain formulas of its sizes (`Group`).  Run on `Symbol`s, they leave `Formulas`:
every distinct result once, in the order they were made, what depends on no size folded into
constants.  A `Program` (`genz_core.programs`) then evaluates those that are wanted, for numbers or
arrays.

Formulas of kernels try ways side by side: beside arrays of constants a symbol stands for an array,
where its `Formulas` allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import frexp, inf, isfinite, prod
from operator import add, mul, truediv
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: Divisors below are counts, whose quotients may be rounded up next; those above are rates.
_COUNTS = 2.0**24


class Unresolved(Exception):
    """A formula asked for the number behind a symbol, to choose what to do."""


@dataclass(slots=True)
class Formulas:
    """Results of formulas of named sizes; a result is a function of earlier ones.

    arrays: symbols may stand beside arrays of constants.
    steps: of each result, the function and its arguments; of a size, its name.  least: below which
    no result lies.  shapes: of the results, () of numbers.
    """

    arrays: bool = False
    steps: list[tuple[Callable[..., Any], tuple[Any, ...]] | str] = field(default_factory=list)
    least: list[float] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def size(self, name: str, least: float) -> Symbol:
        """A size that is `least` or more."""
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
        """The result of a function of symbols and numbers, the same one for the same arguments.

        shape: of the result; the one that its arguments broadcast to where none is stated.
        """
        key = (function, *map(key_of, given))
        at = self._known.setdefault(key, len(self.steps))
        if at == len(self.steps):
            self.steps.append((function, given))
            self.least.append(least)
            self.shapes.append(_shape_of(*map(np.shape, given)) if shape is None else shape)
        return Symbol(self, at)

    def applied(self, ufunc: np.ufunc, *values: Any) -> Any:
        """The result of NumPy's function of symbols and of constants, folded where it can be."""
        given = [self.operand(value) for value in values]
        if any(isinstance(value, np.ndarray) for value in given):
            return _beside(self, ufunc, given)
        return _FOLDS[ufunc](*given) if ufunc in _FOLDS else self.result(ufunc, *given)

    def operand(self, value: Any) -> Symbol | float | bool | Array:
        """A symbol as it is, a constant as one number, or as an array where these may be."""
        if isinstance(value, Symbol | float | bool):
            return value
        if self.arrays and np.size(value) > 1:
            return np.asarray(value)
        return constant(value)

    def depends(self, name: str) -> list[bool]:
        """Whether each result depends on a size."""
        found: list[bool] = []
        for step in self.steps:
            if isinstance(step, str):
                found.append(step == name)
            else:
                found.append(any(found[a.at] for a in step[1] if isinstance(a, Symbol)))
        return found


class Symbol:
    """A result of `Formulas` times a factor, plus a constant; NumPy's functions take it.

    It may stand for an array of a known shape.

    What would need its value, as a branch does, raises `Unresolved`.
    """

    __slots__ = ("at", "constant", "factor", "formulas")

    def __init__(
        self, formulas: Formulas, at: int, factor: float = 1.0, constant: float = 0.0
    ) -> None:
        self.formulas, self.at, self.factor, self.constant = formulas, at, factor, constant

    @property
    def key(self) -> tuple[int, float, float]:
        """Equal for equal symbols of the same formulas."""
        return self.at, self.factor, self.constant

    @property
    def least(self) -> float:
        """A number that it is not below."""
        least = self.formulas.least[self.at]
        return least * self.factor + self.constant if self.factor > 0 else -inf

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of what it stands for; () of a number."""
        return self.formulas.shapes[self.at]

    @property
    def ndim(self) -> int:
        """Dimensions of its shape."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Numbers that it stands for."""
        return prod(self.shape)

    def min(self, axis: int) -> Symbol:
        """The least numbers along an axis."""
        shape = (*self.shape[:axis], *self.shape[axis + 1 :])
        return self.formulas.result(least_of, self, axis, least=self.least, shape=shape)

    def __getitem__(self, where: Any) -> Symbol:
        if where != (None, slice(None)):
            raise Unresolved(f"[{where}]")
        if self.ndim == 0:
            return self
        return self.formulas.result(row_of, self, least=self.least, shape=(1, *self.shape))

    def plain(self) -> Symbol:
        """The same without a constant beside its result."""
        if not self.constant:
            return self
        bare = Symbol(self.formulas, self.at, self.factor)
        return self.formulas.result(np.add, bare, self.constant, least=self.least)

    def scaled(self, factor: float) -> Any:
        """A multiple of it."""
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
        if function not in _FUNCTIONS:
            raise Unresolved(function.__name__)
        return _FUNCTIONS[function](*args, **kwargs)

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
    """A size, or what follows from sizes, for arithmetic: floats, or a symbol as it is."""
    return cast(Array, value) if isinstance(value, Symbol) else np.asarray(value, dtype=float)


def constant(value: Any) -> float | bool:
    """The one number of a constant among symbols."""
    if isinstance(value, float | bool):
        return value
    array = np.asarray(value)
    if array.size != 1:
        raise Unresolved("an array of constants beside symbols")
    one: float | bool = array.reshape(()).item()
    return one


def key_of(value: Any) -> Hashable:
    """Equal for equal symbols and for equal constants."""
    if isinstance(value, Symbol):
        return value.key
    return (value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value


@lru_cache(4096)
def _shape_of(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return np.broadcast_shapes(*shapes)


# ------------------------------------------------------------------------------- of arrays


def least_of(values: Any, axis: int) -> Any:
    """The least of an array along an axis."""
    return np.minimum.reduce(values, int(axis))


def row_of(values: Any) -> Any:
    """An array [n] as [1, n]."""
    return values[None]


def packed(*values: Any) -> Any:
    """Numbers as an array."""
    return np.array(values)


def item(values: Any, at: int) -> Any:
    """A number of an array."""
    return values[int(at)]


def as_array(formulas: Formulas, values: Sequence[Any]) -> Any:
    """Symbols and constants as one symbol or array; as one number where all are the same."""
    if len({key_of(value) for value in values}) == 1:
        return values[0]
    if not any(isinstance(value, Symbol) for value in values):
        return np.array(values, dtype=float)
    least = min(map(_least, values))
    return formulas.result(packed, *values, least=least, shape=(len(values),))


def _beside(formulas: Formulas, ufunc: np.ufunc, given: Sequence[Any]) -> Any:
    """The result beside arrays of constants."""
    a, b = (value.plain() if isinstance(value, Symbol) else value for value in given)
    least = -inf
    if ufunc in _LEAST and min(low := (_least(a), _least(b))) >= 0.0:
        divisor = np.max(b) if isinstance(b, np.ndarray) else inf
        least = _LEAST[ufunc](*low) if ufunc is not np.divide else low[0] / divisor
    if ufunc is np.multiply:
        symbol, values = (a, b) if isinstance(a, Symbol) else (b, a)
        bare = Symbol(formulas, symbol.at)
        return formulas.result(np.multiply, bare, values * symbol.factor, least=least)
    return formulas.result(ufunc, a, b, least=least)


_LEAST: Mapping[np.ufunc, Callable[[float, float], float]] = {
    np.add: add,
    np.multiply: mul,
    np.maximum: max,
    np.minimum: min,
    np.divide: truediv,
}


# ------------------------------------------------------------------------------- what folds


def _plus(a: Any, b: Any) -> Any:
    if not isinstance(b, Symbol):
        return Symbol(a.formulas, a.at, a.factor, a.constant + b)
    if not isinstance(a, Symbol):
        return Symbol(b.formulas, b.at, b.factor, b.constant + a)
    constant = a.constant + b.constant
    if a.at == b.at:
        factor = a.factor + b.factor
        return Symbol(a.formulas, a.at, factor, constant) if factor else np.float64(constant)
    one, other = (Symbol(s.formulas, s.at, s.factor) for s in (a, b))
    total = a.formulas.result(np.add, one, other, least=one.least + other.least)
    total.constant = constant
    return total


def _minus(a: Any, b: Any) -> Any:
    return _plus(a, b.scaled(-1.0) if isinstance(b, Symbol) else -b)


def _times(a: Any, b: Any) -> Any:
    if not isinstance(b, Symbol):
        return a.scaled(b)
    if not isinstance(a, Symbol):
        return b.scaled(a)
    one, other = a.plain(), b.plain()
    formulas = a.formulas
    first, last = sorted((one.at, other.at))
    least = formulas.least[first], formulas.least[last]
    product = formulas.result(
        np.multiply,
        Symbol(formulas, first),
        Symbol(formulas, last),
        least=least[0] * least[1] if min(least) >= 0.0 else -inf,
    )
    product.factor = one.factor * other.factor
    return product


def _over(a: Any, b: Any) -> Any:
    """Quotients by a count are factors only where they are exact: a rounded one could lift a whole
    number over the next."""
    if isinstance(b, Symbol):
        least = 0.0 if _least(a) >= 0.0 and b.least > 0.0 else -inf
        return b.formulas.result(np.divide, a, b, least=least)
    exact = abs(frexp(b)[0]) == 0.5 or (
        all(part.is_integer() and (part / b).is_integer() for part in (a.factor, a.constant))
    )
    if exact or b >= _COUNTS:
        return Symbol(a.formulas, a.at, a.factor / b, a.constant / b)
    return a.formulas.result(np.divide, a, b, least=a.least / b if b > 0 else -inf)


def _least(value: Any) -> float:
    return value.least if isinstance(value, Symbol) else float(np.min(value))


def _multiples(a: Any, b: Any) -> bool:
    """Whether two symbols are multiples of a result that is not negative."""
    both = isinstance(a, Symbol) and isinstance(b, Symbol) and a.at == b.at
    return both and a.constant == b.constant and bool(a.formulas.least[a.at] >= 0.0)


def _larger(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Symbol) and one <= other.least:
            return other
    if _multiples(a, b):
        return a if a.factor >= b.factor else b
    return _formulas(a, b).result(np.maximum, a, b, least=max(_least(a), _least(b)))


def _smaller(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Symbol) and (one == inf or one <= other.least):
            return other if one == inf else one
    if _multiples(a, b):
        return a if a.factor <= b.factor else b
    return _formulas(a, b).result(np.minimum, a, b, least=min(_least(a), _least(b)))


def _formulas(*values: Any) -> Formulas:
    formulas: Formulas = next(value.formulas for value in values if isinstance(value, Symbol))
    return formulas


def _above(a: Any, b: Any) -> Any:
    if not isinstance(b, Symbol) and a.least > b:
        return np.True_
    return _formulas(a, b).result(np.greater, a, b)


def _at_most(a: Any, b: Any) -> Any:
    if not isinstance(b, Symbol) and a.least > b:
        return np.False_
    return _formulas(a, b).result(np.less_equal, a, b)


def _both(a: Any, b: Any) -> Any:
    symbol, known = (a, b) if isinstance(a, Symbol) else (b, a)
    if isinstance(known, Symbol):
        return symbol.formulas.result(np.logical_and, a, b)
    return symbol if known else np.False_


def _either(a: Any, b: Any) -> Any:
    symbol, known = (a, b) if isinstance(a, Symbol) else (b, a)
    if isinstance(known, Symbol):
        return symbol.formulas.result(np.logical_or, a, b)
    return np.True_ if known else symbol


def _up(a: Any) -> Any:
    least = a.least
    return a.formulas.result(np.ceil, a, least=float(np.ceil(least)) if isfinite(least) else least)


def _positive(ufunc: np.ufunc) -> Callable[..., Any]:
    """What is not negative of numbers that are not."""

    def fold(a: Any, *more: Any) -> Any:
        least = 0.0 if _least(a) >= 0.0 else -inf
        return _formulas(a, *more).result(ufunc, a, *more, least=least)

    return fold


def _divided(a: Any, b: Any) -> Any:
    return tuple(_formulas(a, b).result(part, a, b) for part in (np.floor_divide, np.remainder))


_FOLDS: Mapping[np.ufunc, Callable[..., Any]] = {
    np.add: _plus,
    np.subtract: _minus,
    np.multiply: _times,
    np.divide: _over,
    np.maximum: _larger,
    np.minimum: _smaller,
    np.greater: _above,
    np.less_equal: _at_most,
    np.logical_and: _both,
    np.bitwise_and: _both,
    np.logical_or: _either,
    np.bitwise_or: _either,
    np.ceil: _up,
    np.sqrt: _positive(np.sqrt),
    np.power: _positive(np.power),
    np.divmod: _divided,
}


def _where(condition: Any, a: Any, b: Any) -> Any:
    formulas = _formulas(condition, a, b)
    condition, a, b = map(formulas.operand, (condition, a, b))
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, Symbol) and isinstance(b, Symbol) and a.key == b.key:
        return a
    return formulas.result(np.where, condition, a, b, least=min(_least(a), _least(b)))


_FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.clip: lambda value, low, high: np.minimum(np.maximum(value, low), high),
    np.shape: lambda value: value.shape,
    np.size: lambda value: value.size,
    np.ndim: lambda value: value.ndim,
    np.broadcast_to: lambda value, shape: value,
    np.broadcast_arrays: lambda *values: values,
    np.full_like: lambda value, filled, **_: np.float64(filled),
    np.ones_like: lambda value, **_: np.float64(1.0),
    np.zeros_like: lambda value, **_: np.float64(0.0),
}
