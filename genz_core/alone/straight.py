"""Programs as straight-line Python, which evaluates one configuration on plain floats.

The steps of a `Program` become lines of one function, with operators and `math` instead of NumPy;
for single numbers this is about ten times as fast.  Arrays of variants stay arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from genz_core.symbolic.programs import Program
from genz_core.symbolic.symbols import item, packed, row_of

#: Of numbers and arrays alike.
_OPERATORS: Mapping[Callable[..., Any], str] = {
    np.add: "{} + {}",
    np.subtract: "{} - {}",
    np.multiply: "{} * {}",
    np.divide: "{} / {}",
    np.floor_divide: "{} // {}",
    np.remainder: "{} % {}",
    np.power: "{} ** {}",
    np.negative: "-{}",
    np.square: "{0} * {0}",
    np.greater: "{} > {}",
    np.greater_equal: "{} >= {}",
    np.less: "{} < {}",
    np.less_equal: "{} <= {}",
    np.equal: "{} == {}",
    item: "{}.item({:d})",
}
#: Of numbers alone.
_NUMBERS: Mapping[Callable[..., Any], str] = {
    np.maximum: "{0} if {0} > {1} else {1}",
    np.minimum: "{0} if {0} < {1} else {1}",
    np.where: "{1} if {0} else {2}",
    np.logical_and: "{} and {}",
    np.logical_or: "{} or {}",
    np.logical_not: "not {}",
}
_OF_NUMBERS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    np.ceil: math.ceil,
    np.floor: math.floor,
    np.sqrt: math.sqrt,
    np.exp: math.exp,
    np.exp2: math.exp2,
    np.expm1: math.expm1,
    np.log: math.log,
    np.log2: math.log2,
    np.log1p: math.log1p,
    np.absolute: abs,
    row_of: float,
}


def straight(program: Program, names: Sequence[str]) -> Callable[..., tuple[Any, ...]]:
    """A function of sizes, in the order of their names, that returns a program's results.

    Division by zero, roots of negative numbers and overflow raise an `ArithmeticError` or a
    `ValueError`, as usual in Python.
    """
    space: dict[str, Any] = {"inf": math.inf, "nan": math.nan}
    named: dict[Callable[..., Any], str] = {}
    words: list[Any] = [f"v{at}" for at in range(len(program.values))]
    arrays = [isinstance(value, np.ndarray) for value in program.values]
    for at, value in enumerate(program.values):
        if isinstance(value, np.ndarray):
            space[f"v{at}"] = value
        elif value is not None:
            words[at] = int(value) if type(value) is int else f"({float(value)!r})"
    for at, name in program.sizes:
        words[at] = name
    lines = [f"def run({', '.join(names)}):"]
    for at, function, places in program.steps:
        given = [words[place] for place in places]
        of_arrays = any(arrays[place] for place in places)
        arrays[at] = function is packed or (of_arrays and function is not item)
        template = _OPERATORS.get(function) or (None if of_arrays else _NUMBERS.get(function))
        if template is None:
            fast = function if of_arrays else _OF_NUMBERS.get(function, function)
            name = named.setdefault(fast, f"f{len(named)}")
            space[name] = fast
            template = f"{name}({', '.join(['{}'] * len(given))})"
        lines.append(f" {words[at]} = {template.format(*given)}")
    lines.append(f" return ({''.join(f'{words[at]}, ' for at in program.results)})")
    exec(compile("\n".join(lines), "<program>", "exec"), space)
    run: Callable[..., tuple[Any, ...]] = space.pop("run")  # its globals, which do not hold it
    return run
