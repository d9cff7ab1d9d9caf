"""Compiled plans: a model, system, engine and split with everything but the sizes worked out.

A plan runs the formulas of the graph, of its bounds and of its kernels' arguments once, on
`Symbol`s: shape of the graph, constants, formats and branches are settled, and what is left are a
few results of the sizes.  A step is then those results, rows that are one of them times a factor,
and one call of each kernel's formula for all operators that share it.  What a decode step reads of
its context is priced at each context, the rest once.

Lanes are told apart by degrees and by whether they read prompts or decode; each kind has its plan.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from genz_core.deployment import Deployment
from genz_core.latency import Pricer
from genz_core.latency.kernel_time import KernelTime
from genz_core.latency.models import Phase, depends_on_phase
from genz_core.latency.numerics import chunked
from genz_core.latency.pricer import decoding, launched
from genz_core.latency.roofline import roofline
from genz_core.memo import ByIdentity
from genz_core.step import Laid, StepEstimate, of_busiest_rank, stage_runs
from genz_core.symbols import Formulas, Program, Rows, Symbol, Unresolved, results_of
from genz_core.types import DEGREES, Array, Graph, Group, Num, Op, Parallelism, Places, Step
from genz_core.validity import stack

_LANES = 2048  # at a time: what follows of them fits in a second-level cache
_WORTH = 32  # lanes of a kind for which a plan takes less than the graph of all kinds together
_MANY = 256  # lanes among which equal ones are worth finding
_DEGREES = (*DEGREES, "moe_tp", "expert_imbalance", "redundant_experts")
SPLIT = (*_DEGREES, "micro_batches")
#: What a plan prices of one run of each operator.
FIGURES = ("compute_s", "memory_s", "communication_s", "flops", "bytes")


@dataclass(frozen=True, slots=True)
class Lanes:
    """Steps of one group of sequences side by side.

    sequences, new, cached, prompt: as of `Group`, [nodes, lanes], or [1, lanes] where all nodes
    have the same.  fullest: likewise, or None.  split: degrees, numbers or [lanes].
    """

    sequences: Array
    new: Array
    cached: Array
    prompt: Array
    split: Parallelism
    fullest: Array | None = None

    @classmethod
    def of(cls, group: Group, split: Parallelism) -> Lanes:
        """Lanes of one node; the group's numbers are arrays [lanes] or numbers."""
        sizes = (group.sequences, group.new_tokens, group.cached_tokens, group.prompt)
        arrays = np.broadcast_arrays(*(np.atleast_1d(size) * 1.0 for size in sizes))
        return cls(*(array[None] for array in arrays), split)

    @property
    def nodes(self) -> int:
        """Steps of each lane."""
        return max(len(self.sequences), len(self.new), len(self.cached))

    @property
    def size(self) -> int:
        """Number of lanes."""
        return self.cached.shape[1]

    @property
    def sizes(self) -> dict[str, Array]:
        """The sizes by name."""
        named = {
            "sequences": self.sequences,
            "new": self.new,
            "cached": self.cached,
            "prompt": self.prompt,
        }
        return named if self.fullest is None else named | {"fullest": self.fullest}

    def of_rank(self) -> Array:
        """Sequences of the fullest attention rank, [nodes or 1, lanes]."""
        return Group(self.sequences, self.new, self.cached, fullest=self.fullest).of_rank(
            self.split.dp
        )

    def flat(self) -> tuple[Group, Parallelism]:
        """One group of all steps, and their degrees, [nodes x lanes]."""
        shape = (self.nodes, self.size)
        sizes = {name: np.broadcast_to(v, shape).ravel() for name, v in self.sizes.items()}
        group = Group(
            sizes["sequences"], sizes["new"], sizes["cached"],
            prompt=sizes["prompt"], fullest=sizes.get("fullest"),
        )  # fmt: skip
        varying: dict[str, Any] = {
            name: np.tile(getattr(self.split, name), self.nodes)
            for name in SPLIT
            if np.ndim(getattr(self.split, name))
        }
        return group, replace(self.split, **varying) if varying else self.split


