"""Program that fits the residuals of measured kernels: ``python -m hardware_db.fit.residuals``.

Trees or a table are fitted to the errors of the shipped constants on the training shapes of every
series, of the tables' package and, with ``--tables FOLDER``, of other public benchmarks (see
`hardware_db.fit.other_devices`).  Both are monotonic in every size of a load.  Cross-validation on
the training shapes decides which of them is used, how large it is, and whether there is any;
held-out shapes decide nothing.  ``--classes`` fits only some classes and keeps the shipped fits of
the others. Needs the extra `calibrate`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import hardware_db
from genz_core.calibration.error_metrics import error_summary
from genz_core.calibration.operator_calibration import impossible
from genz_core.latency.device import Device
from genz_core.latency.measured_operators import as_routed, price_s
from genz_core.latency.parameters import CLASSES, Parameters
from genz_core.latency.residual import Shapes, features, has_features
from genz_core.latency.residual_grid import Grid
from genz_core.systems import System
from genz_core.types import Array
from hardware_db.fit import other_devices, tables
from hardware_db.fit.boosting import MOST_LEAVES, Rows, Setting, boosted, boosted_s
from hardware_db.fit.public_tables import read_folder
from hardware_db.fit.report import page
from hardware_db.fit.residual_grids import GridSetting, fitted_grid, is_grid
from hardware_db.fit.samples import SplitSeries, split
from hardware_db.fit.tables import MeasuredSeries
from hardware_db.profile_schema import FittedProfile
from hardware_db.profiles import FOLDER, measured_profiles
from hardware_db.profiles.trees import FOLDER as TREES
from hardware_db.profiles.trees import Arrays, packed, unpacked
from hardware_db.profiles.validation import FILE

SPLIT = "held-out, alone"
_LEAST_POINTS, _MOST_POINTS = 60, 24000
#: Number of folds of training shapes; for message sizes, which form a line, each size is a fold.
_FOLDS = 3
#: The constants were fitted on all training shapes, so a residual cross-validated on unseen ones
#: need only come close to their error. For messages, leaving one out makes a gap twice as wide as
#: any in the shipped table, and at least doubles the error.
_SEEN, _SEEN_MESSAGES = 1.25, 2.0

#: Settings for many shapes, for fewer, and for few; each series uses the one that fits its training
#: shapes best.
_TREES = (
    Setting(30, MOST_LEAVES, 0.3, 4, 1.0, 0.2),
    Setting(40, 15, 0.2, 20, 5.0, 0.5),
    Setting(40, 7, 0.2, 10, 5.0, 0.8),
)
#: Share of the correction that is applied: with few shapes, a smaller share than one has less
#: error.
_SHARES = (1.0, 0.75, 0.5, 0.25)
#: Setting for filling the cells of a table: more trees than would ship, and none for collectives.
_GRID = GridSetting(Setting(120, 31, 0.1, 4, 1.0, 1.0, free=True))
_MESSAGES = GridSetting(None)
_Choice = Setting | GridSetting


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit the trees of all series, write them and their errors; returns the exit status."""
    parser = argparse.ArgumentParser(prog="hardware_db.fit.residuals", description=__doc__)
    parser.add_argument("--tables", type=Path, help="folder of other public tables")
    parser.add_argument("--classes", nargs="*", default=list(CLASSES), choices=list(CLASSES))
    options = parser.parse_args(arguments)
    of_devices = _kept(options.classes)
    rows: list[dict[str, object]] = []
    for series, system, profile in _series(options.tables, options.classes):
        sample = split(series, system)
        if sample.key not in profile.parameters:
            continue
        row, arrays = _fitted(sample, profile.parameters[sample.key])
        rows.append(row)
        name = "/".join(sample.key)
        of_devices[profile.name] |= {f"{name}/{part}": value for part, value in arrays.items()}
    if not rows:
        parser.error(f"no series of {', '.join(options.classes)} has constants that ship")
    TREES.mkdir(exist_ok=True)
    for device, of_device in of_devices.items():
        if not of_device:
            continue
        np.savez_compressed(TREES / f"{device}.npz", allow_pickle=False, **of_device)
    _write_rows(pd.DataFrame(rows))
    return 0


