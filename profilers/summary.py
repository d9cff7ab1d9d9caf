"""What an import tells about a report, as plain values for JSON and cards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from profilers import time_spans
from profilers.attribution import LINKS
from profilers.kernel_classes import UNCLASSIFIED
from profilers.schema import Report


def summarise(report: Report) -> dict[str, Any]:
    """The report in figures; what it does not tell is None.

    devices: names, an empty one where the report gives none.
    kernel_count: launches (in a summary the sum of instances), copies and sets excluded.
    kernel_time_ns: sum of kernel durations.  busy_time_ns: union of all that devices did, copies
    and sets included; kernel_busy_time_ns: of kernels alone; busy_by_device_ns: by device.
    span_ns, idle_time_ns: from the first to the last device activity, and what of it was idle.
    launch_delay_ns: median from host call to kernel start.  host_time_ns: in runtime calls.
    unattributed_share: of kernel time, tied to no operator or range by a link.
    unclassified_share: of kernel time, whose names tell no operator class.
    """
    kernels = report.kernels
    return {
        "format": report.format,
        "tool": report.tool,
        "tool_version": report.tool_version,
        "label": report.label,
        "devices": [device.name for device in report.devices],
        "kernel_count": int(kernels["count"].sum()),
        "kernel_time_ns": _nanoseconds(kernels["duration_s"]),
        **_timeline(report),
        "copy_count": int(report.copies["count"].sum()),
        "copy_time_ns": _nanoseconds(report.copies["duration_s"]),
        "launch_delay_ns": _launch_delay(kernels),
        "host_time_ns": _nanoseconds(report.host["time_s"]),
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


def busy_time_ns(report: Report) -> int | None:
    """Time in which at least one device did something; None without a timeline."""
    return _union(_activity(report))


def _activity(report: Report) -> pd.DataFrame:
    """Kernels and copies that have a place on the timeline."""
    columns = ["device", "start_s", "duration_s"]
    parts = [report.kernels[columns], report.copies[columns]]
    activity = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    return activity.dropna(subset=["start_s", "duration_s"])


def _union(activity: pd.DataFrame) -> int | None:
    if not len(activity):
        return None
    start, duration = (
        np.rint(activity[name].to_numpy() * 1e9).astype(np.int64)
        for name in ("start_s", "duration_s")
    )
    return time_spans.union(start, start + duration)


def _timeline(report: Report) -> dict[str, Any]:
    activity = _activity(report)
    busy = _union(activity)
    first = activity["start_s"].min()
    last = (activity["start_s"] + activity["duration_s"]).max()
    span = None if busy is None else round((last - first) * 1e9)
    by_device = {
        str(device): _union(rows) for device, rows in activity.groupby("device", dropna=True)
    }
    return {
        "busy_time_ns": busy,
        "kernel_busy_time_ns": _union(report.kernels[["start_s", "duration_s"]].dropna()),
        "busy_by_device_ns": by_device,
        "span_ns": span,
        "idle_time_ns": None if busy is None or span is None else max(span - busy, 0),
    }


def _nanoseconds(seconds: pd.Series) -> int | None:
    """The sum, None where nothing has a time; an empty table took none."""
    if len(seconds) and not bool(seconds.notna().any()):
        return None
    return round(float(seconds.sum()) * 1e9)


def _launch_delay(kernels: pd.DataFrame) -> int | None:
    delays = (kernels["start_s"] - kernels["launch_s"]).dropna()
    return round(float(delays.median()) * 1e9) if len(delays) else None


def _top_kernel(kernels: pd.DataFrame) -> dict[str, Any] | None:
    """The name that took longest over all its launches."""
    if not len(kernels):
        return None
    top = top_kernels(kernels, 1)
    if not len(top):
        return None
    first = top.iloc[0]
    return {
        "name": str(first["name"]),
        "time_ns": round(float(first["time_s"]) * 1e9),
        "count": int(first["count"]),
    }


def _by(kernels: pd.DataFrame, column: str) -> dict[str, dict[str, int]]:
    """Launches and kernel time by a column, longest first; rows of unknown are left out."""
    grouped = kernels.groupby(column, observed=True)[["count", "duration_s"]].sum()
    grouped = grouped.sort_values("duration_s", ascending=False)
    return {
        str(name): {
            "kernel_count": int(row["count"]),
            "kernel_time_ns": round(row["duration_s"] * 1e9),
        }
        for name, row in grouped.iterrows()
    }


def _shares(kernels: pd.DataFrame, column: str) -> dict[str, float]:
    total = float(kernels["duration_s"].sum())
    grouped = kernels.groupby(column, observed=True)["duration_s"].sum()
    return {str(name): float(value) / total for name, value in grouped.items()} if total else {}


def _share(kernels: pd.DataFrame, rows: pd.Series) -> float | None:
    """Share of kernel time in some rows; None where no kernel has a time."""
    total = float(kernels["duration_s"].sum())
    return float(kernels["duration_s"][rows.to_numpy()].sum()) / total if total > 0 else None
