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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
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
from genz_core.step import of_busiest_rank, stage_runs
from genz_core.symbols import Formulas, Rows, Symbol, Unresolved
from genz_core.types import DEGREES, Array, Graph, Group, Num, Op, Parallelism, Places, Step

_LANES = 2048  # at a time: what follows of them fits in a second-level cache
_MANY = 256  # lanes among which equal ones are worth finding
_SPLIT = (*DEGREES, "moe_tp", "expert_imbalance", "redundant_experts")
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
            for name in (*_SPLIT, "micro_batches")
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

    at: their rows in the part.  kernel: one of them, for its stages.  axes: of all, [ops] rows
    each.  work: likewise, None where all have some.  launch_s: [ops, 1].
    """

    at: Places
    kernel: KernelTime
    axes: tuple[Rows, ...]
    work: Rows | None
    launch_s: Array

    @classmethod
    def of(cls, at: Sequence[int], kernels: Sequence[KernelTime]) -> _Kernels:
        axes = tuple(Rows.of(axis) for axis in zip(*(k.axes for k in kernels), strict=True))
        work = [k.work for k in kernels]
        sure = all(w.least > 0 if isinstance(w, Symbol) else np.all(w > 0) for w in work)
        launch = np.array([np.ravel(k.launch_s)[0] for k in kernels], dtype=float)[:, None]
        found = None if sure else Rows.of(work)
        return cls(np.array(at, dtype=np.intp), kernels[0], axes, found, launch)

    def seconds(self, results: Array) -> Array:
        """Times [s], [ops, lanes]; results: [results, lanes]."""
        if self.kernel.repeats and results.shape[1] >= _MANY:
            time = self._of_distinct(results)
        else:
            time = self._time([axis.taken(results) for axis in self.axes])
        time += self.launch_s
        return time if self.work is None else np.where(self.work.taken(results) > 0, time, 0.0)

    def _of_distinct(self, results: Array) -> Array:
        """Times where the first axis repeats values and the others are constants."""
        first, *rest = self.axes
        time = np.empty((len(self.at), results.shape[1]))
        for result in np.unique(first.at):
            rows = np.flatnonzero(first.at == result)
            values, of = np.unique(results[result], return_inverse=True)
            axes = [values * first.factor[rows]]
            axes += [np.broadcast_to(axis.factor[rows], axes[0].shape) for axis in rest]
            time[rows] = self._time(axes)[:, of]
        return time

    def _time(self, axes: Sequence[Array]) -> Array:
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
    results: of the formulas that they read.  figures: `FIGURES` x [ops] rows.
    """

    rows: Places
    nodes: bool
    results: Places
    figures: Rows
    kernels: tuple[_Kernels, ...]

    @classmethod
    def of(
        cls, graph: Graph, rows: Sequence[int], pricer: Pricer, phases: Sequence[Phase], nodes: bool
    ) -> _Part:
        ops = [graph.ops[at] for at in rows]
        least = [roofline(op, pricer.system) for op in ops]
        numbers = [
            *(limit.compute_s for limit in least),
            *(limit.memory_s for limit in least),
            *(limit.communication_s for limit in least),
            *(op.flops for op in ops),
            *(op.memory_bytes for op in ops),
        ]
        alike: dict[Hashable, dict[int, KernelTime]] = defaultdict(dict)
        for at, kernel in pricer.kernels_of(ops, [phases[at] for at in rows]).items():
            alike[kernel.formula][at] = kernel
        kernels = [_Kernels.of(list(group), list(group.values())) for group in alike.values()]
        read = [Rows.of(numbers)]
        for group in kernels:
            read += [*group.axes, *([group.work] if group.work else [])]
        used = np.unique(np.concatenate([[-1], *(some.at for some in read)]))
        place = {int(at): (number - 1) % len(used) for number, at in enumerate(used)}
        moved = iter([some.moved(place) for some in read])
        figures = next(moved)
        kernels = [
            replace(
                group,
                axes=tuple(next(moved) for _ in group.axes),
                work=next(moved) if group.work else None,
            )
            for group in kernels
        ]
        return cls(np.array(rows, dtype=np.intp), nodes, used[1:], figures, tuple(kernels))

    def taken(self, values: Sequence[Array], shape: tuple[int, int]) -> Array:
        """The results that its rows read, and ones, [results, lanes]."""
        lanes = shape if self.nodes else (1, shape[1])
        results = np.ones((len(self.results) + 1, *lanes))
        for at, result in enumerate(self.results):
            results[at] = values[result]
        return results.reshape(len(results), -1)


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph with everything but its sizes worked out, and what it takes to price it.

    graph: its numbers are symbols of `formulas`, or constants.
    parts: of the graph.  runs: of each operator, [ops]; by_stage: on each stage, [stages, ops].
    launch_s: that the host takes for a kernel.
    unless: what must not hold of any lane: operators that are priced as ones that read decode.
    """

    formulas: Formulas
    graph: Graph
    parts: tuple[_Part, ...]
    runs: Array
    by_stage: Array
    launch_s: float
    unless: tuple[Symbol, ...]
    _rows: dict[str, Rows] = field(default_factory=dict)

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism, reads: bool, fullest: bool) -> Plan:
        """The plan of one split, its degrees numbers.

        reads: steps read prompts, more than `cp` tokens of each; else they decode a token.
        fullest: sequences of the fullest rank are given.

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
        depends = formulas.depends(("cached",))
        later = [reads or _follows(op, depends) for op in graph.ops]
        parts = [
            _Part.of(graph, rows, pricer, phases, nodes)
            for nodes in (False, True)
            if (rows := [at for at in every if later[at] == nodes])
        ]
        return cls(
            formulas,
            graph,
            tuple(parts),
            np.array([op.count for op in graph.ops], dtype=float),
            stage_runs(graph, int(split.pp)),
            deployed.engine.launch_s,
            tuple({unsure.at: unsure for _, unsure in settled if unsure is not None}.values()),
        )

    def holds(self, lanes: Lanes) -> bool:
        """Whether the phase of every operator is that of the plan."""
        if not self.unless:
            return True
        values = self.formulas.values(lanes.sizes)
        return not any(np.any(values[unsure.at]) for unsure in self.unless)

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
        values, shape = self.formulas.values(sizes), weights.shape
        stage: Num = 0.0
        least: Num = 0.0
        for part in self.parts:
            results = part.taken(values, shape)
            found = part.figures.taken(results).reshape(len(FIGURES), len(part.rows), -1)
            bound = found[:3].max(axis=0)
            time = self._expected_s(part, results, bound)
            least = least + (self.runs[part.rows] @ bound).reshape(-1, shape[1])
            on_stages = self.by_stage[:, part.rows] @ time
            stage = stage + on_stages.reshape(len(on_stages), -1, shape[1])
            if part.nodes and len(weights) > 1:
                found, time = (_mean(some, weights) for some in (found, time))
            figures[:, part.rows], expected[part.rows] = found, time
        stage_s[:] = np.einsum("kc,kc->c", np.broadcast_to(np.max(stage, axis=0), shape), weights)
        least_s[:] = np.einsum("kc,kc->c", np.broadcast_to(least, shape), weights)

    def _expected_s(self, part: _Part, results: Array, bound: Array) -> Array:
        time = np.zeros(bound.shape)
        for kernels in part.kernels:
            time[kernels.at] = kernels.seconds(results)
        return np.maximum(launched(time, self.launch_s), bound)

    def least_s(self, lanes: Lanes, weights: Array) -> Array:
        """Least time of the steps [s], [lanes]: what `price` finds, without its expectations."""
        total = np.empty(lanes.size)
        for start in range(0, lanes.size, _LANES):
            at = slice(start, start + _LANES)
            values = self.formulas.values({n: v[:, at] for n, v in lanes.sizes.items()})
            some = weights[:, at]
            least: Num = 0.0
            for part in self.parts:
                found = part.figures.taken(part.taken(values, some.shape))
                bound = found.reshape(len(FIGURES), len(part.rows), -1)[:3].max(axis=0)
                least = least + (self.runs[part.rows] @ bound).reshape(-1, some.shape[1])
            total[at] = np.einsum("kc,kc->c", np.broadcast_to(least, some.shape), some)
        return total

    def column(self, name: str, lanes: Lanes) -> Array:
        """One field of every operator, [ops, lanes], of lanes of one node."""
        if name not in self._rows:
            self._rows[name] = Rows.of([getattr(op, name) for op in self.graph.ops])
        values = self.formulas.values(lanes.sizes)
        results = np.ones((len(values) + 1, lanes.size))
        for at, value in enumerate(values):
            results[at] = value
        return self._rows[name].taken(results)


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