def _kept(classes: Sequence[str]) -> dict[str, dict[str, NDArray[Any]]]:
    """{device: shipped arrays} of the classes that are not fitted again."""
    kept: dict[str, dict[str, NDArray[Any]]] = defaultdict(dict)
    for path in sorted(TREES.glob("*.npz")):
        with np.load(path, allow_pickle=False) as file:
            of_others = [name for name in file.files if name.partition("/")[0] not in classes]
            kept[path.stem] = {name: file[name] for name in of_others}
    return kept


def _series(
    folder: Path | None, classes: Sequence[str]
) -> Iterator[tuple[MeasuredSeries, System, FittedProfile]]:
    """Measured series of products, attention, experts and scans, with their profiles."""
    own = {profile.name: profile for profile in measured_profiles()}
    for operator in classes:
        for device in tables.DEVICES:
            for series in tables.read(device, operator):
                yield series, hardware_db.facts(device).system(), own[device]
    for series in read_folder(folder, other_devices.DEVICES) if folder else ():
        if series.device in own and series.operator in classes:
            yield series, other_devices.system_of(series.device), own[series.device]


def _fitted(sample: SplitSeries, parameters: Parameters) -> tuple[dict[str, object], Arrays]:
    """Row of the validation, and the arrays that ship; none where they would not help."""
    held_out = sample.points(sample.test)
    predicted = price_s(held_out, sample.system, parameters)
    kernels = _Kernels(sample, parameters, _all_training_rows(sample))
    arrays: Arrays = {}
    if choice := kernels.best():
        arrays = kernels.arrays(choice)
        shapes = _shapes(sample, sample.test, parameters)
        predicted = unpacked(arrays).corrected_s(predicted, shapes)
    errors = error_summary(predicted, held_out.measured_s)
    row = {
        "operator": sample.series.operator, "system": sample.slug, "family": sample.family,
        "fmt": sample.series.fmt, "split": SPLIT, "draw": 0, "points": errors.points,
        "left_out": sample.impossible, "mape": errors.mape, "median": errors.median,
        "p90": errors.p90, "bias": errors.bias,
    }  # fmt: skip
    return row, arrays


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Training rows of a series, with the constants that price it."""

    sample: SplitSeries
    parameters: Parameters
    table: pd.DataFrame

    def rows(self, table: pd.DataFrame) -> Rows:
        """Rows of a table as features of trees; without features for collectives, which
        have none.
        """
        points = self.sample.points(table)
        predicted = np.asarray(price_s(points, self.sample.system, self.parameters))
        shapes = _shapes(self.sample, table, self.parameters)
        found = features(shapes) if has_features(shapes.kind) else []
        columns = [np.broadcast_to(feature.values, predicted.shape) for feature in found]
        x = np.stack([np.log(predicted), *columns], axis=1)
        return Rows(x, predicted, points.measured_s, [1, *(int(f.grows) for f in found)])

    @property
    def _messages(self) -> bool:
        """Whether the shapes are message sizes, whose smallest and largest cannot be
        interpolated.
        """
        return self.sample.series.operator == "collective"

    def best(self) -> _Choice | None:
        """The best correction, or None where none helps.

        A table, if its error on training shapes that it did not see is below that of the constants,
        which saw them; otherwise the trees with the smallest error.
        """
        few = len(self.table.index) < _LEAST_POINTS
        trees = not few and has_features(self.sample.points(self.table).op().kind)
        shape = np.unique(self.table["shape"].to_numpy(), return_inverse=True)[1]
        folds = shape.max() + 1 if self._messages else _FOLDS
        if folds < _FOLDS or shape.max() < _FOLDS - 1 or not (trees or self._messages):
            return None
        data, fold = self.rows(self.table), shape % folds
        between = (shape > 0) & (shape < shape.max()) if self._messages else shape >= 0

        def error(predicted: Array) -> float:
            return error_summary(predicted[between], data.measured_s[between]).mape

        def elsewhere(choice: _Choice) -> Array:
            predicted = data.predicted_s.copy()
            for number in range(folds):
                left = fold == number
                predicted[left] = self._elsewhere(choice, data, left)
            return predicted

        before = error(data.predicted_s)
        if is_grid(self.sample.series, self.table):
            grid = _MESSAGES if self._messages else _GRID
            if error(elsewhere(grid)) < (_SEEN_MESSAGES if self._messages else 1.0) * before:
                return grid
        errors = {}
        for setting in () if self._messages else _TREES:
            beside = elsewhere(setting) / data.predicted_s
            for share in _SHARES:
                errors[replace(setting, share=share)] = error(data.predicted_s * beside**share)
        least = min(errors, key=lambda choice: errors[choice], default=None)
        return least if least and errors[least] < _SEEN * before else None

    def _elsewhere(self, choice: _Choice, data: Rows, left: NDArray[np.bool_]) -> Array:
        """Times predicted for the rows that are left out [s], by a fit to the others."""
        seen, rest = data.at(~left), data.at(left)
        if isinstance(choice, Setting):
            return boosted_s(seen, choice, rest)
        grid = self._grid(choice, self.table[~left], seen)
        shapes = _shapes(self.sample, self.table[left], self.parameters)
        return grid.corrected_s(rest.predicted_s, shapes)

    def _grid(self, setting: GridSetting, table: pd.DataFrame, data: Rows) -> Grid:
        return fitted_grid(self.sample.series.operator, table, data, self.rows, setting)

    def arrays(self, choice: _Choice) -> Arrays:
        """The arrays to ship, fitted to all rows."""
        data = self.rows(self.table)
        if isinstance(choice, Setting):
            return _boosted(data, choice)
        return packed(self._grid(choice, self.table, data))


def _all_training_rows(sample: SplitSeries) -> pd.DataFrame:
    """All rows of shapes that are not held out, without those faster than the bound."""
    table = sample.series.table
    table = table[~table["shape"].isin(sample.test["shape"].unique())]
    table = table[~impossible(sample.points(table), sample.system)]
    return table.sample(min(len(table), _MOST_POINTS), random_state=0).reset_index(drop=True)


def _shapes(sample: SplitSeries, table: pd.DataFrame, parameters: Parameters) -> Shapes:
    """Shapes of measured rows, as features of trees."""
    op = as_routed(sample.points(table), parameters)
    return Shapes(op.kind, op.dims, Device.of(sample.system).compute_units)


@dataclass(frozen=True, slots=True)
class _Dump:
    """Trees of LightGBM's dump, the thresholds of each feature, and the most nodes of a tree."""

    trees: Sequence[Any]
    thresholds: Sequence[Array]
    nodes: int

    def arrays(self, span: tuple[float, float, float]) -> dict[str, NDArray[Any]]:
        """The arrays to ship, see `hardware_db.profiles.trees`."""
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


