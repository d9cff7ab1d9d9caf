"""NumPy's functions of sizes that are not known yet: symbolic results, simplified where possible.

Known lower limits of a size (`least`) decide comparisons, maxima and branches at once, multiples
and sums of one result stay one symbol, and constants are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import frexp, inf, isfinite
from operator import add, mul, truediv
from typing import Any

import numpy as np

from genz_core.symbolic.symbols import Results, Symbol, Unresolved, lower_bound

#: Divisors below this are counts, whose quotients may be rounded up next; larger ones are rates.
_COUNTS = 2.0**24


@dataclass(slots=True)
class Formulas(Results):
    """Results of formulas, with NumPy's functions applied to them."""

    def applied(self, ufunc: np.ufunc, *values: Any) -> Any:
        """The result of a NumPy ufunc on symbols and constants, simplified."""
        given = [self.operand(value) for value in values]
        if self.arrays and any(isinstance(value, np.ndarray) for value in given):
            return _beside(self, ufunc, given)
        return _FOLDS[ufunc](*given) if ufunc in _FOLDS else self.result(ufunc, *given)

    def called(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a NumPy function that is not a ufunc."""
        if function not in _FUNCTIONS:
            raise Unresolved(function.__name__)
        return _FUNCTIONS[function](*args, **kwargs)


def _beside(formulas: Formulas, ufunc: np.ufunc, given: Sequence[Any]) -> Any:
    """The result if some of the arguments are arrays of constants."""
    a, b = (value.plain() if isinstance(value, Symbol) else value for value in given)
    least = -inf
    if ufunc in _LEAST and min(low := (lower_bound(a), lower_bound(b))) >= 0.0:
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
    """The quotient of two symbols or constants.

    Division by a count becomes a factor only if that is exact: a rounded factor could lift a whole
    number over the next one.
    """
    if isinstance(b, Symbol):
        least = 0.0 if lower_bound(a) >= 0.0 and b.least > 0.0 else -inf
        return b.formulas.result(np.divide, a, b, least=least)
    exact = abs(frexp(b)[0]) == 0.5 or (
        all(part.is_integer() and (part / b).is_integer() for part in (a.factor, a.constant))
    )
    if exact or b >= _COUNTS:
        return Symbol(a.formulas, a.at, a.factor / b, a.constant / b)
    return a.formulas.result(np.divide, a, b, least=a.least / b if b > 0 else -inf)


def _multiples(a: Any, b: Any) -> bool:
    """Whether two symbols are multiples of the same non-negative result."""
    both = isinstance(a, Symbol) and isinstance(b, Symbol) and a.at == b.at
    return both and a.constant == b.constant and bool(a.formulas.least[a.at] >= 0.0)


def _larger(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Symbol) and one <= other.least:
            return other
    if _multiples(a, b):
        return a if a.factor >= b.factor else b
    return _formulas(a, b).result(np.maximum, a, b, least=max(lower_bound(a), lower_bound(b)))


def _smaller(a: Any, b: Any) -> Any:
    for one, other in ((a, b), (b, a)):
        if not isinstance(one, Symbol) and (one == inf or one <= other.least):
            return other if one == inf else one
    if _multiples(a, b):
        return a if a.factor <= b.factor else b
    return _formulas(a, b).result(np.minimum, a, b, least=min(lower_bound(a), lower_bound(b)))


def _formulas(*values: Any) -> Results:
    formulas: Results = next(value.formulas for value in values if isinstance(value, Symbol))
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
    """Functions that are non-negative on non-negative numbers."""

    def fold(a: Any, *more: Any) -> Any:
        least = 0.0 if lower_bound(a) >= 0.0 else -inf
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
    return formulas.result(np.where, condition, a, b, least=min(lower_bound(a), lower_bound(b)))


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
