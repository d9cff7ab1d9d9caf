"""Busy time of devices, with one meaning in every table and figure: a device is busy while a kernel
or a copy runs on it, and several devices are busy for the mean of their times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from profilers.schema import Report
from profilers.timeline import time_spans

_COLUMNS = ["device", "start_s", "duration_s"]


def activity(*tables: pd.DataFrame) -> pd.DataFrame:
    """The rows of kernels and copies that have a place in time: device, start_s, duration_s [s]."""
    filled = [table[_COLUMNS] for table in tables if len(table)] or [tables[0][_COLUMNS]]
    return pd.concat(filled, ignore_index=True).dropna(subset=["start_s", "duration_s"])


def devices_of(report: Report) -> list[int]:
    """The devices on whose timeline a report has kernels, of copies where it has no kernels; none
    where it names no device.
    """
    for table in (report.kernels, report.copies):
        placed = activity(table)
        if len(placed):
            return sorted(int(device) for device in placed["device"].dropna().unique())
    return []


def busy_s(active: pd.DataFrame, devices: Sequence[int]) -> float:
    """Time in which a device runs anything, the mean over devices [s].

    Args:
        active: rows with device, start_s and duration_s; those without a device count on each.
        devices: of `devices_of`.
    """
    on = active["device"]
    parts = [active[(on.isna() | (on == device).fillna(False)).to_numpy()] for device in devices]
    return float(np.mean([_union_s(rows) for rows in parts or [active]]))


def _union_s(rows: pd.DataFrame) -> float:
    return time_spans.union_s(rows["start_s"].to_numpy(), rows["duration_s"].to_numpy())
