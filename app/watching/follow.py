"""Samples of a live server's metrics page, and of a log of requests that grows with it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd

from app.watching.pages import Look
from genz_core.common.progress import Cancel, never
from genz_core.errors import MeasurementError, ReportError
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
    """Samples of a server's page at an interval; an unreachable page is a sample too.

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

    A window gets the rows that were appended since the last one.  A log that has become shorter
    was started again, and is read from its start.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._read = path, 0
        self._rows()  # refuses other files before the watch begins

    def _rows(self) -> pd.DataFrame:
        [found] = read_results(self.path)[:1]
        if found.requests is None:
            raise ReportError(f"{self.path.name} lists no requests: give a log with a row each")
        return found.requests

    def __call__(self) -> ServingMeasurement | None:
        """Figures of the new rows, None if there are none."""
        try:
            rows = self._rows()
        except (ReportError, OSError):
            return None  # a line that is not complete yet
        if len(rows) < self._read:
            self._read = 0
        new, self._read = rows.iloc[self._read :], len(rows)
        answered = new[new["ok"]]
        return None if answered.empty else measured(answered)


def measured(rows: pd.DataFrame) -> ServingMeasurement:
    """Figures of the answered requests."""
    lengths = Lengths(distribution(rows["isl"]), distribution(rows["osl"]))
    return ServingMeasurement(
        "request log",
        Subject("request log"),
        load=MeasuredLoad(completed=len(rows)),
        lengths=lengths,
    ).with_latencies({name: distribution(rows[name]) for name in ("ttft_s", "tpot_s", "e2e_s")})
