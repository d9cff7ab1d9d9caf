"""Boosted trees for the residuals of measured kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.types import Array

MOST_LEAVES = 63
_BINS = 63


@dataclass(frozen=True, slots=True)
class Setting:
    """How trees are boosted: their number and leaves, the learning rate, and the least rows of a
    leaf.

    ridge: penalty of large leaves.  backbone: least slope of ln t over that of the constants.
    free: the trees may fall where a size grows.  share: share of the correction of ln t that is
    applied; the rest is left to the constants.
    """

    trees: int
    leaves: int
    rate: float
    rows: int
    ridge: float
    backbone: float
    free: bool = False
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Rows:
    """Training rows: features [rows, features], times [s] of the constants and as measured.

    grows: whether each feature grows with the sizes of a load.
    """

    x: Array
    predicted_s: Array
    measured_s: Array
    grows: Sequence[int]

    def at(self, chosen: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.x[chosen], self.predicted_s[chosen], self.measured_s[chosen], self.grows)

    def target(self, backbone: float) -> Array:
        """The values that the trees should sum to."""
        return np.log(self.measured_s) - backbone * np.log(self.predicted_s)


def boosted(data: Rows, setting: Setting) -> Any:
    """Trees of LightGBM; unless `free`, they are monotonic in every growing feature."""
    import lightgbm

    options = {
        "objective": "l2", "learning_rate": setting.rate, "num_leaves": setting.leaves,
        "verbose": -1, "min_data_in_leaf": setting.rows, "lambda_l2": setting.ridge,
        "num_threads": 1, "max_bin_by_feature": [255] + [_BINS] * (data.x.shape[1] - 1),
        "seed": 0, "deterministic": True,
    }  # fmt: skip
    if not setting.free:
        options |= {"monotone_constraints": list(data.grows)}
        options |= {"monotone_constraints_method": "advanced"}
    rows = lightgbm.Dataset(data.x, data.target(setting.backbone), params=options)
    return lightgbm.train(options, rows, setting.trees)


def boosted_s(data: Rows, setting: Setting, left: Rows) -> Array:
    """Times that trees fitted to `data` predict for other rows [s], [rows of left]."""
    leaves = np.asarray(boosted(data, setting).predict(left.x))
    before = np.log(left.predicted_s)
    theirs = leaves + setting.backbone * before
    return np.exp(setting.share * theirs + (1.0 - setting.share) * before)
