"""The program of a deployment: the numbers of an estimate as one function of the workload's
sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from genz_core.alone.kernels import Kernels
from genz_core.alone.steps import Phase, sizes_of, weighted_sum
from genz_core.alone.straight import straight
from genz_core.capacity.memory import (
    HELD,
    OPERANDS,
    Memory,
    activations_bytes,
    end_of,
    on_device,
    prefill_chunk,
)
from genz_core.compiled.kinds import Kind
from genz_core.compiled.plan import Plan
from genz_core.compiled.pricing import plan_of
from genz_core.deployment import Deployment
from genz_core.graphs import Graph
from genz_core.schedule import (
    NODES,
    WEIGHTS,
    chunk_nodes,
    context,
    reading_engine,
)
from genz_core.steps.step_correction import StepCorrection, corrected, least_scale
from genz_core.steps.step_estimate import Figures, Laid, StepEstimate
from genz_core.symbolic.formulas import Formulas
from genz_core.symbolic.programs import Program, Rows
from genz_core.types import Array, Group, Parallelism, Workload

NAMES = ("batch", "new", "cached", "isl", "osl", "said_steps", "said_wait")
_FIGURES = ("stage_s", "wait_s", "least_s", "host_s", "learned_s")


@dataclass(frozen=True, slots=True)
class Alone:
    """A single priced configuration: its corrected steps, and its memory."""

    prefill: StepEstimate
    decode: StepEstimate
    correction: StepCorrection
    memory: Memory


@dataclass(frozen=True, slots=True)
class StepsProgram:
    """The program of a deployment for prompts that take one step, or several.

    rows: of its results: `unless` conditions that must not hold, the memory, the correction, the
    operators and `_FIGURES` of both steps, and the numbers of chunks.
    """

    run: Callable[..., tuple[Any, ...]]
    rows: Rows
    unless: int
    graphs: tuple[Graph, Graph]
    runs: tuple[Array, Array]
    cut: bool

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism, cut: bool) -> StepsProgram | None:
        formulas = Formulas(arrays=True)
        least = {"cached": 0.0, "new": float(np.nextafter(1.0, np.inf))}
        sizes: dict[str, Any] = {
            name: formulas.size(name, least.get(name, 1.0)) for name in NAMES[:5]
        }
        said: Any = [formulas.size(name, -np.inf) for name in NAMES[5:]]
        batch, new, cached, isl, osl = sizes.values()
        unless: list[Any] = []
        kernels = Kernels(formulas)
        prompts: Any = Group(batch, new, cached, prompt=isl)
        outputs: Any = [Group(batch, 1.0, context(isl, osl, n), prompt=isl) for n in NODES]
        read: list[tuple[Any, Any]] = [(prompts, 1.0)]
        if cut:
            of_rank = prompts.of_rank(split.dp)
            read = chunk_nodes(prompts, of_rank, split.cp, reading_engine(deployed))
            unless += [np.less_equal(chunk.new_tokens, 1.0) for chunk, _ in read]
        kinds = Kind(True, fullest=cut), Kind(False)
        plans = [plan_of(deployed, split, kind) for kind in (*kinds, Kind(True))]
        first, later, whole = plans
        if first is None or later is None or whole is None:
            return None
        phases = [
            Phase.of(plan, nodes, kernels, unless)
            for plan, nodes in ((first, read), (later, list(zip(outputs, WEIGHTS, strict=True))))
        ]
        if cut:
            phases[0].least = Phase.of(whole, [(prompts, 1.0)], kernels, unless).least_s()
        times = kernels.times()
        steps = [
            phase.step(times, deployed, split, reads=reads)
            for phase, reads in zip(phases, (True, False), strict=True)
        ]
        totals = [step.total_s for step in steps]
        has_runs = deployed.engine.neighbours is not None
        scale = least_scale(totals[1], steps[1].least_s)
        learned: Any = corrected(deployed.engine.recipe, said if has_runs else None, scale)
        for step, total, reads in zip(steps, totals, (True, False), strict=True):
            corrects = learned.seconds(total, step.host_s, step.least_s, reads=reads)
            step.learned_s = corrects - total
        held = _memory(deployed, sizes, split, later, whole)
        numbers = [*unless, *held, learned.steps, learned.prompts, learned.wait]
        for step in steps:
            numbers += [*step.expected_s, *(getattr(step, name) for name in _FIGURES)]
        numbers += [times for _, times in read]
        program = Program.of(formulas, numbers)
        return cls(
            straight(program, NAMES),
            Rows.of(numbers, program),
            len(unless),
            (first.graph, later.graph),
            (first.runs, later.runs),
            cut,
        )

    def values(self, *sizes: float) -> Array | None:
        """The program's results for some sizes, [numbers, 1]; None if an `unless` condition
        holds.
        """
        values = self.rows.taken(np.array(self.run(*sizes))[:, None])
        return None if self.unless and values[: self.unless].any() else values[self.unless :]

    def made(self, deployed: Deployment, values: Array, steps: Any) -> Alone:
        """The estimate made from a program's results."""
        held, learned = values[:3], StepCorrection(*values[3:6])
        lazily, weights = _Once(steps), values[-2:] if self.cut else None
        made: list[StepEstimate] = []
        for at, (graph, runs) in enumerate(zip(self.graphs, self.runs, strict=True)):
            expected, figures = self._step(values, at)
            of_nodes = weights if at == 0 else WEIGHTS[:, None]
            each = np.ones(1) if at or weights is None else weights.sum(axis=0)
            made.append(
                StepEstimate(
                    laid=Laid(graph, partial(lazily.graph, at)),
                    system=deployed.system,
                    engine=deployed.engine,
                    figures=Figures(partial(lazily.figures, at)),
                    runs=runs,
                    expected_s=expected,
                    stages=each,
                    micro_batches=each,
                    node_weights=of_nodes,
                    **figures,
                )
            )
        first, later = made
        return Alone(first, later, learned, on_device(deployed, *held))

    def step_seconds(self, values: Array, at: int) -> tuple[Array, Array, Array]:
        """Uncorrected time of a step, the host's part of it, and its lower bound [s], [1] each."""
        expected, figures = self._step(values, at)
        operators: Array = (self.runs[at][:, None] * expected).sum(axis=0)
        host: Array = figures["host_s"]
        return operators + figures["wait_s"] + host, host, figures["least_s"]

    def _step(self, values: Array, at: int) -> tuple[Array, dict[str, Any]]:
        """Expected times of the operators of a step, and its `_FIGURES`, among the results."""
        start = 6 + at * (len(self.runs[0]) + len(_FIGURES))
        end = start + len(self.runs[at])
        return values[start:end], dict(zip(_FIGURES, values[end:], strict=False))


