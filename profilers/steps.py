"""Single prefill and decode steps of a sweep: their sizes and measured times."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Literal

from profilers.spread import relative_spread

Phase = Literal["prefill", "decode"]
#: Decode steps per visit; a context of n is timed at n, n+1 ... n+3.
VISIT = 4
#: Most steps of one sweep.
MOST_STEPS = 4096


@dataclass(frozen=True, slots=True)
class StepPoint:
    """Size of a step.  length: tokens of each prompt (prefill), or in the cache (decode)."""

    phase: Phase
    batch: int
    length: int

    def __str__(self) -> str:
        return f"{self.phase} {self.batch} x {self.length}"


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step with the times of its repeats [s].

    out_of_memory: memory ran out, or would have run out.  skipped: not tried, because a smaller
    step ran out of memory.  In both cases there are no times.
    """

    point: StepPoint
    samples_s: tuple[float, ...]
    out_of_memory: bool = False
    skipped: bool = False

    @property
    def status(self) -> str:
        """ "ok", "out_of_memory", "skipped" or "not_run"."""
        if self.skipped:
            return "skipped"
        if self.out_of_memory:
            return "out_of_memory"
        return "ok" if self.samples_s else "not_run"

    @property
    def median_s(self) -> float:
        """Median of the repeats [s]; NaN without any."""
        return statistics.median(self.samples_s) if self.samples_s else float("nan")

    @property
    def spread(self) -> float:
        """`relative_spread` of the repeats."""
        return relative_spread(self.samples_s)

    @property
    def context(self) -> float:
        """Mean number of cached tokens over the steps of a visit; 0 in prefill."""
        return self.point.length + (VISIT - 1) / 2.0 if self.point.phase == "decode" else 0.0
