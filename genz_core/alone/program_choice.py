"""Decides which configurations are priced by a program, and when a deployment's program is made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genz_core.alone.program import NAMES, Alone, StepsProgram
from genz_core.alone.straight import straight
from genz_core.common.memo import ByIdentity
from genz_core.deployment import Deployment
from genz_core.errors import RidgelineError
from genz_core.measured_runs import SIZES
from genz_core.models.diffusion import denoising
from genz_core.schedule import (
    most_tokens,
    reading_engine,
)
from genz_core.steps.step_correction import taught
from genz_core.steps.step_estimate import StepEstimate
from genz_core.symbolic.formulas import Formulas
from genz_core.symbolic.programs import Program
from genz_core.symbolic.symbols import Unresolved
from genz_core.types import Array, Group, Parallelism, Workload
from genz_core.validity import check

#: Calls of a deployment that are priced as arrays before it is worth a program of its own.
WORTH = 10
#: Prefill and decode of a workload, as arrays.
Steps = Callable[[Deployment, Workload, Parallelism], tuple[StepEstimate, StepEstimate]]


def priced(
    deployed: Deployment,
    workload: Workload,
    split: Parallelism,
    steps: Steps,
) -> Alone | None:
    """The estimate of a single configuration; None if it must be priced, or refused, as an array.

    steps: prices prefill and decode as arrays, for details that programs do not compute.
    """
    known = _programs(deployed, workload, split)
    if known is None:
        return None
    programs, load = known
    return programs.priced(load, lambda: steps(deployed, load, split))


def step_seconds(
    deployed: Deployment, workload: Workload, split: Parallelism, at: int
) -> tuple[Array, Array, Array] | None:
    """Time of a step without correction, the host's part of it, and its lower bound [s], [1] each;
    None as in `priced`.

    at: 0 for the prefill, 1 for the mean decode step.
    """
    known = _programs(deployed, workload, split)
    return known[0].step_seconds(known[1], at) if known else None


def _programs(
    deployed: Deployment, workload: Workload, split: Parallelism
) -> tuple[_Programs, Workload] | None:
    """The programs of a deployment, and a load that they can price."""
    sizes = (workload.batch, workload.isl, workload.osl, workload.cached)
    if any(not isinstance(size, float | int) and np.ndim(size) for size in sizes):
        return None
    try:
        asked = _ASKED.get(_Asked, deployed.model, deployed.system, deployed.engine, values=split)
        batch, isl, osl, cached = map(float, sizes)
    except (TypeError, OverflowError):
        return None
    if not (batch >= 1 and isl >= 1 and osl >= 1 and cached >= 0):
        return None
    if batch % 1 or isl % 1 or osl % 1 or cached % 1:  # NaN of what is not finite
        return None
    programs = asked.programs(deployed, split)
    cached = min(cached, isl - 1.0)
    if programs is None or isl - cached <= 1.0:
        return None
    load = Workload(batch, isl, osl, cached)
    return programs, load


@dataclass(slots=True)
class _Asked:
    """Counts the requests for a deployment, and holds its programs once making them is
    worthwhile.
    """

    times: int = 0
    tried: bool = False
    made: _Programs | None = None

    def programs(self, deployed: Deployment, split: Parallelism) -> _Programs | None:
        """The programs, compiled after `WORTH` uses; None before, or if they cannot be compiled."""
        self.times += 1
        if self.times > WORTH and not self.tried:
            self.made, self.tried = _Programs.of(deployed, split), True
        return self.made


_ASKED: ByIdentity[_Asked] = ByIdentity()


@dataclass(frozen=True, slots=True)
class _Programs:
    """The programs of a deployment.

    exceeds: whether prompts take more than one step; None if they never do.
    made: the program for prompts that do, or that do not, once needed; None if there is none.
    """

    deployed: Deployment
    split: Parallelism
    exceeds: Callable[..., tuple[Any, ...]] | None
    made: dict[bool, StepsProgram | None] = field(default_factory=dict)

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism) -> _Programs | None:
        """The programs of a deployment; None if its plans do not cover the whole price."""
        degrees = (getattr(split, name) for name in split.__slots__)
        if any(np.ndim(degree) for degree in degrees if not isinstance(degree, tuple)):
            return None
        if split.pp != 1 or denoising(deployed.model) or deployed.placement is not None:
            return None
        try:
            if check(deployed.model, Workload(), split).complaints:
                return None
        except RidgelineError:
            return None
        exceeds = None
        if deployed.engine.chunk_tokens:
            formulas = Formulas()
            sizes: dict[str, Any] = {name: formulas.size(name, 1.0) for name in NAMES}
            of_rank = Group(sizes["batch"], sizes["new"], 0.0).of_rank(split.dp)
            most = most_tokens(sizes["new"], reading_engine(deployed))
            exceeds = straight(Program.of(formulas, [of_rank * sizes["new"] > most]), NAMES)
        return cls(deployed, split, exceeds)

    def _program(self, cut: bool) -> StepsProgram | None:
        if cut not in self.made:
            try:
                self.made[cut] = StepsProgram.of(self.deployed, self.split, cut)
            except (Unresolved, RidgelineError):
                self.made[cut] = None
        return self.made[cut]

    def priced(self, load: Workload, steps: Callable[[], Any]) -> Alone | None:
        """The estimate of a load given as numbers that can run."""
        batch, isl, osl, cached = map(float, (load.batch, load.isl, load.osl, load.cached))
        deployed, split = self.deployed, self.split
        numbers = {"isl": isl, "osl": osl, "concurrency": batch}
        where = np.array([[numbers.get(name) or getattr(split, name) for name in SIZES]])
        new = np.array([isl - cached])
        said = taught(deployed.engine, deployed.model, deployed.system, where, new)
        found = self._values(load, *(float(a[0]) for a in said or ()))
        if found is None:
            return None
        program, values = found
        return program.made(deployed, values, steps)

    def step_seconds(self, load: Workload, at: int) -> tuple[Array, Array, Array] | None:
        """See the function of this name."""
        found = self._values(load)
        return found[0].step_seconds(found[1], at) if found else None

    def _values(
        self, load: Workload, said_steps: float = 0.0, said_wait: float = 0.0
    ) -> tuple[StepsProgram, Array] | None:
        """The program of a load and its results; said_*: expectations of measured runs."""
        batch, isl, osl, cached = map(float, (load.batch, load.isl, load.osl, load.cached))
        sizes = (batch, isl - cached, cached, isl, osl)
        exceeds = self.exceeds is not None and any(self.exceeds(*sizes, 0.0, 0.0))
        program = self._program(exceeds)
        if program is None:
            return None
        try:
            values = program.values(*sizes, said_steps, said_wait)
        except (ArithmeticError, ValueError):
            return None
        return None if values is None else (program, values)