def _mean(values: Array, weights: Array) -> Array:
    """Values [..., nodes x lanes] summed with weights [nodes, lanes], [..., lanes]."""
    split = values.reshape(*values.shape[:-1], *weights.shape)
    mean: Array = np.einsum("...kc,kc->...c", split, weights)
    return mean


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

    degrees = [getattr(split, name) for name in _SPLIT]
    key = (
        *(None if degree is None else float(degree) for degree in degrees),
        split.sequence_parallel, split.order, reads, fullest,
    )  # fmt: skip
    return _PLANS.get(make, deployed.model, deployed.system, deployed.engine, values=key)


def plans(deployed: Deployment, lanes: Lanes) -> list[tuple[Plan, Places | slice]] | None:
    """The plan of every lane: pairs of a plan and its lanes; None where any has none."""
    found = []
    for split, reads, at in _kinds(lanes):
        plan = plan_of(deployed, split, reads=reads, fullest=lanes.fullest is not None)
        if plan is None or not (reads or np.all(lanes.new[:, at] == 1.0)):
            return None
        found.append((plan, at))
        if not plan.holds(picked(lanes, at)):
            return None
    return found if np.all(lanes.sequences > 0) else None


def picked(lanes: Lanes, at: Places | slice) -> Lanes:
    """Some of the lanes; their split is that of all."""
    if isinstance(at, slice):
        return lanes
    sizes = {name: values[:, at] for name, values in lanes.sizes.items()}
    return replace(lanes, **sizes)


