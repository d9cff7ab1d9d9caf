"""Boosted residuals of the measured devices: one file of arrays a device, in `residuals`.

Arrays of a series are named "class/format/array": `feature`, `bin`, `left`, `right` and `value`
[trees, nodes], `edges` (thresholds of all features, one behind another), `first` (where those of
each feature begin) and `range` (backbone, least and largest time of the equation [s]).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genz_core.latency.residual import Residual

FOLDER = Path(__file__).parent / "residuals"
#: Fits of a device, by name; read when the first of its kernels is priced alone.
_MOST_DEVICES = 32
Arrays = Mapping[str, NDArray[np.generic]]


@dataclass(frozen=True, slots=True)
class MeasuredTrees:
    """(class, format) -> the residual of a measured device's kernels, None where none ships.

    device: name of its profile.
    """

    device: str

    def __call__(self, operator: str, fmt: str) -> Residual | None:
        return _trees(self.device).get(f"{operator}/{fmt}")


@lru_cache(maxsize=_MOST_DEVICES)
def _trees(device: str) -> Mapping[str, Residual]:
    """{"class/format": residual} of a device; empty where no file ships."""
    path = FOLDER / f"{device}.npz"
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    series = sorted({name.rpartition("/")[0] for name in arrays})
    return {name: unpacked({k: arrays[f"{name}/{k}"] for k in PARTS}) for name in series}


PARTS = ("feature", "bin", "left", "right", "value", "edges", "first", "range")


def unpacked(parts: Arrays) -> Residual:
    """The residual of a series' arrays."""
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
