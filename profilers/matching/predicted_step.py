"""A predicted step in the form that measurements are compared with."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genz_core.steps.step_estimate import StepEstimate
from profilers.matching.program import Planned, planned, planned_of_table

#: Rounding error allowed in differences of sums.
ROUNDING_S = 1e-12


@dataclass(frozen=True, slots=True)
class Expected:
    """A predicted step: its operators, and the time beside them [s].

    operators: `StepEstimate.table`, with low_s and high_s where the operators have intervals.
    low_s, high_s: ends of the interval of the whole step on a wall clock, NaN where there is none.
    program: the same operators in the order of the table, for joining; () to derive them from it.
    """

    operators: Mapping[str, Sequence[Any]]
    bound_s: float
    host_s: float
    wait_s: float
    low_s: float = math.nan
    high_s: float = math.nan
    program: tuple[Planned, ...] = ()

    @classmethod
    def from_step(cls, step: StepEstimate, config: int = 0) -> Expected:
        """A step without intervals.  config: the configuration of the estimate."""
        totals = (step.bound_total_s, step.host_s, step.pipeline_s)
        seconds = (float(values[config]) for values in totals)
        bound_s, host_s, wait_s = (0.0 if s < ROUNDING_S else s for s in seconds)
        program = planned(step, config)
        return cls(step.table(config), bound_s, host_s, wait_s, program=program)

    @property
    def planned(self) -> tuple[Planned, ...]:
        """The operators for joining, one per row of the table."""
        if len(self.program) == len(self.operators["name"]):
            return self.program
        return planned_of_table(self.operators)
