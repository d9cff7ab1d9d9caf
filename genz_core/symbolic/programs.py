"""Programs that compute selected symbols from sizes, as numbers for many lanes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.symbolic.symbols import Array, Results, Symbol, constant, key_of


@dataclass(frozen=True, slots=True)
class Program:
    """Steps from sizes to results, each a function of earlier values.

    values: constants at their indices, otherwise None.  sizes: (index, name of a size).  steps:
    (index, function, indices of its arguments).  results: indices of the wanted values, in order.
    rows: {result, by its number in `Results`: its row among the wanted values}.
    """

    values: list[float | Array | None] = field(default_factory=list)
    sizes: list[tuple[int, str]] = field(default_factory=list)
    steps: list[tuple[int, Callable[..., Any], tuple[int, ...]]] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, formulas: Results, numbers: Iterable[Any]) -> Program:
        """The program that computes the symbols among some numbers; other numbers are skipped.

        A symbol's own factor and constant are not applied; `Rows` does that.
        """
        wanted = sorted({n.at for n in numbers if isinstance(n, Symbol)})
        needed = set(wanted)
        for at in range(len(formulas.steps) - 1, -1, -1):
            step = formulas.steps[at]
            if at in needed and not isinstance(step, str):
                needed |= {a[0] for a in step[1] if isinstance(a, tuple)}
        made = cls()
        places: dict[Any, int] = {}
        for at in sorted(needed):
            step = formulas.steps[at]
            if isinstance(step, str):
                places[at] = made._add(step)
            else:
                given = tuple(made._put(argument, places) for argument in step[1])
                places[at] = made._add((step[0], given))
        made.results.extend(places[at] for at in wanted)
        made.rows.update({at: row for row, at in enumerate(wanted)})
        return made

    def _add(self, step: float | Array | str | tuple[Callable[..., Any], tuple[int, ...]]) -> int:
        """Append a step and return its index."""
        at = len(self.values)
        self.values.append(None if isinstance(step, str | tuple) else step)
        if isinstance(step, str):
            self.sizes.append((at, step))
        elif isinstance(step, tuple):
            self.steps.append((at, *step))
        return at

    def _put(self, argument: Any, places: dict[Any, int]) -> int:
        """The index of a step's argument, with a symbol's factor and constant applied first."""
        if not isinstance(argument, tuple):
            key: Any = ("constant", type(argument), key_of(argument))
            if key not in places:
                places[key] = self._add(argument)
            return places[key]
        result, factor, added = argument
        at = places[result]
        for function, number, none in ((np.multiply, factor, 1.0), (np.add, added, 0.0)):
            if number != none:
                key = (function, at, number)
                if key not in places:
                    places[key] = self._add((function, (at, self._put(number, places))))
                at = places[key]
        return at

    def __call__(self, sizes: Mapping[str, Array]) -> list[Array]:
        """The results for sizes that broadcast."""
        values: list[Any] = [*self.values]
        for at, name in self.sizes:
            values[at] = sizes[name]
        for at, function, places in self.steps:
            values[at] = function(*[values[place] for place in places])
        return [values[at] for at in self.results]


@dataclass(frozen=True, slots=True)
class Rows:
    """Numbers of many operators as one array, each a result times a factor plus a constant.

    at: index of each row's result in a program, [rows].  factor, constant: [rows, 1].
    """

    at: NDArray[np.intp]
    factor: Array
    constant: Array

    @classmethod
    def of(cls, numbers: Sequence[Any], program: Program) -> Rows:
        """The rows for symbols, whose results the program gives, and for constants."""
        symbols = [n if isinstance(n, Symbol) else None for n in numbers]
        constants = [
            float(constant(n)) if s is None else s.constant
            for n, s in zip(numbers, symbols, strict=True)
        ]
        return cls(
            np.array([0 if s is None else program.rows[s.at] for s in symbols], dtype=np.intp),
            np.array([0.0 if s is None else s.factor for s in symbols])[:, None],
            np.array(constants)[:, None],
        )

    def numbers(self, results: Sequence[Any]) -> list[Any]:
        """The rows, computed from results that are numbers or symbols."""
        rows = zip(self.at, self.factor[:, 0], self.constant[:, 0], strict=True)
        return [results[at] * f + c if f else c for at, f, c in rows]

    def taken(self, results: Array) -> Array:
        """The rows, [rows, lanes]; results: [results, lanes]."""
        rows = results[self.at]
        rows *= self.factor
        rows += self.constant
        return rows