def _kinds(lanes: Lanes) -> Iterator[tuple[Parallelism, bool, Places | slice]]:
    """(degrees as numbers, whether prompts are read, lanes) of lanes that one plan prices.

    Lanes of neither kind are in none.
    """
    columns = {
        name: np.asarray(getattr(lanes.split, name), dtype=float)
        for name in _SPLIT
        if getattr(lanes.split, name) is not None
    }
    varying = {
        name: column.ravel()
        for name, column in columns.items()
        if column.ndim and np.any(column != column.flat[0])
    }
    reads = np.all(lanes.new > 1.0, axis=0)
    code = reads.astype(np.intp)
    if not varying and (np.all(code == code[0])):
        yield _numbers(columns, lanes.split, 0), bool(code[0]), slice(None)
        return
    for column in varying.values():
        values, of = np.unique(column, return_inverse=True)
        code = code * len(values) + of
    _, first, of = np.unique(code, return_index=True, return_inverse=True)
    for kind, at in enumerate(first):
        yield _numbers(columns, lanes.split, int(at)), bool(reads[at]), np.flatnonzero(of == kind)


def _numbers(columns: dict[str, Array], split: Parallelism, at: int) -> Parallelism:
    degrees: dict[str, Any] = {
        name: float(column.flat[at if column.size > 1 else 0]) for name, column in columns.items()
    }
    return replace(split, **degrees)