class _Once:
    """Steps priced as arrays on first use, for details that the program does not compute."""

    def __init__(self, steps: Callable[[], tuple[StepEstimate, StepEstimate]]) -> None:
        self._steps = steps

    @cached_property
    def _priced(self) -> tuple[StepEstimate, StepEstimate]:
        return self._steps()

    def graph(self, at: int) -> Graph:
        """The graph of one of the steps."""
        return self._priced[at].graph

    def figures(self, at: int) -> Array:
        """The figures of its operators."""
        return self._priced[at].figures.array


def _memory(
    deployed: Deployment,
    sizes: Mapping[str, Any],
    split: Parallelism,
    decodes: Plan,
    reads: Plan,
) -> tuple[Any, Any, Any]:
    """Weights, cache and activations in bytes, as `genz_core.capacity.memory.memory`."""
    end = end_of(sizes, deployed.engine)
    prompts = Workload(sizes["batch"], sizes["isl"])
    (chunk,) = prefill_chunk(prompts, deployed.engine, split.dp).groups
    held = decodes.numbers(HELD, sizes_of(end))
    runs = decodes.by_stage[0]
    weights, cache = (weighted_sum(runs, row) for row in held)
    return weights, cache, activations_bytes(reads.graph, reads.numbers(OPERANDS, sizes_of(chunk)))
