"""Single steps at many sizes, as a sweep measures them."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from profilers.spread import relative_spread

Phase = Literal["prefill", "decode"]
#: Decode steps a visit; a context of n is timed at n, n+1 ... n+3.
VISIT = 4
#: Steps of one sweep at most.
MOST_STEPS = 4096


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One step.  length: tokens of each prompt (prefill), or tokens in the cache (decode)."""

    phase: Phase
    batch: int
    length: int

    def __str__(self) -> str:
        return f"{self.phase} {self.batch} x {self.length}"


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step and its times; none where memory ran out, or would have.

    skipped: not tried, because a smaller one ran out of memory.
    """

    point: StepPoint
    samples_s: tuple[float, ...]
    out_of_memory: bool = False
    skipped: bool = False

    @property
    def status(self) -> str:
        if self.skipped:
            return "skipped"
        if self.out_of_memory:
            return "out_of_memory"
        return "ok" if self.samples_s else "not_run"

    @property
    def median_s(self) -> float:
        return statistics.median(self.samples_s) if self.samples_s else float("nan")

    @property
    def spread(self) -> float:
        return relative_spread(self.samples_s)

    @property
    def context(self) -> float:
        """Cached tokens of the middle one of the steps timed."""
        return self.point.length + (VISIT - 1) / 2.0 if self.point.phase == "decode" else 0.0
