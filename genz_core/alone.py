"""One configuration at a time: `genz_core.estimate` of numbers, on plain floats.

The formulas of chunks, memory, plans, kernels and the correction run once on symbols for a model,
system, engine and split.  What they leave is one program of the workload's sizes, which runs as
straight-line Python (`genz_core.straight`).  Kernels of one formula are evaluated in one call where
they try ways.  What a program does not cover (pipelines, overlap, sizes that change more than
numbers) is priced as an array of length one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np

from genz_core.compiled.kinds import Kind
from genz_core.compiled.parts import Part
from genz_core.compiled.plan import Plan
from genz_core.compiled.pricing import plan_of
from genz_core.deployment import Deployment
from genz_core.diffusion import denoising
from genz_core.errors import RidgelineError
from genz_core.formulas import Formulas
from genz_core.latency.kernel_time import KernelTime, worked
from genz_core.measured_runs import SIZES
from genz_core.memo import ByIdentity
from genz_core.memory import (
    HELD,
    OPERANDS,
    Memory,
    activations_bytes,
    end_of,
    on_device,
    prefill_chunk,
)
from genz_core.programs import Program, Rows
from genz_core.schedule import (
    NODES,
    WEIGHTS,
    chunk_nodes,
    context,
    most_tokens,
    reading_engine,
)
from genz_core.step import Figures, Laid, StepEstimate
from genz_core.step_correction import StepCorrection, corrected, least_scale, taught
from genz_core.straight import straight
from genz_core.symbols import Symbol, Unresolved, as_array, item, key_of
from genz_core.types import Array, Graph, Group, Num, Parallelism, Workload
from genz_core.validity import check

#: Calls of a deployment that are priced as arrays before it is worth a program of its own.
WORTH = 10
_NAMES = ("batch", "new", "cached", "isl", "osl", "said_steps", "said_wait")
_FIGURES = ("stage_s", "wait_s", "least_s", "host_s", "learned_s")
#: Prefill and decode of a workload, as arrays.
Steps = Callable[[Deployment, Workload, Parallelism], tuple[StepEstimate, StepEstimate]]


@dataclass(frozen=True, slots=True)
class Alone:
    """One configuration, priced: its steps with the correction in them, and its memory."""

    prefill: StepEstimate
    decode: StepEstimate
    correction: StepCorrection
    memory: Memory


def priced(
    deployed: Deployment,
    workload: Workload,
    split: Parallelism,
    steps: Steps,
) -> Alone | None:
    """A workload of one configuration; None where it is to be priced, or refused, as an array.

    steps: prices prefill and decode as arrays, for what only they tell.
    """
    sizes = (workload.batch, workload.isl, workload.osl, workload.cached)
    if any(np.ndim(size) for size in sizes):
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
    return programs.priced(load, lambda: steps(deployed, load, split))


@dataclass(slots=True)
class _Asked:
    """How often a deployment was asked for, and its programs once that is worth it."""

    times: int = 0
    tried: bool = False
    made: _Programs | None = None

    def programs(self, deployed: Deployment, split: Parallelism) -> _Programs | None:
        """The programs; None where there are none, or none yet."""
        self.times += 1
        if self.times > WORTH and not self.tried:
            self.made, self.tried = _Programs.of(deployed, split), True
        return self.made


_ASKED: ByIdentity[_Asked] = ByIdentity(256)


@dataclass(frozen=True, slots=True)
class _Programs:
    """The programs of a deployment.

    exceeds: whether prompts are read in more than one step; None: they never are.
    made: the program of prompts that are, or are not, once it was needed; None: there is none.
    """

    deployed: Deployment
    split: Parallelism
    exceeds: Callable[..., tuple[Any, ...]] | None
    made: dict[bool, _Program | None] = field(default_factory=dict)

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism) -> _Programs | None:
        """None where plans do not tell the whole price."""
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
            sizes: dict[str, Any] = {name: formulas.size(name, 1.0) for name in _NAMES}
            of_rank = Group(sizes["batch"], sizes["new"], 0.0).of_rank(split.dp)
            most = most_tokens(sizes["new"], reading_engine(deployed))
            exceeds = straight(Program.of(formulas, [of_rank * sizes["new"] > most]), _NAMES)
        return cls(deployed, split, exceeds)

    def _program(self, cut: bool) -> _Program | None:
        if cut not in self.made:
            try:
                self.made[cut] = _Program.of(self.deployed, self.split, cut)
            except (Unresolved, RidgelineError):
                self.made[cut] = None
        return self.made[cut]

    def priced(self, load: Workload, steps: Callable[[], Any]) -> Alone | None:
        """A load of numbers that can run."""
        batch, isl, osl, cached = map(float, (load.batch, load.isl, load.osl, load.cached))
        sizes = (batch, new := isl - cached, cached, isl, osl)
        exceeds = self.exceeds is not None and any(self.exceeds(*sizes, 0.0, 0.0))
        program = self._program(exceeds)
        if program is None:
            return None
        deployed, split = self.deployed, self.split
        numbers = {"isl": isl, "osl": osl, "concurrency": batch}
        where = np.array([[numbers.get(name) or getattr(split, name) for name in SIZES]])
        said = taught(deployed.engine, deployed.model, deployed.system, where, np.array([new]))
        try:
            values = program.values(*sizes, *((float(a[0]) for a in said) if said else (0.0, 0.0)))
        except (ArithmeticError, ValueError):
            return None
        return None if values is None else program.made(deployed, values, steps)


@dataclass(frozen=True, slots=True)
class _Program:
    """The program of a deployment for prompts that are read in one step, or in several.

    rows: of what it gives: `unless` conditions that must not hold, the memory, the correction,
    and of both steps the operators and `_FIGURES`, and the numbers of chunks.
    """

    run: Callable[..., tuple[Any, ...]]
    rows: Rows
    unless: int
    graphs: tuple[Graph, Graph]
    runs: tuple[Array, Array]
    cut: bool

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism, cut: bool) -> _Program | None:
        formulas = Formulas(arrays=True)
        least = {"cached": 0.0, "new": float(np.nextafter(1.0, np.inf))}
        sizes: dict[str, Any] = {
            name: formulas.size(name, least.get(name, 1.0)) for name in _NAMES[:5]
        }
        said: Any = [formulas.size(name, -np.inf) for name in _NAMES[5:]]
        batch, new, cached, isl, osl = sizes.values()
        unless: list[Any] = []
        kernels = _Kernels(formulas)
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
            _Phase.of(plan, nodes, kernels, unless)
            for plan, nodes in ((first, read), (later, list(zip(outputs, WEIGHTS, strict=True))))
        ]
        if cut:
            phases[0].least = _Phase.of(whole, [(prompts, 1.0)], kernels, unless).least_s()
        times = kernels.times()
        steps = [phase.step(times, deployed, split) for phase in phases]
        totals = [step.total_s for step in steps]
        has_runs = deployed.engine.neighbours is not None
        scale = least_scale(totals[1], steps[1].least_s)
        learned: Any = corrected(deployed.engine.recipe, said if has_runs else None, scale)
        for step, total, reads in zip(steps, totals, (True, False), strict=True):
            corrects = learned.seconds(total, step.host_s, step.least_s, reads=reads)
            step.learned_s = corrects - total
        held = _memory(deployed, sizes, later, whole)
        numbers = [*unless, *held, learned.steps, learned.prompts, learned.wait]
        for step in steps:
            numbers += [*step.expected_s, *(getattr(step, name) for name in _FIGURES)]
        numbers += [times for _, times in read]
        program = Program.of(formulas, numbers)
        return cls(
            straight(program, _NAMES),
            Rows.of(numbers, program),
            len(unless),
            (first.graph, later.graph),
            (first.runs, later.runs),
            cut,
        )

    def values(self, *sizes: float) -> Array | None:
        """What the program gives for sizes, [numbers, 1]; None where a condition holds."""
        values = self.rows.taken(np.array(self.run(*sizes))[:, None])
        return None if self.unless and values[: self.unless].any() else values[self.unless :]

    def made(self, deployed: Deployment, values: Array, steps: Any) -> Alone:
        """The estimate that the numbers of a program are of."""
        held, learned, start = values[:3], StepCorrection(*values[3:6]), 6
        lazily, weights = _Once(steps), values[-2:] if self.cut else None
        made: list[StepEstimate] = []
        for at, (graph, runs) in enumerate(zip(self.graphs, self.runs, strict=True)):
            end = start + len(runs)
            figures = dict(zip(_FIGURES, values[end:], strict=False))
            start = end + len(_FIGURES)
            of_nodes = weights if at == 0 else WEIGHTS[:, None]
            each = np.ones(1) if at or weights is None else weights.sum(axis=0)
            made.append(
                StepEstimate(
                    laid=Laid(graph, partial(lazily.graph, at)),
                    system=deployed.system,
                    engine=deployed.engine,
                    figures=Figures(partial(lazily.figures, at)),
                    runs=runs,
                    expected_s=values[end - len(runs) : end],
                    stages=each,
                    micro_batches=each,
                    node_weights=of_nodes,
                    **figures,
                )
            )
        first, later = made
        return Alone(first, later, learned, on_device(deployed, *held))


class _Once:
    """Steps priced as arrays, once something asks for what only they tell."""

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


# ------------------------------------------------------------------------------- on symbols


def _memory(
    deployed: Deployment, sizes: Mapping[str, Any], decodes: Plan, reads: Plan
) -> tuple[Any, Any, Any]:
    """Weights, cache and activations in bytes, as `genz_core.memory.memory`."""
    end = end_of(sizes, deployed.engine)
    (chunk,) = prefill_chunk(Workload(sizes["batch"], sizes["isl"]), deployed.engine).groups
    held = decodes.numbers(HELD, _sizes(end))
    runs = decodes.by_stage[0]
    weights, cache = (_sum(runs, row) for row in held)
    return weights, cache, activations_bytes(reads.graph, reads.numbers(OPERANDS, _sizes(chunk)))


def _sizes(group: Group) -> dict[str, Any]:
    """Sizes by the names of plans."""
    return {
        "sequences": group.sequences,
        "new": group.new_tokens,
        "cached": group.cached_tokens,
        "prompt": group.prompt,
        "fullest": group.fullest,
    }


def _sum(weights: Sequence[Any] | Array, values: Sequence[Any]) -> Any:
    pairs = zip(weights, values, strict=True)
    return reduce(np.add, (value * weight for weight, value in pairs))


@dataclass(slots=True)
class _Step:
    """A step on symbols, as `StepEstimate`."""

    expected_s: list[Any]
    stage_s: Any
    wait_s: Any
    least_s: Any
    host_s: Any
    operators_s: Any
    learned_s: Any = 0.0

    @property
    def total_s(self) -> Any:
        return self.operators_s + self.wait_s + self.host_s


@dataclass(slots=True)
class _Phase:
    """A step at its nodes: (group, weight) each, and of each part its bounds and kernels there."""

    plan: Plan
    nodes: list[tuple[Any, Any]]
    parts: list[tuple[Part, list[tuple[list[Any], dict[int, _Asks]]]]]
    least: Any = None

    @classmethod
    def of(
        cls, plan: Plan, nodes: list[tuple[Any, Any]], kernels: _Kernels, unless: list[Any]
    ) -> _Phase:
        parts = []
        for part in plan.parts:
            at_nodes = []
            for group, _ in nodes if part.nodes else nodes[:1]:
                results = part.program(_sizes(group))
                limits, variants = part.limits.numbers(results), part.runs.size
                bounds = [reduce(np.maximum, limits[at::variants]) for at in range(variants)]
                at_nodes.append((bounds, dict(kernels.ask(part, results))))
            parts.append((part, at_nodes))
        unless += [reads for group, _ in nodes for reads in plan.unless(_sizes(group))]
        return cls(plan, nodes, parts)

    def least_s(self) -> Any:
        """Least time of the step, see `Plan.price`."""
        return reduce(
            np.add,
            (
                _sum(part.runs[0], self._mean([bounds for bounds, _ in at_nodes]))
                for part, at_nodes in self.parts
            ),
        )

    def step(
        self, times: Mapping[Hashable, Any], deployed: Deployment, split: Parallelism
    ) -> _Step:
        """The step, once the kernels' times are known."""
        expected: list[Any] = [None] * len(self.plan.runs)
        stage: Any = 0.0
        for part, at_nodes in self.parts:
            mean = self._mean(
                [
                    [
                        part.at_least(asks[at].seconds(times) if at in asks else 0.0, bound)
                        for at, bound in enumerate(bounds)
                    ]
                    for bounds, asks in at_nodes
                ]
            )
            stage = stage + _sum(part.by_stage[0], mean)
            for row, variant in zip(part.rows, part.of, strict=True):
                expected[row] = mean[variant]
        engine, least = deployed.engine, self.least_s() if self.least is None else self.least
        hosts = [
            [engine.host_step_s + engine.sampling_s
             + engine.host_sequence_s * group.of_rank(split.dp)]
            for group, _ in self.nodes
        ]  # fmt: skip
        operators = _sum(self.plan.runs, expected)
        wait = np.maximum(least - operators, 0.0)
        return _Step(expected, stage, wait, least, self._mean(hosts)[0], operators)

    def _mean(self, at_nodes: list[list[Any]]) -> list[Any]:
        """Values at the nodes, by variant, summed with their weights."""
        if len(at_nodes) == 1:
            return at_nodes[0]
        weights = [weight for _, weight in self.nodes]
        return [_sum(weights, values) for values in zip(*at_nodes, strict=True)]


