"""A report as a Chrome trace, for ui.perfetto.dev and chrome://tracing."""

from __future__ import annotations

import json
import re
from typing import Any

import pandas as pd

from profilers.schema import Report

#: Largest number of events in an exported trace; browsers are slow with more.
MAX_EVENTS = 200_000
#: The format counts in microseconds.
_MICROSECONDS = 1e6


def chrome_trace(report: Report) -> str:
    """Kernels, copies and ranges as the JSON of a Chrome trace: the first `MAX_EVENTS` by start.

    Each stream has a lane of kernels and copies, each thread a lane of ranges; rows without a start
    or a duration are left out.
    Source: "Trace Event Format", complete events (ph "X"; ts and dur in microseconds).
    """
    kernels = _events(report.kernels, "name", ("process", "device", "stream"), "kernel")
    copies = _events(report.copies, "kind", ("process", "device", "stream"), "copy")
    ranges = _events(report.ranges, "name", ("process", "thread"), "range")
    events = sorted(kernels + copies + ranges, key=lambda event: event["ts"])[:MAX_EVENTS]
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})


def _events(
    table: pd.DataFrame, named: str, lane: tuple[str, ...], kind: str
) -> list[dict[str, Any]]:
    """A complete event for each row that has a place on the timeline.

    named: column that holds the event's name.  lane: process, then the columns that name the lane.
    """
    timed = table.dropna(subset=["start_s", "duration_s"])
    places = timed[list(lane)].astype(object).where(timed[list(lane)].notna(), 0)
    lanes = [
        " ".join(f"{column} {value}" for column, value in zip(lane[1:], row[1:], strict=True))
        for row in places.to_numpy()
    ]
    start, length = (
        timed[column].to_numpy() * _MICROSECONDS for column in ("start_s", "duration_s")
    )
    names = timed[named].astype(object).fillna("unnamed")
    return [
        {
            "ph": "X", "cat": kind, "name": str(name), "ts": round(float(ts), 3),
            "dur": round(float(dur), 3), "pid": int(process), "tid": f"{kind} {place}",
        }
        for name, ts, dur, process, place in zip(
            names, start, length, places[lane[0]], lanes, strict=True
        )
    ]  # fmt: skip


def file_stem(report: Report) -> str:
    """The report's label as part of a file name: letters, digits, dots and dashes."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", report.label).strip("-.")[:80] or "report"