def _boosted(data: Rows, setting: Setting) -> dict[str, NDArray[Any]]:
    """The arrays of trees of all rows."""
    dump = boosted(data, setting).dump_model()
    trees = [tree["tree_structure"] for tree in dump["tree_info"]]
    thresholds: list[set[float]] = [set() for _ in data.grows]
    for tree in trees:
        _collect(tree, thresholds)
    sorted_edges = [np.array(sorted(of_feature) or [0.0]) for of_feature in thresholds]
    backbone = 1.0 - setting.share * (1.0 - setting.backbone)
    span = (backbone, float(data.predicted_s.min()), float(data.predicted_s.max()))
    arrays = _Dump(trees, sorted_edges, 2 * setting.leaves - 1).arrays(span)
    return arrays | {"value": (setting.share * arrays["value"]).astype(np.float32)}


def _collect(node: Any, thresholds: Sequence[set[float]]) -> None:
    """Gather the thresholds of a tree by feature."""
    if "leaf_value" not in node:
        thresholds[node["split_feature"]].add(node["threshold"])
        _collect(node["left_child"], thresholds)
        _collect(node["right_child"], thresholds)


def _write_rows(new: pd.DataFrame) -> None:
    """Append the errors with residuals to the errors without, and write the page about them."""
    table = pd.read_csv(FILE)
    again = (table["split"] == SPLIT) & table["operator"].isin(new["operator"])
    table = table[~again]
    dated = table[table["split"] == "held-out shapes"]
    keys = ["operator", "system", "fmt"]
    new = new.merge(dated[[*keys, "data", "date"]], on=keys, how="left").round(5)
    pd.concat([table, new]).to_csv(FILE, index=False)
    (FOLDER / "README.md").write_text(page(pd.read_csv(FILE)), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
