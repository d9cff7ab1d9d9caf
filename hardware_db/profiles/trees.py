"""Corrections of measured kernels beyond the constants: one file of arrays per device, in
`residuals`.

Arrays of a series are named "class/format/array".  For trees: `feature`, `bin`, `left`, `right` and
`value` [trees, nodes], `edges` (thresholds of all features, concatenated), `first` (start of each
feature's thresholds) and `range` (backbone, least and largest time of the equation [s]).

For a table: `names` and `lengths` of its axes, `sizes` (of all axes, concatenated), `same_names`
and `same_values`, and `steps`: ln of nanoseconds in units of `STEP`, as differences along the first
axis, which compresses well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genz_core.latency.residual import Residual
from genz_core.latency.residual_grid import Grid

FOLDER = Path(__file__).parent / "residuals"
#: Fits by device name, read when the first of the device's kernels is priced alone.
_MOST_DEVICES = 32
Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class MeasuredTrees:
    """(class, format) -> corrections of a device's kernels, None where nothing ships.

    device: name of its profile.
    """

    device: str

    def __call__(self, operator: str, fmt: str) -> Residual | Grid | None:
        return _trees(self.device).get(f"{operator}/{fmt}")


@lru_cache(maxsize=_MOST_DEVICES)
def _trees(device: str) -> Mapping[str, Residual | Grid]:
    """{"class/format": trees or table} of a device; empty where no file ships."""
    path = FOLDER / f"{device}.npz"
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    series: dict[str, dict[str, NDArray[np.generic]]] = {}
    for name, values in arrays.items():
        key, _, part = name.rpartition("/")
        series.setdefault(key, {})[part] = values
    return {name: unpacked(parts) for name, parts in series.items()}


#: Resolution of ln t in a table, which makes an error of at most a tenth of a percent.
STEP = 0.002
_NANO = 1e-9


def unpacked(parts: Arrays) -> Residual | Grid:
    """The trees or the table of a series' arrays."""
    return _grid(parts) if "steps" in parts else _residual(parts)


def packed(grid: Grid) -> dict[str, NDArray[np.generic]]:
    """The arrays of a table."""
    rounded = np.round((grid.ln_s - np.log(_NANO)) / STEP).astype(np.int32)
    steps = np.diff(rounded, axis=0, prepend=0)
    return {
        "names": np.array(list(grid.axes)),
        "lengths": np.array([len(axis) for axis in grid.axes.values()], np.int32),
        "sizes": np.concatenate(list(grid.axes.values())),
        "same_names": np.array(list(grid.same), dtype=np.str_),
        "same_values": np.array(list(grid.same.values()), np.float64),
        "steps": steps.astype(np.uint16),
    }


def _grid(parts: Arrays) -> Grid:
    ends = np.cumsum(parts["lengths"].astype(np.intp))
    axes = np.split(parts["sizes"].astype(np.float64), ends[:-1])
    same = zip(parts["same_names"], parts["same_values"].astype(np.float64), strict=True)
    return Grid(
        {str(name): axis for name, axis in zip(parts["names"], axes, strict=True)},
        {str(name): float(value) for name, value in same},
        np.cumsum(parts["steps"].astype(np.int64), axis=0) * STEP + np.log(_NANO),
    )


def _residual(parts: Arrays) -> Residual:
    feature = parts["feature"].astype(np.intp)
    edges = parts["edges"].astype(np.float64)
    backbone, low, high = parts["range"].astype(np.float64)
    left, right = (parts[side].astype(np.intp) for side in ("left", "right"))
    return Residual(
        feature,
        edges[parts["first"].astype(np.intp)[feature] + parts["bin"].astype(np.intp)],
        left,
        right,
        parts["value"].astype(np.float64),
        float(backbone),
        float(low),
        float(high),
        _depth(left, right),
    )


def _depth(left: NDArray[np.intp], right: NDArray[np.intp]) -> int:
    """Steps from a root to the deepest leaf; a leaf is its own child."""
    nodes = np.arange(left.shape[1])[None, :]
    reached = np.zeros(left.shape, dtype=bool)
    reached[:, 0] = True
    for depth in range(left.shape[1]):
        if not np.any(reached & (left != nodes)):
            return depth
        after = np.zeros_like(reached)
        trees, at = np.nonzero(reached)
        after[trees, left[trees, at]] = True
        after[trees, right[trees, at]] = True
        reached = after
    return int(left.shape[1])
