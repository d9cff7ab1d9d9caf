"""Rows of predicted operators beside their measured times.

Launches with a timeline join one by one (`profilers.matching.launch_join`).  A table of operators,
from a run or a summary, joins by the name of the module, then by the FLOPs of one run where
launches and runs agree in number, and finally by the operator class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from genz_core.common.short_repr import shortened
from profilers.matching.launch_join import Joined
from profilers.matching.module_roles import ATTRIBUTES
from profilers.operators.gemms import gemm_table
from profilers.operators.kernel_classes import ENGINE_CLASS
from profilers.schema import Report

_SAME_FLOPS = 0.02
#: Ends of a prediction's interval, NaN where it has none.
ENDS = ("low_s", "high_s")
#: Ways of joining that tie a launch to one predicted operator, strongest first.
JOINS = ("module", "shape", "sequence", "flops")
#: Name of a row without a predicted operator.
NOTHING = "nothing predicted"
_COLUMNS = (
    "class", "name", "measured_as", "kernels", "matched_by", "runs", "launches",
    "bound_s", "predicted_s", *ENDS, "measured_s",
)  # fmt: skip
#: Most rows for launches that no operator was predicted for; the rest share one row.
_MOST_ROWS = 20


def match_operators(predicted: pd.DataFrame, measured: pd.DataFrame) -> pd.DataFrame:
    """Predicted operators of a step with their measured times.

    Args:
        predicted: columns of `StepEstimate.table`, low_s and high_s.
        measured: columns of a measured operator table and `launches`; time_s of one step.
    """
    expected = _by_name(predicted)
    happened = measured[measured["time_s"] > 0]
    happened = happened.assign(**{"class": happened["class"].fillna("other")})
    rows: list[dict[str, object]] = []
    for name in dict.fromkeys([*expected["class"], *happened["class"].dropna()]):
        ours = expected[expected["class"] == name]
        theirs = happened[happened["class"] == name]
        rows += _match_class(str(name), ours, theirs)
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _by_name(predicted: pd.DataFrame) -> pd.DataFrame:
    """Predicted operators summed by name, since a name may occur at two places of a graph."""
    working = predicted[predicted["predicted_s"] > 0]
    summed = working.groupby(["class", "name"], sort=False, as_index=False)
    return summed.agg(
        runs=("runs", "sum"),
        flops=("flops", "first"),
        bound_s=("bound_s", "sum"),
        predicted_s=("predicted_s", "sum"),
        **{end: (end, whole_sum) for end in ENDS},
    )


def whole_sum(values: pd.Series) -> float:
    """The sum; NaN if any part is, so that an unknown part makes the sum unknown."""
    return float(values.sum(skipna=False))


def _match_class(name: str, ours: pd.DataFrame, theirs: pd.DataFrame) -> list[dict[str, object]]:
    """Rows of one operator class.  ours: predicted.  theirs: measured."""
    rows = []
    for way, keys in (("module", _module_keys), ("flops", _flops_keys)):
        left, right = keys(ours, theirs)
        shared = [key for key in dict.fromkeys(left.dropna()) if bool((right == key).any())]
        if way == "flops":
            shared = [key for key in shared if _as_often(ours[left == key], theirs[right == key])]
        for key in shared:
            rows.append(_row(name, ours[left == key], theirs[right == key], way))
        ours, theirs = ours[~left.isin(shared)], theirs[~right.isin(shared)]
    if len(theirs) and len(ours):
        rows.append(_row(name, ours, theirs, "class"))
    elif len(theirs) or len(ours):
        rows += [_row(name, ours, theirs, "none")]
    return rows


def _as_often(ours: pd.DataFrame, theirs: pd.DataFrame) -> bool:
    """Whether there are as many launches as runs."""
    runs, launches = float(ours["runs"].sum()), float(theirs["launches"].sum())
    return abs(launches - runs) <= 0.1 * runs


def _module_keys(ours: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Names of predicted operators, and the names that the module paths of measured ones correspond
    to.
    """
    last = [str(name).rpartition(".")[2] for name in theirs["name"]]
    theirs_keys = pd.Series(
        [ATTRIBUTES.get(part, part) for part in last], theirs.index, dtype=object
    )
    return ours["name"].astype(object), theirs_keys


