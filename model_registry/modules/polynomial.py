"""Exact polynomials with whole or rational coefficients, fitted to counts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any

from genz_core.errors import InvalidValue

Powers = tuple[int, ...]
_LONGEST = 20_000  # longest formula in characters
_SIGN = re.compile(r"(?<=[\w)}]) +- +(?=\S)")
_FACTORS = re.compile(r"(?<!\*)\*(?!\*)")
_FACTOR = re.compile(
    r"\{(?P<symbol>\w{1,40})\}(\*\*(?P<power>\d))?"
    r"|\(?(?P<sign>-?)(?P<number>\d{1,40}(/[1-9]\d{0,39}|\.\d{1,40})?)\)?"
)


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of coefficient x powers of symbols: {(1, 1): 4096} over ("batch", "new_tokens")."""

    symbols: tuple[str, ...]
    terms: Mapping[Powers, Fraction]

    def __call__(self, values: Mapping[str, float]) -> float:
        """The value of the polynomial at a number for each symbol."""
        point = [Fraction(values[symbol]) for symbol in self.symbols]
        return float(_value(self.terms, point))

    def text(self) -> str:
        """The formula as text: `8192*{batch}*{new_tokens} + 4*{batch}*{new_tokens}**2`."""
        ordered = sorted(self.terms.items(), key=lambda term: (-sum(term[0]), term[0]))
        shown = [_term(self.symbols, powers, number) for powers, number in ordered]
        return " + ".join(shown).replace("+ -", "- ") or "0"

    @classmethod
    def parse(cls, symbols: Sequence[str], text: str) -> Polynomial:
        """The polynomial that `text` wrote: products of numbers and {symbols}, added up.

        Raises:
            InvalidValue: anything else.
        """
        terms: dict[Powers, Fraction] = {}
        spaced = _SIGN.sub(" + -", text[:_LONGEST].strip())
        for product_ in (part.strip() for part in spaced.split(" + ")):
            if product_:
                powers, number = _parsed(symbols, product_, text)
                terms[powers] = terms.get(powers, Fraction(0)) + number
        if not terms:
            raise InvalidValue(f"{text[:60]!r} is not a formula: give a sum of products")
        return cls(tuple(symbols), {powers: c for powers, c in terms.items() if c})

    def to_json(self) -> dict[str, str]:
        """{powers of the symbols: coefficient} as text: {"1,1": "4096"}."""
        return {",".join(map(str, powers)): str(c) for powers, c in self.terms.items()}

    @classmethod
    def from_json(cls, symbols: Sequence[str], data: Mapping[str, str]) -> Polynomial:
        """Read back the polynomial over `symbols` that `to_json` wrote."""
        terms = {tuple(map(int, key.split(","))): Fraction(text) for key, text in data.items()}
        return cls(tuple(symbols), terms)


def _parsed(symbols: Sequence[str], text: str, whole: str) -> tuple[Powers, Fraction]:
    """Powers of the symbols and the coefficient of one product."""
    powers, number = [0] * len(symbols), Fraction(1)
    for factor in _FACTORS.split(text):
        match = _FACTOR.fullmatch(factor.strip())
        symbol = match["symbol"] if match else None
        if match is None or (symbol and symbol not in symbols):
            known = ", ".join(symbols)
            raise InvalidValue(
                f"{factor.strip()[:40]!r} of the formula {whole[:60]!r}: give numbers and "
                f"{{symbols}} of {known}, as in 2*{{{symbols[0]}}}**2"
            )
        if symbol:
            powers[symbols.index(symbol)] += int(match["power"] or 1)
        else:
            number *= Fraction(match["sign"] + match["number"])
    return tuple(powers), number


def _term(symbols: Sequence[str], powers: Powers, number: Fraction) -> str:
    factors = [
        f"{{{symbol}}}" + (f"**{power}" if power > 1 else "")
        for symbol, power in zip(symbols, powers, strict=True)
        if power
    ]
    if not factors or number != 1:
        factors.insert(0, str(number) if number.denominator == 1 else f"({number})")
    return "*".join(factors)


def _value(terms: Mapping[Powers, Fraction], point: Sequence[Fraction]) -> Fraction:
    total = Fraction(0)
    for powers, number in terms.items():
        total += number * prod(x**power for x, power in zip(point, powers, strict=True))
    return total


def fit_grid(
    symbols: Sequence[str], points: Any, values: Any, degree: int = 2
) -> Polynomial | None:
    """The polynomial of at most `degree` in each symbol through all values; None if there is none.

    points: a full grid, [rows, symbols].  values: [rows], whole numbers or halves.
    Interpolates along one symbol after another; values of an axis beyond degree + 1 are used as a
    check.
    """
    if not any(values):
        return Polynomial(tuple(symbols), {})
    table = {
        tuple(Fraction(float(x)) for x in point): Fraction(float(value)).limit_denominator(4)
        for point, value in zip(points, values, strict=True)
    }
    axes = [sorted({point[at] for point in table}) for at in range(len(symbols))]
    used = [axis[: degree + 1] for axis in axes]
    terms = _interpolated(used, table)
    fitted = Polynomial(tuple(symbols), {powers: c for powers, c in terms.items() if c})
    exact = all(_value(fitted.terms, point) == value for point, value in table.items())
    return fitted if exact else None


def _interpolated(
    axes: list[list[Fraction]], table: Mapping[tuple[Fraction, ...], Fraction]
) -> dict[Powers, Fraction]:
    """Coefficients of the tensor-product interpolation."""
    inverses = [_inverse_powers(tuple(axis)) for axis in axes]
    shapes = [range(len(axis)) for axis in axes]
    rows = {at: table[tuple(axis[i] for axis, i in zip(axes, at, strict=True))]
            for at in product(*shapes)}  # fmt: skip
    for dim, inverse in enumerate(inverses):
        rows = {
            at: sum(
                (
                    weight * rows[(*at[:dim], i, *at[dim + 1 :])]
                    for i, weight in enumerate(inverse[at[dim]])
                ),
                start=Fraction(0),
            )
            for at in rows
        }
    return rows


@lru_cache(maxsize=64)
def _inverse_powers(axis: tuple[Fraction, ...]) -> list[list[Fraction]]:
    """The inverse of the matrix of powers of `axis`: from values along it to coefficients."""
    return _inverse([[x**power for power in range(len(axis))] for x in axis])


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    """The inverse of a square matrix, by exact Gauss-Jordan elimination."""
    size = len(matrix)
    rows = [
        [*row, *(Fraction(int(at == column)) for column in range(size))]
        for at, row in enumerate(matrix)
    ]
    for pivot in range(size):
        swap = next(at for at in range(pivot, size) if rows[at][pivot])
        rows[pivot], rows[swap] = rows[swap], rows[pivot]
        scale = rows[pivot][pivot]
        rows[pivot] = [entry / scale for entry in rows[pivot]]
        for at in range(size):
            if at != pivot and rows[at][pivot]:
                factor = rows[at][pivot]
                rows[at] = [a - factor * b for a, b in zip(rows[at], rows[pivot], strict=True)]
    return [row[size:] for row in rows]
