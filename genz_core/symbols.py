"""Sizes that are not known yet: formulas run on them once, and on numbers as often as wanted.

A graph is built by plain formulas of its sizes (`Group`).  Run on `Symbol`s, they leave a
`Formulas`: every distinct result once, in the order they were made, what depends on no size folded
into constants.  `Formulas.values` then evaluates them for numbers or arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import frexp, inf, isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Unresolved(Exception):
    """A formula asked for the number behind a symbol, to choose what to do."""


@dataclass(slots=True)
class Formulas:
    """Results of formulas of named sizes; a result is a function of earlier ones.

    steps: of each result, the function and its arguments; of a size, its name.  least: below which
    no result lies.
    """

    steps: list[tuple[Callable[..., Array], tuple[Symbol | float, ...]] | str] = field(
        default_factory=list
    )
    least: list[float] = field(default_factory=list)
    _known: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def size(self, name: str, least: float) -> Symbol:
        """A size that is `least` or more."""
        self.steps.append(name)
        self.least.append(least)
        return Symbol(self, len(self.steps) - 1)

    def result(self, function: Callable[..., Any], *arguments: Any, least: float = -inf) -> Symbol:
        """The result of a function of symbols and numbers, the same one for the same arguments."""
        given = tuple(a if isinstance(a, Symbol) else _constant(a) for a in arguments)
        key = (function, *((a.at, a.factor) if isinstance(a, Symbol) else a for a in given))
        at = self._known.setdefault(key, len(self.steps))
        if at == len(self.steps):
            self.steps.append((function, given))
            self.least.append(least)
        return Symbol(self, at)

    def depends(self, names: Sequence[str]) -> list[bool]:
        """Whether each result depends on any of some sizes."""
        found: list[bool] = []
        for step in self.steps:
            if isinstance(step, str):
                found.append(step in names)
            else:
                found.append(any(found[a.at] for a in step[1] if isinstance(a, Symbol)))
        return found

    def values(self, sizes: Mapping[str, Array]) -> list[Array]:
        """Every result for sizes that broadcast."""
        values: list[Array] = []
        for step in self.steps:
            if isinstance(step, str):
                values.append(sizes[step])
            else:
                function, arguments = step
                values.append(function(*(_value(a, values) for a in arguments)))
        return values


def _value(argument: Symbol | float, values: Sequence[Array]) -> Array | float:
    if not isinstance(argument, Symbol):
        return argument
    value = values[argument.at]
    return value if argument.factor == 1.0 else value * argument.factor


class Symbol:
    """A result of `Formulas` times a number; takes part in arithmetic, and in NumPy's functions.

    What would need its value, as a branch does, raises `Unresolved`.
    """

    __slots__ = ("at", "factor", "formulas")

    def __init__(self, formulas: Formulas, at: int, factor: float = 1.0) -> None:
        self.formulas, self.at, self.factor = formulas, at, factor

    @property
    def least(self) -> float:
        """A number that it is not below."""
        least = self.formulas.least[self.at]
        return least * self.factor if self.factor > 0 and isfinite(least) else -inf

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **more: Any) -> Any:
        if method != "__call__" or more:
            raise Unresolved(f"{ufunc.__name__}.{method}")
        return _apply(self.formulas, ufunc, *inputs)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any
    ) -> Any:
        if function not in _FUNCTIONS:
            raise Unresolved(function.__name__)
        return _FUNCTIONS[function](self.formulas, *args, **kwargs)

    def __bool__(self) -> bool:
        raise Unresolved("a branch")

    def __float__(self) -> float:
        raise Unresolved("a number")

    def __array__(self, *_: Any, **__: Any) -> Array:
        raise Unresolved("an array")

    def _with(self, ufunc: np.ufunc, *inputs: Any) -> Any:
        return _apply(self.formulas, ufunc, *inputs)

    def __add__(self, other: Any) -> Any:
        return self._with(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._with(np.divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._with(np.divide, other, self)

    def __pow__(self, other: Any) -> Any:
        return self._with(np.power, self, other)

    def __neg__(self) -> Any:
        return self._with(np.multiply, self, -1.0)

    def __gt__(self, other: Any) -> Any:
        return self._with(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return self._with(np.greater_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return self._with(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return self._with(np.less_equal, self, other)

    def __and__(self, other: Any) -> Any:
        return self._with(np.logical_and, self, other)

    def __rand__(self, other: Any) -> Any:
        return self._with(np.logical_and, other, self)

    def __or__(self, other: Any) -> Any:
        return self._with(np.logical_or, self, other)

    def __invert__(self) -> Any:
        return self._with(np.logical_not, self)


def number(value: Any) -> Any:
    """A size, or whatever follows from sizes, in arithmetic: floats, or a symbol as it is."""
    return value if isinstance(value, Symbol) else np.asarray(value, dtype=float)


def _constant(value: Any) -> float | bool:
    """The one number of a constant among symbols."""
    if isinstance(value, float | bool):
        return value
    array = np.asarray(value)
    if array.size != 1:
        raise Unresolved("an array of constants beside symbols")
    constant: float | bool = array.reshape(()).item()
    return constant


# ------------------------------------------------------------------------------- what folds


def _apply(formulas: Formulas, ufunc: np.ufunc, *inputs: Any) -> Any:
    """The result of a function, what it comes to without the values taken out of it."""
    values = [a if isinstance(a, Symbol) else _constant(a) for a in inputs]
    fold = _FOLDS.get(ufunc)
    folded = None if fold is None else fold(formulas, *values)
    if folded is not None:
        if isinstance(folded, bool):
            return np.bool_(folded)
        return np.float64(folded) if isinstance(folded, float) else folded
    if ufunc is np.divmod:
        return tuple(_apply(formulas, part, *values) for part in (np.floor_divide, np.remainder))
    return formulas.result(ufunc, *values)


def _times(formulas: Formulas, a: Any, b: Any) -> Any:
    if isinstance(a, Symbol) and isinstance(b, Symbol):
        one, other = sorted((a.at, b.at))
        least = formulas.least[one] * formulas.least[other]
        known = min(formulas.least[one], formulas.least[other]) >= 0.0
        pair = formulas.result(
            np.multiply, Symbol(formulas, one), Symbol(formulas, other),
            least=least if known else -inf,
        )  # fmt: skip
        return Symbol(formulas, pair.at, a.factor * b.factor)
    symbol, factor = (a, b) if isinstance(a, Symbol) else (b, a)
    factor = float(factor)
    return Symbol(formulas, symbol.at, symbol.factor * factor) if factor else 0.0


def _over(formulas: Formulas, a: Any, b: Any) -> Any:
    """Exact quotients are factors: a rounded one could lift a whole number over the next."""
    if isinstance(b, Symbol):
        return None
    if abs(frexp(b)[0]) == 0.5 or (a.factor.is_integer() and (a.factor / b).is_integer()):
        return Symbol(formulas, a.at, a.factor / b)
    return formulas.result(np.divide, a, b, least=a.least / b if b > 0 else -inf)


def _plus(formulas: Formulas, a: Any, b: Any, sign: float = 1.0) -> Any:
    if isinstance(a, Symbol) and isinstance(b, Symbol) and a.at == b.at:
        factor = a.factor + sign * b.factor
        return Symbol(formulas, a.at, factor) if factor else 0.0
    if not isinstance(b, Symbol) and b == 0.0:
        return a
    if not isinstance(a, Symbol) and a == 0.0:
        return b if sign > 0 else b * sign
    if sign < 0:
        return formulas.result(np.subtract, a, b)
    return formulas.result(np.add, a, b, least=_least(a) + _least(b))


def _least(value: Any) -> float:
    return value.least if isinstance(value, Symbol) else float(value)


def _comparable(a: Any, b: Any) -> bool:
    """Whether two symbols are multiples of a result that is not negative."""
    both = isinstance(a, Symbol) and isinstance(b, Symbol) and a.at == b.at
    return both and bool(a.formulas.least[a.at] >= 0.0)


def _larger(formulas: Formulas, a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Symbol) and one <= other.least:
            return other
    if _comparable(a, b):
        return a if a.factor >= b.factor else b
    return formulas.result(np.maximum, a, b, least=max(_least(a), _least(b)))


def _smaller(formulas: Formulas, a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Symbol):
            if one == inf:
                return other
            if one <= other.least:
                return one
    if _comparable(a, b):
        return a if a.factor <= b.factor else b
    return formulas.result(np.minimum, a, b, least=min(_least(a), _least(b)))


def _above(formulas: Formulas, a: Any, b: Any) -> Any:
    return True if not isinstance(b, Symbol) and a.least > b else None


def _at_most(formulas: Formulas, a: Any, b: Any) -> Any:
    return False if not isinstance(b, Symbol) and a.least > b else None


def _both(formulas: Formulas, a: Any, b: Any) -> Any:
    symbol, known = (a, b) if isinstance(a, Symbol) else (b, a)
    if isinstance(known, Symbol):
        return None
    return symbol if known else False


def _either(formulas: Formulas, a: Any, b: Any) -> Any:
    symbol, known = (a, b) if isinstance(a, Symbol) else (b, a)
    if isinstance(known, Symbol):
        return None
    return True if known else symbol


def _up(formulas: Formulas, a: Any) -> Any:
    return formulas.result(np.ceil, a, least=float(np.ceil(a.least)) if a.least > 0 else a.least)


_FOLDS: Mapping[np.ufunc, Callable[..., Any]] = {
    np.add: _plus,
    np.subtract: lambda formulas, a, b: _plus(formulas, a, b, -1.0),
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
}


def _where(formulas: Formulas, condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(condition, Symbol):
        return a if _constant(condition) else b
    return formulas.result(np.where, condition, a, b, least=min(_least(a), _least(b)))


def _clip(formulas: Formulas, value: Any, low: Any, high: Any) -> Any:
    return np.minimum(np.maximum(value, low), high)


def _alike(formulas: Formulas, *values: Any, **_: Any) -> Any:
    return values


_FUNCTIONS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.where: _where,
    np.clip: _clip,
    np.shape: lambda formulas, value: (),
    np.size: lambda formulas, value: 1,
    np.ndim: lambda formulas, value: 0,
    np.broadcast_to: lambda formulas, value, shape: value,
    np.broadcast_arrays: _alike,
    np.full_like: lambda formulas, value, filled, **_: np.float64(filled),
    np.ones_like: lambda formulas, value, **_: np.float64(1.0),
    np.zeros_like: lambda formulas, value, **_: np.float64(0.0),
}


# ------------------------------------------------------------------------------- rows of results


@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of many operators, each a result times a factor, as one array.

    at: of each row its result, -1 of a constant, which is its factor, [rows].
    """

    at: NDArray[np.intp]
    factor: Array

    @classmethod
    def of(cls, numbers: Sequence[Any]) -> Rows:
        """The rows of symbols and constants."""
        at = [n.at if isinstance(n, Symbol) else -1 for n in numbers]
        factor = [n.factor if isinstance(n, Symbol) else float(_constant(n)) for n in numbers]
        return cls(np.array(at, dtype=np.intp), np.array(factor)[:, None])

    def moved(self, place: Mapping[int, int]) -> Rows:
        """The rows among other results; place: of each result there."""
        return Rows(np.array([place[int(at)] for at in self.at], dtype=np.intp), self.factor)

    def taken(self, results: Array) -> Array:
        """The rows, [rows, configs]; results: [results, configs], the last of them ones."""
        return results[self.at] * self.factor
