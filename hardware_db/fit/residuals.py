"""Program that fits the boosted residuals: ``python -m hardware_db.fit.residuals``.

Beside the constants that ship, trees are fitted to what they miss of the training shapes of every
series, of the tables' package and, with ``--tables FOLDER``, of other public benchmarks (see
`hardware_db.fit.other_devices`).  Trees are monotone in every size of a load.  How large they are,
and whether there are any, three folds of the training shapes decide; held-out shapes decide
nothing.  Needs the extra `calibrate`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import hardware_db
from genz_core.error_metrics import error_summary
from genz_core.latency.device import Device
from genz_core.latency.measured_operators import as_routed, price_s
from genz_core.latency.parameters import CLASSES, Parameters
from genz_core.latency.residual import Shapes, features, has_features
from genz_core.operator_calibration import impossible
from genz_core.types import Array, System
from hardware_db.fit import other_devices, tables
from hardware_db.fit.public_tables import read_folder
from hardware_db.fit.report import page
from hardware_db.fit.samples import SplitSeries, split
from hardware_db.fit.tables import MeasuredSeries
from hardware_db.profile_schema import FittedProfile
from hardware_db.profiles import FOLDER, measured_profiles
from hardware_db.profiles.trees import FOLDER as TREES
from hardware_db.profiles.trees import Arrays, unpacked
from hardware_db.profiles.validation import FILE

SPLIT = "held-out, alone"
_BINS, _MOST_LEAVES = 63, 63
_LEAST_POINTS, _MOST_POINTS = 60, 12000
_FOLDS, _SEEN = 3, 1.25


@dataclass(frozen=True, slots=True)
class _Setting:
    """How trees are boosted: their number and leaves, the rate, and the least rows of a leaf.

    ridge: penalty of large leaves.  backbone: least slope of ln t over that of the constants.
    """

    trees: int
    leaves: int
    rate: float
    rows: int
    ridge: float
    backbone: float


#: Of many shapes, of fewer, and of few; each series takes the one that suits its training shapes.
_SETTINGS = (
    _Setting(30, _MOST_LEAVES, 0.3, 4, 1.0, 0.2),
    _Setting(40, 15, 0.2, 20, 5.0, 0.5),
    _Setting(40, 7, 0.2, 10, 5.0, 0.8),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit the trees of all series, write them and their errors; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hardware_db.fit.residuals", description=__doc__)
    parser.add_argument("--tables", type=Path, help="folder of other public tables")
    options = parser.parse_args(arguments)
    packed: dict[str, dict[str, NDArray[Any]]] = defaultdict(dict)
    rows: list[dict[str, object]] = []
    for series, system, profile in _series(options.tables):
        sample = split(series, system)
        if sample.key not in profile.parameters:
            continue
        row, arrays = _fitted(sample, profile.parameters[sample.key])
        rows.append(row)
        name = "/".join(sample.key)
        packed[profile.name] |= {f"{name}/{part}": value for part, value in arrays.items()}
    TREES.mkdir(exist_ok=True)
    for device, of_device in packed.items():
        if not of_device:
            continue
        np.savez_compressed(TREES / f"{device}.npz", allow_pickle=False, **of_device)
    _write_rows(pd.DataFrame(rows))
    return 0


def _series(folder: Path | None) -> Iterator[tuple[MeasuredSeries, System, FittedProfile]]:
    """Measured series of products, attention, experts and scans, with their profile."""
    own = {profile.name: profile for profile in measured_profiles()}
    for operator in CLASSES:
        for device in tables.DEVICES:
            for series in tables.read(device, operator):
                yield series, hardware_db.facts(device).system(), own[device]
    for series in read_folder(folder, other_devices.DEVICES) if folder else ():
        if series.device in own:
            yield series, other_devices.system_of(series.device), own[series.device]


def _fitted(sample: SplitSeries, parameters: Parameters) -> tuple[dict[str, object], Arrays]:
    """Row of the validation, and the arrays of the trees; none where they would not help."""
    held_out = sample.points(sample.test)
    predicted = price_s(held_out, sample.system, parameters)
    train, arrays = _all_training_rows(sample), {}
    if len(train.index) >= _LEAST_POINTS and has_features(held_out.op().kind):
        data = _features(sample, train, parameters)
        setting = _best(data, train["shape"].to_numpy())
        if setting:
            arrays = _boosted(data, setting)
            predicted = unpacked(arrays).corrected_s(
                predicted, _shapes(sample, sample.test, parameters)
            )
    errors = error_summary(predicted, held_out.measured_s)
    row = {
        "operator": sample.series.operator, "system": sample.slug, "family": sample.family,
        "fmt": sample.series.fmt, "split": SPLIT, "draw": 0, "points": errors.points,
        "left_out": sample.impossible, "mape": errors.mape, "median": errors.median,
        "p90": errors.p90, "bias": errors.bias,
    }  # fmt: skip
    return row, arrays


@dataclass(frozen=True, slots=True)
class _Rows:
    """Training rows: features [rows, features], times [s] of the constants and as measured.

    grows: whether each feature grows with the sizes of a load.
    """

    x: Array
    predicted_s: Array
    measured_s: Array
    grows: Sequence[int]

    def at(self, chosen: NDArray[np.bool_]) -> _Rows:
        """Some of the rows."""
        return _Rows(self.x[chosen], self.predicted_s[chosen], self.measured_s[chosen], self.grows)

    def target(self, backbone: float) -> Array:
        """What the trees are to sum to."""
        return np.log(self.measured_s) - backbone * np.log(self.predicted_s)


def _best(data: _Rows, shape: NDArray[Any]) -> _Setting | None:
    """The setting that misses training shapes least which it did not see; None for no trees.

    The constants saw all of them, so trees have to come near the constants' error only.
    """
    fold = np.unique(shape, return_inverse=True)[1] % _FOLDS
    if len(np.unique(fold)) < _FOLDS:
        return None
    errors: dict[_Setting | None, float] = {
        None: error_summary(data.predicted_s, data.measured_s).mape
    }
    for setting in _SETTINGS:
        predicted = np.empty(len(data.x))
        for held_out in range(_FOLDS):
            booster = _booster(data.at(fold != held_out), setting)
            left = data.at(fold == held_out)
            leaves = np.asarray(booster.predict(left.x))
            predicted[fold == held_out] = np.exp(
                leaves + setting.backbone * np.log(left.predicted_s)
            )
        errors[setting] = error_summary(predicted, data.measured_s).mape
    trees = min(_SETTINGS, key=lambda setting: errors[setting])
    return trees if errors[trees] < _SEEN * errors[None] else None


def _all_training_rows(sample: SplitSeries) -> pd.DataFrame:
    """All rows of shapes that are not held out, which the bound allows."""
    table = sample.series.table
    table = table[~table["shape"].isin(sample.test["shape"].unique())]
    table = table[~impossible(sample.points(table), sample.system)]
    return table.sample(min(len(table), _MOST_POINTS), random_state=0).reset_index(drop=True)


def _features(sample: SplitSeries, table: pd.DataFrame, parameters: Parameters) -> _Rows:
    """Rows of a table as the trees see them."""
    points = sample.points(table)
    predicted = price_s(points, sample.system, parameters)
    found = features(_shapes(sample, table, parameters))
    columns = [np.broadcast_to(feature.values, predicted.shape) for feature in found]
    x = np.stack([np.log(predicted), *columns], axis=1)
    return _Rows(x, predicted, points.measured_s, [1, *(int(f.grows) for f in found)])


def _shapes(sample: SplitSeries, table: pd.DataFrame, parameters: Parameters) -> Shapes:
    """Shapes of measured rows, as the trees see them."""
    op = as_routed(sample.points(table), parameters)
    return Shapes(op.kind, op.dims, Device.of(sample.system).compute_units)


@dataclass(frozen=True, slots=True)
class _Dump:
    """Trees of LightGBM's dump, the thresholds of each feature, and the most nodes of a tree."""

    trees: Sequence[Any]
    thresholds: Sequence[Array]
    nodes: int

    def arrays(self, span: tuple[float, float, float]) -> dict[str, NDArray[Any]]:
        """The arrays that ship, see `hardware_db.profiles.trees`."""
        shape = (len(self.trees), self.nodes)
        parts = {name: np.zeros(shape, np.uint8) for name in ("feature", "bin", "left", "right")}
        value = np.zeros(shape, np.float32)
        for at, tree in enumerate(self.trees):
            self._fill(tree, {name: part[at] for name, part in parts.items()}, value[at])
        counts = [len(of_feature) for of_feature in self.thresholds]
        return {
            **parts,
            "value": value,
            "edges": np.concatenate(self.thresholds).astype(np.float32),
            "first": np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32),
            "range": np.array(span),
        }

    def _fill(self, root: Any, parts: dict[str, NDArray[np.uint8]], value: Array) -> None:
        """Write the nodes of one tree, breadth first."""
        waiting, used = [(root, 0)], 1
        while waiting:
            node, at = waiting.pop(0)
            if "leaf_value" in node:
                parts["left"][at] = parts["right"][at] = at
                value[at] = node["leaf_value"]
                continue
            feature = node["split_feature"]
            edges = self.thresholds[feature]
            parts["feature"][at] = feature
            parts["bin"][at] = np.searchsorted(edges, node["threshold"])
            parts["left"][at], parts["right"][at] = used, used + 1
            waiting += [(node["left_child"], used), (node["right_child"], used + 1)]
            used += 2


