"""A report in figures: kernel counts and times, the timeline, shares by phase and class."""

from __future__ import annotations

from typing import Any

import pandas as pd

from profilers.operators.attribution import LINKS
from profilers.operators.kernel_classes import UNCLASSIFIED
from profilers.schema import Report
from profilers.timeline import time_spans
from profilers.timeline.busy import activity, busy_s, devices_of

#: Figures of the timeline.
_TIMES = (
    "busy_time_s", "kernel_busy_time_s", "busy_by_device_s", "span_s", "idle_time_s", "idle_share",
)  # fmt: skip


def summarise(report: Report) -> dict[str, Any]:
    """Figures of a report; None for those that the report does not hold.

    Returns:
        truncated: where the file breaks off, "" where it is complete.
        devices: names, an empty one where the report gives none.
        kernel_count: launches (in a summary the sum of instances), copies and sets excluded.
        kernel_time_s: sum of kernel durations.  busy_time_s: time in which a device runs anything,
        copies and sets included, the mean over devices; kernel_busy_time_s: of kernels alone;
        busy_by_device_s: of each device.
        span_s, idle_time_s: time from the first to the last device activity, and its idle part;
            idle_share: idle over span.
        launch_delay_s: median from host call to kernel start.  host_time_s: in runtime calls.
        unattributed_share: share of kernel time that no link ties to an operator or range.
        unclassified_share: share of kernel time of kernels whose names match no operator class.
    """
    kernels = report.kernels
    return {
        "truncated": report.truncated,
        "format": report.format,
        "tool": report.tool,
        "tool_version": report.tool_version,
        "label": report.label,
        "devices": [device.name for device in report.devices],
        "kernel_count": int(kernels["count"].sum()),
        "kernel_time_s": _total_s(kernels["duration_s"]),
        **_timeline(report),
        "copy_count": int(report.copies["count"].sum()),
        "copy_time_s": _total_s(report.copies["duration_s"]),
        "launch_delay_s": _launch_delay_s(kernels),
        "host_time_s": _total_s(report.host["time_s"]),
        "top_kernel": _top_kernel(kernels),
        "phases": _by(kernels, "phase"),
        "operator_classes": _by(kernels, "operator_class"),
        "attributed_by": _shares(kernels, "attributed_by"),
        "unattributed_share": _share(kernels, ~kernels["attributed_by"].isin(LINKS)),
        "unclassified_share": _share(kernels, kernels["operator_class"] == UNCLASSIFIED),
        "notes": list(report.notes),
    }


def top_kernels(kernels: pd.DataFrame, count: int = 20) -> pd.DataFrame:
    """Kernels by name with their launches, total time and share of it, longest first."""
    grouped = kernels.groupby("name", observed=True).agg(
        operator_class=("operator_class", "first"),
        count=("count", "sum"),
        time_s=("duration_s", "sum"),
    )
    grouped["share"] = grouped["time_s"] / grouped["time_s"].sum()
    return grouped.nlargest(count, "time_s").reset_index()


def _timeline(report: Report) -> dict[str, Any]:
    """Busy and idle times of the devices; None in a summary, which has no timeline."""
    active, devices = activity(report.kernels, report.copies), devices_of(report)
    kernels = activity(report.kernels)
    if not len(active):
        return dict.fromkeys(_TIMES) | {"busy_by_device_s": {}}
    ends = active["start_s"] + active["duration_s"]
    span_s = time_spans.resolved(ends.max() - active["start_s"].min())
    busy = busy_s(active, devices)
    idle_s = max(span_s - busy, 0.0)
    return {
        "busy_time_s": busy,
        "kernel_busy_time_s": busy_s(kernels, devices) if len(kernels) else None,
        "busy_by_device_s": {str(device): busy_s(active, [device]) for device in devices},
        "span_s": span_s,
        "idle_time_s": idle_s,
        "idle_share": idle_s / span_s if span_s else None,
    }


def _total_s(seconds: pd.Series) -> float | None:
    """The sum, None where no row has a time; 0 for an empty table."""
    if len(seconds) and not bool(seconds.notna().any()):
        return None
    return float(seconds.sum())


def _launch_delay_s(kernels: pd.DataFrame) -> float | None:
    delays = (kernels["start_s"] - kernels["launch_s"]).dropna()
    return float(delays.median()) if len(delays) else None


def _top_kernel(kernels: pd.DataFrame) -> dict[str, Any] | None:
    """The name with the most time over all its launches; None where the report times none."""
    sums = kernels.groupby("name", observed=True)[["count", "duration_s"]].sum()
    if not len(sums) or not bool((sums["duration_s"] > 0).any()):
        return None
    (name,) = sums["duration_s"].nlargest(1).index
    count, time_s = sums.loc[name]
    return {"name": str(name), "time_s": float(time_s), "count": int(count)}


def _by(kernels: pd.DataFrame, column: str) -> dict[str, dict[str, float]]:
    """Launches and kernel time by a column, longest first; rows without a value are left out."""
    grouped = kernels.groupby(column, observed=True)[["count", "duration_s"]].sum()
    grouped = grouped.sort_values("duration_s", ascending=False)
    return {
        str(name): {"kernel_count": int(row["count"]), "kernel_time_s": float(row["duration_s"])}
        for name, row in grouped.iterrows()
    }


def _shares(kernels: pd.DataFrame, column: str) -> dict[str, float]:
    """Share of kernel time by a column; none where no kernel has a time."""
    total = float(kernels["duration_s"].sum())
    grouped = kernels.groupby(column, observed=True)["duration_s"].sum()
    return {str(name): float(value) / total for name, value in grouped.items()} if total else {}


def _share(kernels: pd.DataFrame, rows: pd.Series) -> float | None:
    """Share of kernel time in some rows; None where no kernel has a time."""
    total = float(kernels["duration_s"].sum())
    return float(kernels["duration_s"][rows.to_numpy()].sum()) / total if total > 0 else None