def _flops_keys(ours: pd.DataFrame, theirs: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Predicted FLOPs, and for each measured value the nearest of them within 2 %,
    otherwise NaN.
    """
    flops = ours["flops"].where(ours["flops"] > 0).round()
    predicted = np.array(sorted(set(flops.dropna())))

    def nearest(value: float) -> float:
        if not predicted.size or not value > 0:
            return float("nan")
        best = float(predicted[np.argmin(np.abs(predicted - value))])
        return best if abs(best / value - 1.0) <= _SAME_FLOPS else float("nan")

    return flops, theirs["flops"].map(nearest).astype(float)


def _row(name: str, ours: pd.DataFrame, theirs: pd.DataFrame, way: str) -> dict[str, object]:
    return {
        "class": name,
        "name": _joined(ours["name"]) or NOTHING,
        "measured_as": _joined(theirs["name"]),
        "kernels": "",
        "matched_by": way,
        "runs": float(ours["runs"].sum()),
        "launches": float(theirs["launches"].sum()),
        "bound_s": float(ours["bound_s"].sum()),
        "predicted_s": float(ours["predicted_s"].sum()),
        **{end: whole_sum(ours[end]) for end in ENDS},
        "measured_s": float(theirs["time_s"].sum()),
    }


def match_launches(
    predicted: pd.DataFrame, kernels: pd.DataFrame, joined: Joined, steps: float
) -> pd.DataFrame:
    """Rows of the predicted operators of a step with the times of their launches, and rows of
    launches that no operator was predicted for.

    Args:
        predicted: columns of `StepEstimate.table`, low_s and high_s, one row per operator.
        kernels: launches of `steps` steps, see `StepLaunches`.  joined: the same launches.
    """
    predicted = _with_merged(predicted, joined.merged)
    launches = pd.DataFrame(
        {
            "row": joined.operator,
            "way": joined.evidence,
            "class": kernels["operator_class"].astype(object).map(ENGINE_CLASS.get).to_numpy(),
            "kernel": kernels["name"].astype(object).to_numpy(),
            "as": kernels["operator"].astype(object).fillna(kernels["name"].astype(object)),
            "count": kernels["count"].to_numpy(),
            "time_s": kernels["duration_s"].to_numpy() / steps,
        }
    )
    titles = predicted["class"].astype(str) + "\0" + predicted["name"].astype(str)
    launches["title"] = launches["row"].map(titles)
    by_title = dict(iter(launches[launches["row"] >= 0].groupby("title", sort=False)))
    rows = [
        _launched(ours, by_title.get(f"{ours['class']}\0{ours['name']}", launches[:0]), steps)
        for ours in _by_name(predicted).to_dict("records")
    ]
    rows += _left_over(launches[launches["row"] < 0], steps)
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _with_merged(predicted: pd.DataFrame, merged: Mapping[int, int]) -> pd.DataFrame:
    """The table with one common name for operators that the same launches do."""
    table = predicted.copy()
    for row, leader in merged.items():
        both = f"{predicted.loc[leader, 'name']}, {predicted.loc[row, 'name']}"
        table.loc[[row, leader], "name"] = both
        table.loc[row, "runs"] = 0.0
    return table


def _launched(ours: dict[str, object], theirs: pd.DataFrame, steps: float) -> dict[str, object]:
    """Row of a predicted operator and its launches."""
    by_way = theirs.groupby("way")["time_s"].sum()
    return {
        **{key: ours[key] for key in ("class", "name", "runs", "bound_s", "predicted_s", *ENDS)},
        "measured_as": _joined(_longest_first(theirs, "as")),
        "kernels": _joined(_longest_first(theirs, "kernel"), most=3, length=140),
        "matched_by": str(by_way.idxmax()) if len(by_way) else "none",
        "launches": float(theirs["count"].sum()) / steps,
        "measured_s": float(theirs["time_s"].sum()),
    }


def _left_over(theirs: pd.DataFrame, steps: float) -> list[dict[str, object]]:
    """Rows of launches without a predicted operator; the longest operators or kernels get one row
    each, the rest share rows.
    """
    if not len(theirs):
        return []
    groups = theirs.fillna({"class": ""}).groupby(["class", "as"], sort=False)
    longest = groups["time_s"].sum().sort_values(ascending=False)
    names = {key: key[1] if at < _MOST_ROWS else "" for at, key in enumerate(longest.index)}
    keys = [
        (str(c), names[c, a]) for c, a in zip(theirs["class"].fillna(""), theirs["as"], strict=True)
    ]
    parted = theirs.assign(key=pd.Series(keys, theirs.index, dtype=object))
    nothing = {"name": NOTHING, "runs": 0.0, "bound_s": 0.0, "predicted_s": 0.0}
    rows = []
    for (name, _), rest in parted.groupby("key", sort=False):
        row = _launched({"class": name or None, **nothing, **dict.fromkeys(ENDS, 0.0)}, rest, steps)
        rows.append(row | {"matched_by": "none"})
    return sorted(rows, key=lambda row: -float(str(row["measured_s"])))


def _longest_first(theirs: pd.DataFrame, column: str) -> pd.Series:
    """Names in a column by the time of their launches."""
    sums = theirs.groupby(column, observed=True)["time_s"].sum().sort_values(ascending=False)
    return pd.Series(sums.index.astype(str))


def _joined(names: pd.Series, most: int = 4, length: int = 60) -> str:
    """Up to `most` different names of up to `length` characters in one text, and how many more
    there are.
    """
    unique = [shortened(str(name), length) for name in dict.fromkeys(names)]
    more = f" and {len(unique) - most} more" if len(unique) > most else ""
    return ", ".join(unique[:most]) + more


def split_by_shape(operators: pd.DataFrame, reports: Sequence[Report]) -> pd.DataFrame:
    """The operator table with the matrix products of traces split by their shapes.

    Args:
        reports: those that the table was made from; products without shapes are left unchanged.
    """
    tables = [_shapes(report, phase) for report in reports for phase in ("prefill", "decode")]
    shapes = pd.concat([table for table in tables if len(table)] or [pd.DataFrame()])
    if not len(shapes):
        return operators
    taken = shapes.groupby(["phase", "operator"])[["time_s", "count"]].sum()
    rest = operators.copy()
    for (phase, operator), shaped_sums in taken.iterrows():
        rows = rest.index[(rest["phase"] == phase) & (rest["name"] == operator)]
        if len(rows):
            left = rest.loc[rows[0], ["time_s", "count"]].astype(float) - shaped_sums
            rest.loc[rows[0], "time_s"] = max(float(left["time_s"]), 0.0)
            rest.loc[rows[0], "count"] = max(int(left["count"]), 0)
    rest = rest[rest["time_s"] > 1e-12]
    shaped = shapes.assign(
        name=[
            f"{row.operator} {f'{row.batch}×' if row.batch > 1 else ''}{row.m}×{row.n}×{row.k}"
            for row in shapes.itertuples()
        ],
        kind="gemm",
        **{"class": "gemm"},
    )
    return pd.concat([rest, shaped.reindex(columns=rest.columns)], ignore_index=True)


def _shapes(report: Report, phase: str) -> pd.DataFrame:
    """`gemm_table` of one phase of a trace; empty for reports of other tools."""
    if report.tool != "torch" or not len(report.kernels):
        return pd.DataFrame()
    kernels = report.kernels[report.kernels["phase"] == phase]
    if not len(kernels):
        return pd.DataFrame()
    products = kernels[kernels["operator_class"].isin(["gemm", "gemv"])]
    return gemm_table(dataclasses.replace(report, kernels=products)).assign(phase=phase)
