"""Tables of a report: kernels by name, and the tree of ranges; and the difference of two
reports.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from profilers.readers.columns import range_paths
from profilers.schema import Report

#: More different kernels than any report has.
_ALL = 1_000_000
#: Smallest divisor of a share, so that kernels that took no time have a share of 0.
_LEAST_S = 1e-300


def kernels_table(kernels: pd.DataFrame, count: int = 500) -> pd.DataFrame:
    """The `count` kernels with the longest total time, summed by name.

    Args:
        kernels: a kernel table, see `profilers.schema.KERNEL_COLUMNS`.

    Returns:
        name, operator_class, phase, count (launches), time_s, mean_s and share (of the time of
        all kernels).
    """
    grouped = kernels.groupby("name", observed=True).agg(
        operator_class=("operator_class", "first"),
        phase=("phase", "first"),
        count=("count", "sum"),
        time_s=("duration_s", "sum"),
    )
    grouped["mean_s"] = grouped["time_s"] / grouped["count"]
    grouped["share"] = grouped["time_s"] / max(float(grouped["time_s"].sum()), _LEAST_S)
    ordered = grouped.nlargest(count, "time_s").reset_index()
    return ordered.astype({"name": str, "operator_class": str, "phase": object})


def ranges_table(report: Report, most: int = 1000) -> pd.DataFrame:
    """The tree of ranges around kernels, the first `most` paths in alphabetical order.

    Returns:
        path, depth (0: outermost), name, runs and host_s (of the ranges on that path; None and
        NaN where the report times none), launches and gpu_s (of the kernels inside).
    """
    totals = _kernels_inside(report.kernels)
    host = _host_times(report.ranges)
    rows = []
    for path, (launches, time_s) in sorted(totals.items()):
        runs, host_s = host.get(path, (None, float("nan")))
        rows.append(
            {
                "path": path,
                "depth": path.count("/"),
                "name": path.rpartition("/")[2],
                "runs": runs,
                "host_s": host_s,
                "launches": int(launches),
                "gpu_s": time_s,
            }
        )
    return pd.DataFrame(rows[:most])


def _host_times(ranges: pd.DataFrame) -> dict[str, tuple[int, float]]:
    """{path: (runs, seconds on the host)} of all ranges."""
    labels = ranges["name"].cat
    parent = ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    paths, _ = range_paths(
        labels.categories.tolist(), labels.codes.to_numpy(np.int64), parent, np.arange(len(ranges))
    )
    summed = ranges.groupby(paths, observed=True)[["count", "duration_s"]].sum()
    pairs = zip(summed["count"].tolist(), summed["duration_s"].tolist(), strict=True)
    return {str(path): pair for path, pair in zip(summed.index, pairs, strict=True)}


def _kernels_inside(kernels: pd.DataFrame) -> dict[str, list[float]]:
    """{path: [launches, seconds]} of the kernels in each range and in those nested in it."""
    totals: dict[str, list[float]] = {}
    paths = kernels.groupby("nvtx_path", observed=True)[["count", "duration_s"]].sum()
    for path, (launches, time_s) in zip(paths.index, paths.to_numpy(), strict=True):
        parts = str(path).split("/")
        for depth in range(1, len(parts) + 1):
            total = totals.setdefault("/".join(parts[:depth]), [0.0, 0.0])
            total[0] += launches
            total[1] += time_s
    return totals


def difference(before: Report, after: Report) -> pd.DataFrame:
    """Kernels of two reports by name, the largest change of time first.

    Returns:
        name, before_s, before_count, after_s, after_count, operator_class and change_s (after
        minus before); a kernel that one report lacks has 0 there.
    """
    sides = []
    for side, report in (("before", before), ("after", after)):
        table = kernels_table(report.kernels, _ALL).set_index("name")
        renamed = {"time_s": f"{side}_s", "count": f"{side}_count", "operator_class": f"{side}_as"}
        sides.append(table[list(renamed)].rename(columns=renamed))
    joined = sides[0].join(sides[1], how="outer")
    joined["operator_class"] = joined.pop("before_as").fillna(joined.pop("after_as"))
    joined = joined.fillna(
        {"before_s": 0.0, "after_s": 0.0, "before_count": 0, "after_count": 0}
    ).astype({"before_count": int, "after_count": int})
    joined["change_s"] = joined["after_s"] - joined["before_s"]
    order = joined["change_s"].abs().sort_values(ascending=False).index
    return joined.loc[order].reset_index()
