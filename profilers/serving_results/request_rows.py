"""Requests of a run, read one by one from a stream: their table and their distributions."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profilers.serving_results.measurement import (
    LATENCIES,
    REQUEST_COLUMNS,
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
)
from profilers.serving_results.samples import Samples

#: Most rows of a table; for a longer run only the distributions are kept.
MOST_ROWS = 500_000
#: Number of values that are passed on together.
_AT_ONCE = 1 << 14
_FIGURES = ("isl", "osl", "ttft_s", "tpot_s", "e2e_s")


@dataclass(frozen=True, slots=True)
class Request:
    """One request; None for what is not known.

    start_s: on any clock.  gaps_s: between its pieces.
    """

    start_s: float | None = None
    isl: float | None = None
    osl: float | None = None
    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None
    ok: bool = True
    gaps_s: Any = None


class RequestRows:
    """Collects requests in bounded memory."""

    def __init__(self) -> None:
        self.count = self.failed = 0
        self._columns = {name: array("d") for name in REQUEST_COLUMNS if name != "ok"}
        self._ok = array("b")
        self._samples = {name: Samples() for name in (*_FIGURES, "itl_s")}
        self._pending = {name: array("d") for name in self._samples}
        self._totals = {"isl": 0.0, "osl": 0.0}
        self._first, self._last = math.inf, -math.inf

    def add(self, request: Request) -> None:
        """Add a request; a failed one is left out of the distributions."""
        self.count += 1
        self.failed += not request.ok
        start = math.nan if request.start_s is None else request.start_s
        values = {name: getattr(request, name) for name in _FIGURES}
        if request.ok:
            self._distribute(request, values)
        if math.isfinite(start):
            self._first = min(self._first, start)
            self._last = max(self._last, start + (request.e2e_s or 0.0))
        if self.count > MOST_ROWS:
            return
        self._columns["arrival_s"].append(start)
        for name, value in values.items():
            self._columns[name].append(math.nan if value is None else value)
        self._ok.append(request.ok)

    def _distribute(self, request: Request, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if value is not None:
                self._pending[name].append(value)
        for side in self._totals:
            self._totals[side] += values[side] or 0.0
        if request.gaps_s is not None:
            self._pending["itl_s"].frombytes(np.asarray(request.gaps_s, np.float64).tobytes())
        if not self.count % _AT_ONCE or len(self._pending["itl_s"]) >= _AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        for name, pending in self._pending.items():
            self._samples[name].add(np.array(pending))
            del pending[:]

    def _spread(self, name: str) -> Percentiles:
        self._flush()
        return self._samples[name].percentiles()

    @property
    def duration_s(self) -> float | None:
        """Seconds from sending the first request to the last answer."""
        return self._last - self._first if self._last > self._first else None

    def table(self) -> pd.DataFrame | None:
        """One row per request; None where there are none, or more than the table may hold."""
        if not 0 < self.count <= MOST_ROWS:
            return None
        frame = pd.DataFrame({name: np.array(column) for name, column in self._columns.items()})
        frame["ok"] = np.array(self._ok, dtype=bool)
        if math.isfinite(self._first):
            frame["arrival_s"] -= self._first
        return frame

    def latencies(self) -> dict[str, Percentiles]:
        """The latencies of the requests that were answered, by field of a measurement."""
        return {name: self._spread(name) for name in LATENCIES}

    def lengths(self) -> Lengths:
        """Tokens of the requests that were answered."""
        return Lengths(self._spread("isl"), self._spread("osl"))

    def throughput(self) -> Throughput:
        """Rates of the answered requests over the duration."""
        seconds = self.duration_s
        if not seconds:
            return Throughput()
        isl, osl = self._totals["isl"] / seconds, self._totals["osl"] / seconds
        answered = (self.count - self.failed) / seconds
        known = isl if isl and osl else None
        return Throughput(answered, isl or None, osl or None, None if known is None else isl + osl)

    def load(self) -> MeasuredLoad:
        """How many requests were sent and answered, and in what time."""
        return MeasuredLoad(
            requests=self.count,
            completed=self.count - self.failed,
            errors=self.failed,
            duration_s=self.duration_s,
        )

    def run(
        self, format: str, tool: str, definitions: Mapping[str, str], *notes: str
    ) -> ServingMeasurement:
        """The run of a file that lists its requests and nothing else."""
        found = ServingMeasurement(
            format=format,
            subject=Subject(tool=tool),
            load=self.load(),
            lengths=self.lengths(),
            throughput=self.throughput(),
            definitions=definitions,
            requests=self.table(),
            notes=(*self.notes(), *notes),
        )
        return found.with_latencies(self.latencies())

    def notes(self) -> tuple[str, ...]:
        """Notes on how the figures were obtained."""
        if self.count <= MOST_ROWS:
            return ()
        return (
            f"of {self.count:,} requests the distributions are kept, not the rows: a table holds "
            f"{MOST_ROWS:,}",
        )