@dataclass(frozen=True, slots=True)
class _Asks:
    """A kernel that is asked for: its place among times, its launch and work."""

    key: Hashable
    launch_s: float
    work: Any

    def seconds(self, times: Mapping[Hashable, Any]) -> Any:
        return worked(times[self.key], self.launch_s, self.work)


class _Kernels:
    """Kernels that are asked for, by formula, so that all of one are evaluated at once."""

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._asked: dict[Hashable, tuple[KernelTime, dict[Hashable, list[Any]]]] = {}

    def ask(self, part: Part, results: Sequence[Any]) -> Iterator[tuple[int, _Asks]]:
        """The kernel of each variant of a part that has one."""
        for kernels in part.kernels:
            formula = kernels.kernel.formula
            _, alike = self._asked.setdefault(formula, (kernels.kernel, {}))
            for row, axes, launch_s, work in kernels.variants(results):
                key = tuple(map(key_of, axes))
                alike.setdefault(key, axes)
                yield row, _Asks((formula, key), launch_s, work)

    def times(self) -> dict[Hashable, Any]:
        """Time of every kernel's stages."""
        times: dict[Hashable, Any] = {}
        for formula, (kernel, alike) in self._asked.items():
            vary = [key for key, axes in alike.items() if any(isinstance(a, Symbol) for a in axes)]
            for key in alike.keys() - vary:
                sizes = (np.atleast_1d(axis) for axis in alike[key])
                times[formula, key] = float(kernel.stages(*sizes).total_s()[0])
            found = self._together(kernel, [alike[key] for key in vary]) if vary else []
            times |= {(formula, key): time for key, time in zip(vary, found, strict=True)}
        return times

    def _together(self, kernel: KernelTime, every: list[list[Any]]) -> list[Any]:
        """Times of kernels of one formula: on numbers, or on arrays where it tries ways."""
        formulas = self._formulas
        before = len(formulas.steps)
        one = kernel.stages(*map(_axis, every[0])).total_s()
        if not any(formulas.shapes[before:]) and np.ndim(one) == 0:
            return [one, *(kernel.stages(*map(_axis, axes)).total_s() for axes in every[1:])]
        packed = (as_array(formulas, values) for values in zip(*every, strict=True))
        time: Any = kernel.stages(*map(_axis, packed)).total_s()
        if np.ndim(time) == 0:
            return [time] * len(every)
        if not isinstance(time, Symbol):
            return list(np.broadcast_to(time, (len(every),)))
        last = time.size - 1
        return [
            formulas.result(item, time.plain(), min(at, last), least=time.least, shape=())
            for at in range(len(every))
        ]


def _axis(values: Num) -> Any:
    return values if isinstance(values, Symbol) else np.asarray(values, dtype=float)[()]
