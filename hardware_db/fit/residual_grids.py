"""Tables of kernels that were measured on a grid of sizes, see `genz_core.latency.residual_grid`.

A cell of a table holds the measurement where its sizes were measured.  Elsewhere it holds the
prediction of trees, or for collectives the error at neighbouring sizes.  The nearest monotonic
table is shipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from genz_core.latency.residual_grid import Grid
from genz_core.types import Array
from hardware_db.fit.boosting import Rows, Setting, boosted_s
from hardware_db.fit.tables import MeasuredSeries

#: {class: sizes of a load that are axes of its tables}.
AXES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "mla_prefill": ("sequences", "new_tokens", "cached_tokens", "heads"),
    "mla_decode": ("sequences", "new_tokens", "cached_tokens", "heads"),
    "collective": ("bytes", "group"),
}
#: {class: sizes that are constant in all of its rows, but differ in other kernels}.
_SAME: Mapping[str, tuple[str, ...]] = {
    "mla_prefill": ("head_dim", "value_dim"),
    "mla_decode": ("head_dim", "value_dim", "kv_heads"),
}
_IN_OPERATORS = {"bytes": "message_bytes"}
MOST_CELLS = 40000
#: Weight of a measurement relative to a guess, and iterations that find the nearest table.
_MEASURED, _SWEEPS = 3.0, 12
#: Message sizes that are inserted between two measured ones.
_BETWEEN = 4
#: Prices and features of a table's cells, as `Rows` without measurements.
Price = Callable[[pd.DataFrame], Rows]


@dataclass(frozen=True, slots=True)
class GridSetting:
    """How cells without a measurement are filled: by trees, which are free to fall where a size
    grows.
    """

    trees: Setting | None


def grid_axes(operator: str, table: pd.DataFrame) -> dict[str, Array]:
    """{dimension: sizes of the rows, ascending}; for messages with sizes inserted in between."""
    axes = {name: np.unique(table[name].to_numpy(np.float64)) for name in AXES[operator]}
    if operator == "collective":
        places = np.log(axes["bytes"])
        spread = np.interp(
            np.arange(_BETWEEN * (len(places) - 1) + 1) / _BETWEEN, np.arange(len(places)), places
        )
        axes["bytes"] = np.unique(np.round(np.exp(spread)))
    return axes


def is_grid(series: MeasuredSeries, table: pd.DataFrame) -> bool:
    """Whether rows can fill a table of this class."""
    if series.operator not in AXES:
        return False
    cells = np.prod([len(axis) for axis in grid_axes(series.operator, table).values()])
    return bool(cells <= MOST_CELLS)


def fitted_grid(
    operator: str, table: pd.DataFrame, data: Rows, price: Price, setting: GridSetting
) -> Grid:
    """The table of measured rows.

    table, data: the rows, and the same as features of trees.  price: prices cells of other sizes.
    """
    axes = grid_axes(operator, table)
    cells = _cells(axes, table)
    priced = price(cells)
    shape = [len(axis) for axis in axes.values()]
    if setting.trees:
        ln_s = np.log(boosted_s(data, setting.trees, priced)).reshape(shape)
    else:
        ln_s = _beside(table, data, axes, priced)
    weight = np.ones(shape)
    at = tuple(
        np.searchsorted(axis, table[name].to_numpy(np.float64)) for name, axis in axes.items()
    )
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, at, np.log(data.measured_s))
    np.add.at(count, at, 1.0)
    measured = count > 0
    ln_s[measured] = total[measured] / count[measured]
    weight[measured] = _MEASURED
    same = {name: float(table[name].iloc[0]) for name in _SAME.get(operator, ())}
    named = {_IN_OPERATORS.get(name, name): axis for name, axis in axes.items()}
    return Grid(named, same, never_falling(ln_s, weight))


def _cells(axes: Mapping[str, Array], table: pd.DataFrame) -> pd.DataFrame:
    """One row per cell; sizes that are not axes are taken from the first row, key heads equal query
    heads.
    """
    mesh = np.meshgrid(*axes.values(), indexing="ij")
    cells = pd.DataFrame({name: part.ravel() for name, part in zip(axes, mesh, strict=True)})
    for name in table.columns.difference([*axes, "latency_s", "shape"], sort=False):
        several = name == "kv_heads" and table[name].nunique() > 1
        cells[name] = cells["heads"] if several else table[name].iloc[0]
    return cells.assign(latency_s=1.0, shape=0)


def _beside(table: pd.DataFrame, data: Rows, axes: Mapping[str, Array], priced: Rows) -> Array:
    """ln of seconds of collectives: between two measured messages, the error is interpolated."""
    missed = np.log(data.measured_s / data.predicted_s)
    places, groups = np.log(table["bytes"].to_numpy(np.float64)), table["group"].to_numpy()
    knots = np.log(axes["bytes"])
    columns = []
    for group in axes["group"]:
        own = pd.Series(missed[groups == group]).groupby(places[groups == group]).mean()
        columns.append(np.interp(knots, own.index.to_numpy(), own.to_numpy()))
    ln_s: Array = np.log(priced.predicted_s).reshape(len(knots), -1) + np.stack(columns, axis=1)
    return ln_s


def never_falling(values: Array, weights: Array) -> Array:
    """The nearest array (by weighted least squares, approximately) that never falls along any axis.

    Dykstra's alternating projections onto the arrays that do not fall along one axis each.
    """
    near, owed = values.copy(), [np.zeros_like(values) for _ in values.shape]
    for _ in range(_SWEEPS):
        for axis in range(values.ndim):
            asked = near + owed[axis]
            near = _along(asked, weights, axis)
            owed[axis] = asked - near
    upper, lower = near.copy(), near.copy()
    for axis in range(values.ndim):
        upper = np.maximum.accumulate(upper, axis)
        lower = np.flip(np.minimum.accumulate(np.flip(lower, axis), axis), axis)
    return np.asarray((upper + lower) / 2.0)


def _along(values: Array, weights: Array, axis: int) -> Array:
    """The nearest array that does not decrease along one axis."""
    turned = np.moveaxis(values, axis, -1)
    lines = turned.reshape(-1, values.shape[axis]).copy()
    heavy = np.moveaxis(weights, axis, -1).reshape(lines.shape)
    for at in np.flatnonzero((np.diff(lines, axis=1) < 0).any(axis=1)):
        lines[at] = isotonic_regression(lines[at], weights=heavy[at]).x
    return np.moveaxis(lines.reshape(turned.shape), -1, axis)
