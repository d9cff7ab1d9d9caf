"""What a device does within a span of time, and the steps and phases in a report's time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from profilers.schema import Report
from profilers.timeline.busy import activity, busy_s, devices_of


@dataclass(frozen=True, slots=True)
class WindowStatistics:
    """Device activity within a span of time.

    span_s: its length.  launches: kernels that overlap it.  kernel_s: their summed time within it.
    busy_s: time in which a device runs a kernel or copy, the mean over devices.  by_name: one row
    per kernel name, the longest first: name, count, time_s, mean_s, longest_s, all within the span.
    """

    span_s: float
    launches: int
    kernel_s: float
    busy_s: float
    by_name: pd.DataFrame

    @property
    def idle_share(self) -> float:
        """Part of the span in which a device runs nothing, 0 to 1; NaN for an empty span."""
        return 1 - self.busy_s / self.span_s if self.span_s > 0 else float("nan")


def window_statistics(report: Report, start_s: float, end_s: float) -> WindowStatistics:
    """Statistics of what a report's devices did from `start_s` to `end_s` of its clock."""
    kernels = _within(report.kernels, start_s, end_s)
    copies = _within(report.copies, start_s, end_s)
    cut = (table.assign(duration_s=table["time_s"]) for table in (kernels, copies))
    busy = busy_s(activity(*cut), devices_of(report))
    by_name = (
        kernels.groupby("name", observed=True)["time_s"]
        .agg(count="size", time_s="sum", mean_s="mean", longest_s="max")
        .sort_values("time_s", ascending=False)
        .reset_index()
    )
    total_s = float(kernels["time_s"].sum())
    return WindowStatistics(end_s - start_s, len(kernels), total_s, busy, by_name)


def _timed(table: pd.DataFrame) -> pd.DataFrame:
    return table[(table["start_s"].notna() & table["duration_s"].notna()).to_numpy()]


def _within(table: pd.DataFrame, start_s: float, end_s: float) -> pd.DataFrame:
    """Rows of a table that overlap a span, cut to it: with `start_s` and `time_s`."""
    start = table["start_s"].to_numpy()
    end = start + table["duration_s"].to_numpy()
    inside = (end > start_s) & (start < end_s)
    begun = np.maximum(start[inside], start_s)
    return table[inside].assign(start_s=begun, time_s=np.minimum(end[inside], end_s) - begun)


def bands(report: Report) -> pd.DataFrame:
    """Steps and phases of a report as spans on the device, in the order of their starts.

    Columns: lane ("steps" or "phases"), name, phase ("" where unknown), start_s, duration_s.  A
    step spans the activity that it launched; a phase spans its launches up to those of the next
    phase.
    """
    kernels = _timed(report.kernels).sort_values("start_s", kind="stable")
    kernels = kernels.assign(
        end_s=kernels["start_s"] + kernels["duration_s"], word=kernels["phase"].astype(object)
    )
    steps = _steps(kernels, report.ranges)
    phased = kernels[kernels["word"].notna()]
    turn = (phased["word"] != phased["word"].shift()).cumsum()
    phases = _spans(phased, turn)
    phases = phases.assign(lane="phases", name=phases["phase"])
    found = [table for table in (phases, steps) if len(table)] or [phases]
    columns = ["lane", "name", "phase", "start_s", "duration_s"]
    return pd.concat(found, ignore_index=True)[columns]


def _steps(kernels: pd.DataFrame, ranges: pd.DataFrame) -> pd.DataFrame:
    launched = kernels[kernels["step"].notna()]
    steps = _spans(launched, launched["step"].astype("int64"))
    rows = steps.index.to_numpy(dtype=np.int64)
    names = ranges["name"].astype(object).to_numpy()[rows] if len(rows) else []
    return steps.assign(lane="steps", name=names).sort_values("start_s")


def _spans(kernels: pd.DataFrame, by: pd.Series) -> pd.DataFrame:
    spans = kernels.groupby(by.to_numpy()).agg(
        start_s=("start_s", "min"), end_s=("end_s", "max"), phase=("word", "first")
    )
    spans["duration_s"] = spans["end_s"] - spans["start_s"]
    return spans.assign(phase=spans["phase"].fillna("").astype(object))
