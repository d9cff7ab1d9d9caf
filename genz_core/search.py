"""Sweeps over every combination of several axes in one call, and Pareto frontiers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.limits import LIMITS
from genz_core.systems import System
from genz_core.types import DEGREES, Array, Parallelism, Workload
from genz_core.validity import OnError
from genz_core.workload import Estimate, estimate

_WORKLOAD = ("batch", "isl", "osl")


def grid(axes: Mapping[str, Sequence[float]]) -> dict[str, Array]:
    """Every combination of the values on `axes`: {axis: values [combinations]}.

    The last axis varies fastest.

    Raises:
        InvalidValue: an unknown axis, an empty one, or more than two million combinations.
    """
    for name, values in axes.items():
        if name not in (*_WORKLOAD, *DEGREES):
            names = ", ".join((*_WORKLOAD, *DEGREES))
            raise InvalidValue(f"cannot sweep {name!r}; axes are {names}")
        if not len(values):
            raise InvalidValue(f"the axis {name!r} has no values")
    size = int(np.prod([len(values) for values in axes.values()], dtype=float))
    if size > (most := LIMITS["cells"].most):
        raise InvalidValue(f"{size:,} combinations; sweep at most {most:,} at once")
    rows = np.array(list(product(*axes.values())), dtype=float).reshape(size, len(axes))
    return {name: rows[:, at] for at, name in enumerate(axes)}


def sweep(
    model: Model,
    system: System,
    axes: Mapping[str, Sequence[float]],
    engine: EngineProfile | None = None,
    *,
    on_error: OnError = "status",
) -> Estimate:
    """Estimate of every combination of `axes`, an array [combinations] as in `grid`.

    Args:
        axes: {batch, isl, osl, tp, pp, dp, ep or cp: values}.
        engine: the generic one by default.
        on_error: see `estimate`; a combination that cannot run has a reason code by default.

    Raises:
        InvalidValue: see `grid`; a value that is not a size.
    """
    columns = grid(axes)
    load = Workload(**{name: columns[name] for name in _WORKLOAD if name in columns})
    degrees: dict[str, Any] = {name: columns[name] for name in DEGREES if name in columns}
    split = Parallelism(**degrees)
    return estimate(model, system, load, split, engine, on_error=on_error)


def pareto(costs: Array, gains: Array) -> NDArray[np.bool_]:
    """Whether each point is on the Pareto frontier, [points].

    A point is on it if no other has a lower cost without a lower gain.  NaN points never are.

    Args:
        costs, gains: [points].
    """
    usable = np.flatnonzero(np.isfinite(costs) & np.isfinite(gains))
    order = usable[np.lexsort((-gains[usable], costs[usable]))]
    best = np.maximum.accumulate(gains[order])
    first = np.concatenate([[True], best[1:] > best[:-1]]) if order.size else np.array([], bool)
    chosen = np.zeros(len(costs), dtype=bool)
    chosen[order[first]] = True
    return chosen
