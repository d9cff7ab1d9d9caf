"""The looks at a live server's metrics page, and at a log of requests that grows beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from app.watching.pages import Look
from genz_core.errors import MeasurementError, ReportError
from genz_core.progress import Cancel, never
from profilers.collect.serving import addresses
from profilers.serving_results import (
    Lengths,
    MeasuredLoad,
    ServingMeasurement,
    Subject,
    read_results,
)
from profilers.serving_results.samples import distribution

_NAP_S = 0.2


def follow(
    address: str,
    every_s: float,
    seconds: float = 0.0,
    cancelled: Cancel = never,
    clock: Callable[[], float] = time.time,
) -> Iterator[Look]:
    """Looks at the page of a server, one in every so many seconds; a page that is away is a look.

    seconds: in all; 0 until it is cancelled.
    """
    end = time.monotonic() + seconds if seconds else float("inf")
    following = time.monotonic()
    while not cancelled():
        at = clock()
        try:
            yield Look(at, addresses.page(address, "metrics"))
        except MeasurementError as error:
            yield Look(at, why=str(error))
        following = max(following + every_s, time.monotonic())
        if following > end:
            return
        while time.monotonic() < following and not cancelled():
            time.sleep(min(_NAP_S, max(following - time.monotonic(), 0.0)))


class RequestLog:
    """A log of requests that a server or client appends to, read as it grows.

    What a window has of it are the rows that were not there before.  A log that is shorter than it
    was began anew, and is read from its start.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._read = path, 0
        self._rows()  # refuses what is no log before anything is watched

    def _rows(self) -> pd.DataFrame:
        [found] = read_results(self.path)[:1]
        if found.requests is None:
            raise ReportError(f"{self.path.name} lists no requests: give a log with a row each")
        return found.requests

    def __call__(self) -> ServingMeasurement | None:
        """What the rows that are new say, None where there are none."""
        try:
            rows = self._rows()
        except (ReportError, OSError):
            return None  # a line that is being written
        if len(rows) < self._read:
            self._read = 0
        new, self._read = rows.iloc[self._read :], len(rows)
        answered = new[new["ok"]]
        return None if answered.empty else measured(answered)


def measured(rows: pd.DataFrame) -> ServingMeasurement:
    """What requests that were answered came to."""
    lengths = Lengths(distribution(rows["isl"]), distribution(rows["osl"]))
    return ServingMeasurement(
        "request log",
        Subject("request log"),
        load=MeasuredLoad(completed=len(rows)),
        lengths=lengths,
    ).with_latencies({name: distribution(rows[name]) for name in ("ttft_s", "tpot_s", "e2e_s")})