def _booster(data: _Rows, setting: _Setting) -> Any:
    """Boosted trees of LightGBM, none of which falls where a growing feature rises."""
    import lightgbm

    options = {
        "objective": "l2", "learning_rate": setting.rate, "num_leaves": setting.leaves,
        "verbose": -1, "min_data_in_leaf": setting.rows, "lambda_l2": setting.ridge,
        "num_threads": 1, "max_bin_by_feature": [255] + [_BINS] * (data.x.shape[1] - 1),
        "seed": 0, "deterministic": True, "monotone_constraints": list(data.grows),
        "monotone_constraints_method": "advanced",
    }  # fmt: skip
    rows = lightgbm.Dataset(data.x, data.target(setting.backbone), params=options)
    return lightgbm.train(options, rows, setting.trees)


def _boosted(data: _Rows, setting: _Setting) -> dict[str, NDArray[Any]]:
    """The arrays of trees of all rows."""
    dump = _booster(data, setting).dump_model()
    trees = [tree["tree_structure"] for tree in dump["tree_info"]]
    thresholds: list[set[float]] = [set() for _ in data.grows]
    for tree in trees:
        _collect(tree, thresholds)
    sorted_edges = [np.array(sorted(of_feature) or [0.0]) for of_feature in thresholds]
    span = (setting.backbone, float(data.predicted_s.min()), float(data.predicted_s.max()))
    return _Dump(trees, sorted_edges, 2 * setting.leaves - 1).arrays(span)


def _collect(node: Any, thresholds: Sequence[set[float]]) -> None:
    """Gather the thresholds of a tree by feature."""
    if "leaf_value" not in node:
        thresholds[node["split_feature"]].add(node["threshold"])
        _collect(node["left_child"], thresholds)
        _collect(node["right_child"], thresholds)


def _write_rows(new: pd.DataFrame) -> None:
    """Put the errors with trees behind those without, and write the page about them."""
    table = pd.read_csv(FILE)
    table = table[table["split"] != SPLIT]
    dated = table[table["split"] == "held-out shapes"]
    keys = ["operator", "system", "fmt"]
    new = new.merge(dated[[*keys, "data", "date"]], on=keys, how="left").round(5)
    pd.concat([table, new]).to_csv(FILE, index=False)
    (FOLDER / "README.md").write_text(page(pd.read_csv(FILE)), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
