"""Gaps of a report: times when a device ran neither a kernel nor a copy, with their
likely cause.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from profilers.schema import Report
from profilers.timeline.idle import gap_causes, wait_ends

#: Columns of the table and their meaning.
_COLUMNS = ("device", "start_s", "duration_s", "cause", "before", "after")
_PARTS = ("device", "start_s", "end_s", "launch_s", "in_graph", "name")


def gaps(report: Report, most: int = 100) -> pd.DataFrame:
    """The longest gaps of each device, the longest first: at most `most` rows.

    Columns: device (<NA> where the report names none), start_s and duration_s on the report's
    clock, cause (a key of `profilers.timeline.idle.CAUSES`), before and after: names of what ran.
    """
    events = _events(report)
    tables = [_of_device(rows, report) for _, rows in events.groupby("device", dropna=False)]
    if not tables:
        return pd.DataFrame(columns=list(_COLUMNS))
    found = pd.concat(tables, ignore_index=True)
    return found.nlargest(most, "duration_s").reset_index(drop=True)


def _events(report: Report) -> pd.DataFrame:
    """Kernels and copies with a place in time, in the order of their starts."""
    kernels = report.kernels.assign(in_graph=report.kernels["in_graph"].fillna(False))
    copies = report.copies.rename(columns={"kind": "name"}).assign(launch_s=np.nan, in_graph=False)
    tables = []
    for table in (kernels, copies):
        timed = table.dropna(subset=["start_s", "duration_s"])
        timed = timed.assign(
            end_s=timed["start_s"] + timed["duration_s"],
            name=timed["name"].astype(object),
            in_graph=timed["in_graph"].astype(bool),
        )
        tables.append(timed[list(_PARTS)])
    filled = [table for table in tables if len(table)] or tables[:1]
    return pd.concat(filled, ignore_index=True).sort_values("start_s", kind="stable")


def _of_device(events: pd.DataFrame, report: Report) -> pd.DataFrame:
    start, end = events["start_s"].to_numpy(), events["end_s"].to_numpy()
    reach = np.maximum.accumulate(end)
    at = np.flatnonzero(start[1:] > reach[:-1]) + 1
    gap_start, gap = reach[at - 1], start[at] - reach[at - 1]
    kinds = events["in_graph"].to_numpy(dtype=np.int64)[at]
    causes = gap_causes(gap_start, gap, events["launch_s"].to_numpy()[at], kinds, wait_ends(report))
    last = np.maximum.accumulate(np.where(end >= reach, np.arange(len(end)), 0))
    names = events["name"].to_numpy()
    table = pd.DataFrame(
        {
            "start_s": gap_start,
            "duration_s": gap,
            "cause": causes,
            "before": names[last[at - 1]],
            "after": names[at],
        }
    )
    device = pd.Series([events["device"].iloc[0]] * len(table), dtype="Int64")
    table.insert(0, "device", device)
    return table
