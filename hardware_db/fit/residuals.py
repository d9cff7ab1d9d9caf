"""Program that fits the boosted residuals: ``python -m hardware_db.fit.residuals``.

Beside the constants that ship, trees are fitted to what they miss of the training shapes of every
series, of the tables' package and, with ``--tables FOLDER``, of other public benchmarks (see
`hardware_db.fit.other_devices`).  Trees are monotone in every size of a load.  Series on whose
held-out shapes they do not help have none.  Needs the extra `calibrate`.
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
_BACKBONE = 0.2
_TREES, _LEAVES, _RATE, _BINS = 30, 63, 0.3, 63
_LEAST_POINTS, _MOST_POINTS = 100, 12000


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
    """Row of the validation, and the arrays of the trees; none where they do not help."""
    held_out = sample.points(sample.test)
    constants_s = price_s(held_out, sample.system, parameters)
    before = error_summary(constants_s, held_out.measured_s)
    errors, arrays = before, {}
    train = _all_training_rows(sample)
    if len(train.index) >= _LEAST_POINTS and has_features(held_out.op().kind):
        x, predicted, grows = _features(sample, train, parameters)
        measured = train["latency_s"].to_numpy(np.float64)
        trees = _boosted(x, np.log(measured) - _BACKBONE * np.log(predicted), grows)
        arrays = trees.arrays((_BACKBONE, predicted.min(), predicted.max()))
        corrected = _corrected(arrays, sample, constants_s, parameters)
        errors = error_summary(corrected, held_out.measured_s)
        if errors.mape >= before.mape:
            errors, arrays = before, {}
    row = {
        "operator": sample.series.operator, "system": sample.slug, "family": sample.family,
        "fmt": sample.series.fmt, "split": SPLIT, "draw": 0, "points": errors.points,
        "left_out": sample.impossible, "mape": errors.mape, "median": errors.median,
        "p90": errors.p90, "bias": errors.bias,
    }  # fmt: skip
    return row, arrays


def _all_training_rows(sample: SplitSeries) -> pd.DataFrame:
    """All rows of shapes that are not held out, which the bound allows."""
    table = sample.series.table
    table = table[~table["shape"].isin(sample.test["shape"].unique())]
    table = table[~impossible(sample.points(table), sample.system)]
    return table.sample(min(len(table), _MOST_POINTS), random_state=0).reset_index(drop=True)


def _features(
    sample: SplitSeries, table: pd.DataFrame, parameters: Parameters
) -> tuple[Array, Array, list[int]]:
    """Features [rows, features], the time of the constants [s], and which features may not fall."""
    points = sample.points(table)
    predicted = price_s(points, sample.system, parameters)
    found = features(_shapes(sample, table, parameters))
    columns = [np.broadcast_to(feature.values, predicted.shape) for feature in found]
    x = np.stack([np.log(predicted), *columns], axis=1)
    return x, predicted, [1, *(int(feature.grows) for feature in found)]


def _corrected(
    arrays: Arrays, sample: SplitSeries, constants_s: Array, parameters: Parameters
) -> Array:
    """Times of the held-out shapes with the trees, as they ship [s]."""
    shapes = _shapes(sample, sample.test, parameters)
    return unpacked(arrays).corrected_s(constants_s, shapes)


def _shapes(sample: SplitSeries, table: pd.DataFrame, parameters: Parameters) -> Shapes:
    """Shapes of measured rows, as the trees see them."""
    op = as_routed(sample.points(table), parameters)
    return Shapes(op.kind, op.dims, Device.of(sample.system).compute_units)


@dataclass(frozen=True, slots=True)
class _Boosted:
    """Trees of LightGBM's dump, and the thresholds of each feature."""

    trees: Sequence[Any]
    thresholds: Sequence[Array]

    def arrays(self, span: tuple[float, float, float]) -> dict[str, NDArray[Any]]:
        """The arrays that ship, see `hardware_db.profiles.trees`."""
        shape = (len(self.trees), 2 * _LEAVES - 1)
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


def _boosted(x: Array, target: Array, grows: Sequence[int]) -> _Boosted:
    """Boosted trees of the target, none of which falls where a growing feature rises."""
    import lightgbm

    options = {
        "objective": "l2", "learning_rate": _RATE, "num_leaves": _LEAVES, "verbose": -1,
        "min_data_in_leaf": int(np.clip(len(x) // 100, 2, 4)), "lambda_l2": 1.0, "num_threads": 1,
        "max_bin_by_feature": [255] + [_BINS] * (x.shape[1] - 1), "seed": 0, "deterministic": True,
        "monotone_constraints": list(grows), "monotone_constraints_method": "advanced",
    }  # fmt: skip
    data = lightgbm.Dataset(x, target, params=options)
    dump = lightgbm.train(options, data, _TREES).dump_model()
    trees = [tree["tree_structure"] for tree in dump["tree_info"]]
    thresholds: list[set[float]] = [set() for _ in grows]
    for tree in trees:
        _collect(tree, thresholds)
    return _Boosted(trees, [np.array(sorted(of_feature) or [0.0]) for of_feature in thresholds])


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