@dataclass(frozen=True, slots=True)
class Priced:
    """Lanes priced, their nodes summed; all of one run of each operator but the last three.

    figures: `FIGURES`, [figures, ops, lanes].  expected_s: [ops, lanes].
    stage_s: of the slowest pipeline stage; least_s: of the step; [lanes].
    """

    figures: Array
    expected_s: Array
    stage_s: Array
    least_s: Array


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Operators whose times one formula gives.

    at: their rows in the part.  kernel: one of them, for its stages.  axes: of all, [axes x ops]
    rows.  work: [ops] rows, None where all have some.  launch_s: [ops, 1].
    """

    at: Places
    kernel: KernelTime
    axes: Rows
    work: Rows | None
    launch_s: Array

    @classmethod
    def of(cls, kernels: Mapping[int, KernelTime], places: Mapping[int, int]) -> _Kernels:
        every = list(kernels.values())
        axes = zip(*(kernel.axes for kernel in every), strict=True)
        work = [kernel.work for kernel in every]
        sure = all(w.least > 0 if isinstance(w, Symbol) else np.all(w > 0) for w in work)
        return cls(
            np.array(list(kernels), dtype=np.intp),
            every[0],
            Rows.of([size for axis in axes for size in axis], places),
            None if sure else Rows.of(work, places),
            np.array([np.ravel(kernel.launch_s)[0] for kernel in every], dtype=float)[:, None],
        )

    def seconds(self, results: Array) -> Array:
        """Times [s], [ops, lanes]; results: [results, lanes]."""
        fixed = not self.axes.factor[len(self.at) :].any()
        if self.kernel.repeats and fixed and results.shape[1] >= _MANY:
            time = self._of_distinct(results)
        else:
            axes = self.axes.taken(results)
            time = self._time(axes.reshape(-1, len(self.at), results.shape[1]))
        time += self.launch_s
        return time if self.work is None else np.where(self.work.taken(results) > 0, time, 0.0)

    def _of_distinct(self, results: Array) -> Array:
        """Times where the first axis repeats values and the others are constants."""
        ops, read = len(self.at), self.axes.at[: len(self.at)]
        time = np.empty((ops, results.shape[1]))
        for result in np.unique(read):
            rows = np.flatnonzero(read == result)
            values, of = np.unique(results[result], return_inverse=True)
            first = values * self.axes.factor[rows] + self.axes.constant[rows]
            rest = self.axes.constant[ops:].reshape(-1, ops, 1)[:, rows]
            time[rows] = self._time([first, *np.broadcast_to(rest, (len(rest), *first.shape))])[
                :, of
            ]
        return time

    def _time(self, axes: Sequence[Array] | Array) -> Array:
        flat = [axis.ravel() for axis in axes]
        stages = self.kernel.stages
        if flat[0].size <= self.kernel.chunk:
            return stages(*flat).total_s().reshape(axes[0].shape)
        seconds = chunked(lambda *a: stages(*a).total_s(), *flat, chunk=self.kernel.chunk)
        return seconds.reshape(axes[0].shape)


@dataclass(frozen=True, slots=True)
class _Part:
    """Operators that are priced together.

    rows: theirs in the graph.  nodes: whether they are priced at each node of a lane.
    program: what gives the results that its rows read.  figures: `FIGURES` x [ops] rows.
    limits, limited: the first three of them, for bounds alone.
    runs, by_stage: of the operators, [1, ops], and on each pipeline stage, [stages, ops].
    """

    rows: Places
    nodes: bool
    program: Program
    figures: Rows
    kernels: tuple[_Kernels, ...]
    limits: Program
    limited: Rows
    runs: Array
    by_stage: Array

    @classmethod
    def of(
        cls,
        formulas: Formulas,
        graph: Graph,
        rows: Sequence[int],
        pricer: Pricer,
        phases: Sequence[Phase],
        nodes: bool,
        by_stage: Array,
    ) -> _Part:
        ops = [graph.ops[at] for at in rows]
        least = [roofline(op, pricer.system) for op in ops]
        limits = [
            *(limit.compute_s for limit in least),
            *(limit.memory_s for limit in least),
            *(limit.communication_s for limit in least),
        ]
        figures = [*limits, *(op.flops for op in ops), *(op.memory_bytes for op in ops)]
        alike: dict[Hashable, dict[int, KernelTime]] = defaultdict(dict)
        for at, kernel in pricer.kernels_of(ops, [phases[at] for at in rows]).items():
            alike[kernel.formula][at] = kernel
        read = results_of(*figures)
        for group in alike.values():
            read |= results_of(*(n for k in group.values() for n in (*k.axes, k.work)))
        places, limiting = _places(read), _places(results_of(*limits))
        return cls(
            np.array(rows, dtype=np.intp),
            nodes,
            formulas.program(read),
            Rows.of(figures, places),
            tuple(_Kernels.of(group, places) for group in alike.values()),
            formulas.program(limiting),
            Rows.of(limits, limiting),
            np.array([[op.count for op in ops]], dtype=float),
            by_stage[:, list(rows)],
        )

    def results(self, program: Program, sizes: Mapping[str, Array], nodes: int) -> Array:
        """What a program gives for the nodes or the lanes, [results, nodes x lanes]."""
        shape = (nodes if self.nodes else 1, sizes["cached"].shape[1])
        results = np.zeros((max(len(program.results), 1), *shape))
        for at, result in enumerate(program(sizes)):
            results[at] = result
        return results.reshape(len(results), -1)

    def bound_s(self, sizes: Mapping[str, Array], nodes: int) -> Array:
        """Least time of one run of each operator [s], [ops, nodes x lanes]."""
        limited = self.limited.taken(self.results(self.limits, sizes, nodes))
        return limited.reshape(3, len(self.rows), -1).max(axis=0)


def _places(results: set[int]) -> dict[int, int]:
    """{result: its place} of a program's results, which come in order."""
    return {result: place for place, result in enumerate(sorted(results))}


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph with everything but its sizes worked out, and what it takes to price it.

    graph: its numbers are symbols of `formulas`, or constants.
    parts: of the graph.  runs: of each operator, [ops].
    launch_s: that the host takes for a kernel.
    unless: what must not hold of any lane: operators that are priced as ones that read decode.
    """

    formulas: Formulas
    graph: Graph
    parts: tuple[_Part, ...]
    runs: Array
    launch_s: float
    unless: Program
    _columns: dict[tuple[str, ...], tuple[Program, Rows]] = field(default_factory=dict)

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism, reads: bool, fullest: bool) -> Plan:
        """The plan of one split, its degrees numbers.

        reads: steps read prompts, more than `cp` tokens of each; else they decode a token.
        fullest: sequences of the fullest rank are given; they differ from node to node.

        Raises:
            Unresolved: the graph's shape, or a branch, depends on the sizes.
            MissingSpec: the system states no peak or link that an operator needs.
        """
        formulas = Formulas()
        some = np.finfo(float).tiny
        group = Group(
            formulas.size("sequences", some),
            formulas.size("new", np.nextafter(1.0, 2.0)) if reads else 1.0,
            formulas.size("cached", 0.0),
            prompt=formulas.size("prompt", 0.0),
            fullest=formulas.size("fullest", some) if fullest else None,
        )
        graph = of_busiest_rank(deployed.executed.graph(Step((group,)), split), split)
        pricer = Pricer(deployed.system, deployed.engine)
        every, settled = range(len(graph.ops)), [_phase(op) for op in graph.ops]
        phases = [phase for phase, _ in settled]
        depends = formulas.depends("cached")
        later = [reads or fullest or _follows(op, depends) for op in graph.ops]
        by_stage = stage_runs(graph, int(split.pp))
        parts = [
            _Part.of(formulas, graph, rows, pricer, phases, nodes, by_stage)
            for nodes in (False, True)
            if (rows := [at for at in every if later[at] == nodes])
        ]
        return cls(
            formulas,
            graph,
            tuple(parts),
            np.array([op.count for op in graph.ops], dtype=float),
            deployed.engine.launch_s,
            formulas.program(results_of(*(unsure for _, unsure in settled))),
        )

    def holds(self, lanes: Lanes, at: Places | slice) -> bool:
        """Whether the phase of every operator is that of the plan in some of the lanes."""
        if not self.unless.results:
            return True
        return not any(np.any(decodes) for decodes in self.unless(picked(lanes, at).sizes))

    def price(self, lanes: Lanes, weights: Array) -> Priced:
        """Price steps; weights: of the nodes of a lane, [nodes, lanes]."""
        ops, size = len(self.graph.ops), lanes.size
        figures, expected = np.empty((len(FIGURES), ops, size)), np.empty((ops, size))
        stage_s, least_s = np.empty(size), np.empty(size)
        for start in range(0, size, _LANES):
            at = slice(start, start + _LANES)
            sizes = {name: values[:, at] for name, values in lanes.sizes.items()}
            self._price(
                sizes, weights[:, at], figures[..., at], expected[:, at], stage_s[at], least_s[at]
            )
        return Priced(figures, expected, stage_s, least_s)

    def _price(
        self,
        sizes: dict[str, Array],
        weights: Array,
        figures: Array,
        expected: Array,
        stage_s: Array,
        least_s: Array,
    ) -> None:
        """Price few lanes into arrays of `Priced`."""
        nodes, size = weights.shape
        stage: Num = 0.0
        least: Num = 0.0
        for part in self.parts:
            results = part.results(part.program, sizes, nodes)
            found = part.figures.taken(results).reshape(len(FIGURES), len(part.rows), -1)
            bound = found[:3].max(axis=0)
            time = self._expected_s(part, results, bound)
            least = least + (part.runs @ bound).reshape(-1, size)
            stage = stage + (part.by_stage @ time).reshape(len(part.by_stage), -1, size)
            if part.nodes and nodes > 1:
                found, time = (mean(some, weights) for some in (found, time))
            figures[:, part.rows], expected[part.rows] = found, time
        stage_s[:] = _weighted(np.max(stage, axis=0), weights)
        least_s[:] = _weighted(np.asarray(least), weights)

    def _expected_s(self, part: _Part, results: Array, bound: Array) -> Array:
        time = np.zeros(bound.shape)
        for kernels in part.kernels:
            time[kernels.at] = kernels.seconds(results)
        return np.maximum(launched(time, self.launch_s), bound)

    def bound_s(self, lanes: Lanes, weights: Array) -> Array:
        """Least times of one run of each operator, the nodes summed [s], [ops, lanes]."""
        bound = np.empty((len(self.graph.ops), lanes.size))
        for start in range(0, lanes.size, _LANES):
            at = slice(start, start + _LANES)
            sizes = {name: values[:, at] for name, values in lanes.sizes.items()}
            for part in self.parts:
                found = part.bound_s(sizes, len(weights))
                several = part.nodes and len(weights) > 1
                bound[part.rows, at] = mean(found, weights[:, at]) if several else found
        return bound

    def columns(self, names: tuple[str, ...], lanes: Lanes) -> Array:
        """Fields of every operator, [names, ops, lanes], of lanes of one node."""
        if names not in self._columns:
            numbers = [getattr(op, name) for name in names for op in self.graph.ops]
            places = _places(results_of(*numbers))
            self._columns[names] = self.formulas.program(places), Rows.of(numbers, places)
        program, rows = self._columns[names]
        results = np.zeros((max(len(program.results), 1), lanes.size))
        for at, result in enumerate(program(lanes.sizes)):
            results[at] = result
        return rows.taken(results).reshape(len(names), len(self.graph.ops), lanes.size)


def _phase(op: Op) -> tuple[Phase, Symbol | None]:
    """The phase of an operator, and what decides it where the sizes do: it reads unless that."""
    if "new_tokens" not in op.dims or not depends_on_phase(op.kind):
        return "prefill", None
    decodes = decoding(op)
    if isinstance(decodes, Symbol):
        return "prefill", decodes
    return ("decode" if decodes else "prefill"), None


def _follows(op: Op, depends: Sequence[bool]) -> bool:
    """Whether any number of an operator depends on what `depends` marks."""
    numbers = (
        op.flops, op.weight_bytes, op.input_bytes, op.output_bytes, op.kv_read_bytes,
        op.kv_write_bytes, op.message_bytes, *op.dims.values(),
    )  # fmt: skip
    return any(isinstance(number, Symbol) and depends[number.at] for number in numbers)


def _weighted(values: Array, weights: Array) -> Array:
    """Values [nodes or 1, lanes] summed with weights [nodes, lanes], [lanes]."""
    if len(weights) == 1:
        return values[0]
    return np.einsum("kc,kc->c", np.broadcast_to(values, weights.shape), weights)


def mean(values: Array, weights: Array) -> Array:
    """Values [..., nodes x lanes] summed with weights [nodes, lanes], [..., lanes]."""
    split = values.reshape(*values.shape[:-1], *weights.shape)
    total: Array = np.einsum("...kc,kc->...c", split, weights)
    return total


# ------------------------------------------------------------------------------- plans of lanes


_PLANS: ByIdentity[Plan | None] = ByIdentity(512)


def plan_of(
    deployed: Deployment, split: Parallelism, *, reads: bool, fullest: bool = False
) -> Plan | None:
    """The plan of one split, its degrees numbers; made once.

    None where the sizes decide more than numbers, or where one's work hides another's time.
    """
    if split.overlap != "none" or deployed.placement is not None:
        return None

    def make() -> Plan | None:
        try:
            return Plan.of(deployed, split, reads, fullest)
        except Unresolved:
            return None

    degrees = [getattr(split, name) for name in _DEGREES]
    key = (
        *(None if degree is None else float(degree) for degree in degrees),
        split.sequence_parallel, split.order, reads, fullest,
    )  # fmt: skip
    return _PLANS.get(make, deployed.model, deployed.system, deployed.engine, values=key)


Plans = list[tuple[Plan, Places | slice]]


def plans(deployed: Deployment, lanes: Lanes) -> Plans | None:
    """The plan of every lane: pairs of a plan and its lanes; None where any has none."""
    found, kinds = [], list(_kinds(lanes))
    if len(kinds) > 2 and lanes.size < _WORTH * len(kinds):
        return None
    for split, reads, at in kinds:
        plan = plan_of(deployed, split, reads=reads, fullest=lanes.fullest is not None)
        if plan is None or not (reads or (lanes.new[:, at] == 1.0).all()):
            return None
        found.append((plan, at))
        if not plan.holds(lanes, at):
            return None
    return found if (lanes.sequences > 0).all() else None


def by_plans(deployed: Deployment, lanes: Lanes, weights: Array, found: Plans) -> StepEstimate:
    """Lanes priced by their plans, nodes summed with weights [nodes, lanes]."""
    plan, engine, size = found[0][0], deployed.engine, lanes.size
    if len(found) == 1:
        priced = plan.price(lanes, weights)
    else:
        ops = len(plan.graph.ops)
        priced = Priced(
            np.empty((len(FIGURES), ops, size)),
            np.empty((ops, size)),
            np.empty(size),
            np.empty(size),
        )
        for one, at in found:
            part = one.price(picked(lanes, at), weights[:, at])
            for name in ("figures", "expected_s", "stage_s", "least_s"):
                getattr(priced, name)[..., at] = getattr(part, name)
    host = engine.host_step_s + engine.sampling_s + engine.host_sequence_s * lanes.of_rank()
    each = weights.sum(axis=0)
    through = plan.runs @ priced.expected_s
    figures: dict[str, Any] = dict(zip(FIGURES, priced.figures, strict=True))
    return StepEstimate(
        laid=Laid(plan.graph, partial(_graph, deployed, lanes)),
        system=deployed.system,
        engine=engine,
        runs=plan.runs,
        expected_s=priced.expected_s,
        stage_s=priced.stage_s,
        wait_s=np.maximum(priced.least_s - through, 0.0),
        least_s=priced.least_s,
        stages=lanes.split.pp * each,
        micro_batches=each,
        host_s=_weighted(host, weights),
        learned_s=np.zeros(size),
        node_weights=None if len(weights) == 1 else weights,
        **figures,
    )


def bounds_by_plans(lanes: Lanes, weights: Array, found: Plans) -> Array:
    """Least time of one run of each operator, nodes summed [s], [ops, lanes]."""
    if len(found) == 1:
        return found[0][0].bound_s(lanes, weights)
    bound = np.empty((len(found[0][0].graph.ops), lanes.size))
    for plan, at in found:
        bound[:, at] = plan.bound_s(picked(lanes, at), weights[:, at])
    return bound


def operator_columns(
    deployed: Deployment, lanes: Lanes, names: tuple[str, ...]
) -> tuple[Graph, Array]:
    """Fields of every operator, [names, ops, lanes], of lanes of one node; and the graph, whose
    numbers are not to be read."""
    found = plans(deployed, lanes)
    if found is None:
        graph = _graph(deployed, lanes)
        fields = [stack((getattr(op, name) for op in graph.ops), lanes.size) for name in names]
        return graph, np.stack(fields)
    graph = found[0][0].graph
    if len(found) == 1:
        return graph, found[0][0].columns(names, lanes)
    columns = np.empty((len(names), len(graph.ops), lanes.size))
    for plan, at in found:
        columns[..., at] = plan.columns(names, picked(lanes, at))
    return graph, columns


def _graph(deployed: Deployment, lanes: Lanes) -> Graph:
    """The graph of lanes with its numbers, [nodes x lanes]."""
    group, split = lanes.flat()
    return of_busiest_rank(deployed.graph(Step((group,)), split), split)


def picked(lanes: Lanes, at: Places | slice) -> Lanes:
    """Some of the lanes; their split is that of all."""
    if isinstance(at, slice):
        return lanes
    sizes = {name: values[:, at] for name, values in lanes.sizes.items()}
    return replace(lanes, **sizes)


def _kinds(lanes: Lanes) -> Iterator[tuple[Parallelism, bool, Places | slice]]:
    """(degrees as numbers, whether prompts are read, lanes) of lanes that one plan prices."""
    split = lanes.split
    columns = {name: getattr(split, name) for name in _DEGREES if np.ndim(getattr(split, name))}
    varying = [column for column in columns.values() if np.any(column != column[0])]
    reads = (lanes.new > 1.0).all(axis=0)
    if not varying and (reads.all() or not reads.any()):
        yield _numbers(columns, split, 0), bool(reads[0]), slice(None)
        return
    code = reads.astype(np.intp)
    for column in varying:
        values, of = np.unique(column, return_inverse=True)
        code = code * len(values) + of
    _, first, of = np.unique(code, return_index=True, return_inverse=True)
    for kind, at in enumerate(first):
        yield _numbers(columns, split, int(at)), bool(reads[at]), np.flatnonzero(of == kind)


def _numbers(columns: Mapping[str, Array], split: Parallelism, at: int) -> Parallelism:
    """The degrees of one lane; columns: those that are arrays [lanes]."""
    if not columns:
        return split
    degrees: dict[str, Any] = {name: float(column[at]) for name, column in columns.items()}
    return replace(split, **degrees)
