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
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from genz_core.deployment import Deployment
from genz_core.latency import Pricer
from genz_core.latency.kernel_time import KernelTime
from genz_core.latency.models import Phase, depends_on_phase
from genz_core.latency.pricer import decoding, launched
from genz_core.latency.roofline import roofline
from genz_core.memo import ByIdentity
from genz_core.step import FIGURES, Figures, Laid, StepEstimate, of_busiest_rank, stage_runs
from genz_core.symbols import Formulas, Program, Rows, Symbol, Unresolved, results_of
from genz_core.types import (
    DEGREES,
    Array,
    Graph,
    Group,
    Mask,
    Num,
    Op,
    Parallelism,
    Places,
    Step,
    System,
)
from genz_core.validity import stack

_LANES = 2048  # at a time: what follows of them fits in a second-level cache
_WORTH = 1000  # steps of a kind that take longer in a graph of all kinds than to make its plan
_MANY = 256  # lanes among which equal ones are worth finding
_DEGREES = (*DEGREES, "moe_tp", "expert_imbalance", "redundant_experts")
SPLIT = (*_DEGREES, "micro_batches")


@dataclass(frozen=True, slots=True)
class Lanes:
    """Steps of one group of sequences side by side.

    sequences, new, cached, prompt: as of `Group`, [nodes, lanes], or [1, lanes] where all nodes
    have the same.  fullest: likewise, or None.  split: degrees, numbers or [lanes].
    drafted, sampled: as of `Group`, the same for all.
    """

    sequences: Array
    new: Array
    cached: Array
    prompt: Array
    split: Parallelism
    fullest: Array | None = None
    drafted: float = 0.0
    sampled: float = 1.0

    @classmethod
    def of(cls, group: Group, split: Parallelism) -> Lanes:
        """Lanes of one node; the group's numbers are arrays [lanes] or numbers."""
        sizes = (group.sequences, group.new_tokens, group.cached_tokens, group.prompt)
        sequences, new, cached, prompt = (
            size[None] for size in np.broadcast_arrays(*(np.atleast_1d(n) * 1.0 for n in sizes))
        )
        drafted, sampled = float(group.drafted), float(group.sampled)
        return cls(sequences, new, cached, prompt, split, drafted=drafted, sampled=sampled)

    @property
    def nodes(self) -> int:
        """Steps of each lane."""
        return max(len(self.sequences), len(self.new), len(self.cached))

    @property
    def size(self) -> int:
        """Number of lanes."""
        return int(self.cached.shape[1])

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
            sizes["sequences"],
            sizes["new"],
            sizes["cached"],
            self.drafted,
            self.sampled,
            sizes["prompt"],
            sizes.get("fullest"),
        )
        varying: dict[str, Any] = {
            name: np.tile(getattr(self.split, name), self.nodes)
            for name in SPLIT
            if np.ndim(getattr(self.split, name))
        }
        return group, replace(self.split, **varying) if varying else self.split


@dataclass(frozen=True, slots=True)
class Kind:
    """What tells steps apart beside degrees and sizes.

    reads: they read prompts, of each more tokens than a sequence has that generates; else they
    decode.  fullest: sequences of the fullest rank are given; they differ from node to node.
    drafted, sampled: as of `Group`.
    """

    reads: bool
    fullest: bool = False
    drafted: float = 0.0
    sampled: float = 1.0

    def group(self, formulas: Formulas) -> Group:
        """Sequences of sizes that are not known."""
        some, decoded = float(np.finfo(float).tiny), 1.0 + self.drafted
        size: Callable[[str, float], Any] = formulas.size
        return Group(
            size("sequences", some),
            size("new", float(np.nextafter(decoded, np.inf))) if self.reads else decoded,
            size("cached", 0.0),
            self.drafted,
            self.sampled,
            size("prompt", 0.0),
            size("fullest", some) if self.fullest else None,
        )


@dataclass(frozen=True, slots=True)
class Priced:
    """Lanes priced, their nodes summed [s].

    expected_s: of one run of each operator, [ops, lanes].
    stage_s: of the slowest pipeline stage; least_s: of the step; [lanes].
    """

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

    def seconds(self, results: Array, distinct: _Distinct) -> Array:
        """Times [s], [ops, lanes]; results: [results, lanes]."""
        ops, lanes = len(self.at), results.shape[1]
        if lanes < _MANY:
            axes = self.axes.taken(results).reshape(-1, ops, lanes)
            time = self._time([axis.ravel() for axis in axes]).reshape(ops, lanes)
        else:
            time = np.empty((ops, lanes))
            for at in range(ops):
                time[at] = self._of_operator(at, results, distinct)
        time += self.launch_s
        return time if self.work is None else np.where(self.work.taken(results) > 0, time, 0.0)

    def _of_operator(self, at: int, results: Array, distinct: _Distinct) -> Array:
        """Times of one operator in many lanes, [lanes]; what all lanes share is one number."""
        rows = slice(at, None, len(self.at))
        read, factors, constants = (
            self.axes.at[rows],
            self.axes.factor[rows],
            self.axes.constant[rows],
        )
        if self.kernel.repeats and not factors[1:].any():
            values, of = distinct(results, int(read[0]))
            return self._time([values * factors[0] + constants[0], *constants[1:]])[of]
        axes = zip(read, factors, constants, strict=True)
        return self._time([results[r] * f + c if f else c for r, f, c in axes])

    def _time(self, axes: Sequence[Array]) -> Array:
        """Times of the stages for flat axes, of one length or of one number."""
        stages, chunk = self.kernel.stages, self.kernel.chunk
        size = max(axis.size for axis in axes)
        if size <= chunk:
            return stages(*axes).total_s()
        seconds = np.empty(size)
        for start in range(0, size, chunk):
            at = slice(start, start + chunk)
            some = (axis[at] if axis.size > 1 else axis for axis in axes)
            seconds[at] = stages(*some).total_s()
        return seconds


class _Distinct:
    """Distinct values of results, and which each lane has, found once for all that read them."""

    def __init__(self) -> None:
        self._found: dict[int, tuple[Array, Places]] = {}

    def __call__(self, results: Array, at: int) -> tuple[Array, Places]:
        """Those of one of the results [results, lanes]."""
        if at not in self._found:
            self._found[at] = np.unique(results[at], return_inverse=True)
        return self._found[at]


@dataclass(frozen=True, slots=True)
class _Part:
    """Operators that are priced together, those of equal time once: kinds.

    rows: the operators in the graph; of: the kind of each, [ops].
    nodes: whether they are priced at each node of a lane.
    program: what gives the results that its rows read.  limits: least times of a kind, at most as
    many as resources, [limits x kinds] rows.
    runs, by_stage: of a kind, [1, kinds], and on each pipeline stage, [stages, kinds].
    """

    rows: Places
    of: Places
    nodes: bool
    program: Program
    limits: Rows
    kernels: tuple[_Kernels, ...]
    runs: Array
    by_stage: Array

    @classmethod
    def of_rows(
        cls,
        formulas: Formulas,
        graph: Graph,
        rows: Sequence[int],
        pricer: Pricer,
        phases: Sequence[Phase],
        nodes: bool,
        by_stage: Array,
    ) -> _Part:
        """The part of some rows of a graph; phases, by_stage: of the graph's operators."""
        ops = [graph.ops[at] for at in rows]
        limits = [_limits(op, pricer.system) for op in ops]
        kernels = pricer.kernels_of(ops, [phases[at] for at in rows])
        kinds: dict[Hashable, list[int]] = defaultdict(list)
        for at, limit in enumerate(limits):
            kinds[_keys(limit), _kernel_key(kernels.get(at))].append(at)
        alike: dict[Hashable, dict[int, KernelTime]] = defaultdict(dict)
        for kind, members in enumerate(kinds.values()):
            if (kernel := kernels.get(members[0])) is not None:
                alike[kernel.formula][kind] = kernel
        firsts = [limits[members[0]] for members in kinds.values()]
        most = max(map(len, firsts))
        numbers = [first[at] if at < len(first) else 0.0 for at in range(most) for first in firsts]
        read = results_of(*numbers)
        for group in alike.values():
            read |= results_of(*(n for k in group.values() for n in (*k.axes, k.work)))
        places, of = _places(read), np.empty(len(ops), dtype=np.intp)
        for kind, members in enumerate(kinds.values()):
            of[members] = kind
        member = of == np.arange(len(kinds))[:, None]
        counts = np.array([op.count for op in ops], dtype=float)
        return cls(
            np.array(rows, dtype=np.intp),
            of,
            nodes,
            formulas.program(read),
            Rows.of(numbers, places),
            tuple(_Kernels.of(group, places) for group in alike.values()),
            (member @ counts)[None],
            by_stage[:, list(rows)] @ member.T,
        )

    def results(self, sizes: Mapping[str, Array], nodes: int) -> Array:
        """What its rows read at the nodes or of the lanes, [results, nodes x lanes]."""
        return _evaluated(self.program, sizes, nodes if self.nodes else 1)

    def bound_s(self, results: Array) -> Array:
        """Least time of one run of each kind [s], [kinds, nodes x lanes]."""
        limits = self.limits.taken(results)
        bound: Array = limits.reshape(-1, self.runs.size, limits.shape[1]).max(axis=0)
        return bound


def _limits(op: Op, system: System) -> list[Any]:
    """Least times of a run of an operator on the resources that it uses."""
    least = roofline(op, system)
    every = (least.compute_s, least.memory_s, least.communication_s)
    return [time for time in every if isinstance(time, Symbol) or np.any(time)]


def _keys(numbers: Iterable[Any]) -> tuple[Hashable, ...]:
    return tuple(n.key if isinstance(n, Symbol) else float(n) for n in numbers)


def _kernel_key(kernel: KernelTime | None) -> Hashable:
    """Equal for kernels of equal times."""
    if kernel is None:
        return None
    return kernel.formula, _keys((*kernel.axes, kernel.work, np.ravel(kernel.launch_s)[0]))


def _evaluated(program: Program, sizes: Mapping[str, Array], nodes: int) -> Array:
    """The results of a program, [results, nodes x lanes]; zeros where it has none."""
    results = np.zeros((max(len(program.results), 1), nodes, sizes["cached"].shape[1]))
    for at, result in enumerate(program(sizes)):
        results[at] = result
    return results.reshape(len(results), -1)


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
    system: System
    _columns: dict[Hashable, tuple[Program, Rows]] = field(default_factory=dict)

    @classmethod
    def of(cls, deployed: Deployment, split: Parallelism, kind: Kind) -> Plan:
        """The plan of one split, its degrees numbers.

        Raises:
            Unresolved: the graph's shape, or a branch, depends on the sizes.
            MissingSpec: the system states no peak or link that an operator needs.
        """
        formulas = Formulas()
        step = Step((kind.group(formulas),))
        graph = of_busiest_rank(deployed.executed.graph(step, split), split)
        pricer = Pricer(deployed.system, deployed.engine)
        every, settled = range(len(graph.ops)), [_phase(op) for op in graph.ops]
        phases = [phase for phase, _ in settled]
        depends = formulas.depends("cached")
        later = [kind.reads or kind.fullest or _follows(op, depends) for op in graph.ops]
        by_stage = stage_runs(graph, int(split.pp))
        parts = [
            _Part.of_rows(formulas, graph, rows, pricer, phases, nodes, by_stage)
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
            deployed.system,
        )

    def holds(self, lanes: Lanes, at: Places | slice) -> bool:
        """Whether the phase of every operator is that of the plan in some of the lanes."""
        if not self.unless.results:
            return True
        return not any(np.any(decodes) for decodes in self.unless(picked(lanes, at).sizes))

    def price(self, lanes: Lanes, weights: Array) -> Priced:
        """Price steps; weights: of the nodes of a lane, [nodes, lanes]."""
        size, nodes = lanes.size, len(weights)
        priced = Priced(np.empty((len(self.graph.ops), size)), np.empty(size), np.empty(size))
        for start in range(0, size, _LANES):
            at = slice(start, start + _LANES)
            sizes, some = {n: v[:, at] for n, v in lanes.sizes.items()}, weights[:, at]
            stage: Num = 0.0
            least: Num = 0.0
            for part in self.parts:
                results = part.results(sizes, nodes)
                bound = part.bound_s(results)
                time = self._expected_s(part, results, bound)
                least = least + (part.runs @ bound).reshape(-1, some.shape[1])
                on_stages = part.by_stage @ time
                stage = stage + on_stages.reshape(len(on_stages), -1, some.shape[1])
                several = part.nodes and nodes > 1
                priced.expected_s[part.rows, at] = (mean(time, some) if several else time)[part.of]
            priced.stage_s[at] = _weighted(np.max(stage, axis=0), some)
            priced.least_s[at] = _weighted(np.asarray(least), some)
        return priced

    def _expected_s(self, part: _Part, results: Array, bound: Array) -> Array:
        time, distinct = np.zeros(bound.shape), _Distinct()
        for kernels in part.kernels:
            time[kernels.at] = kernels.seconds(results, distinct)
        return np.maximum(launched(time, self.launch_s), bound)

    def seconds(self, lanes: Lanes, wanted: Mask) -> Array:
        """Expected time of one run of each operator [s], [ops, lanes], of lanes of one node; 0 of
        operators that share no part with wanted ones, [ops]."""
        seconds = np.zeros((len(self.graph.ops), lanes.size))
        for part in self.parts:
            if not wanted[part.rows].any():
                continue
            for start in range(0, lanes.size, _LANES):
                at = slice(start, start + _LANES)
                sizes = {name: values[:, at] for name, values in lanes.sizes.items()}
                results = part.results(sizes, 1)
                time = self._expected_s(part, results, part.bound_s(results))
                seconds[part.rows, at] = time[part.of]
        return seconds

    def bound_s(self, lanes: Lanes, weights: Array) -> Array:
        """Least times of one run of each operator, the nodes summed [s], [ops, lanes]."""
        bound = np.empty((len(self.graph.ops), lanes.size))
        for start in range(0, lanes.size, _LANES):
            at = slice(start, start + _LANES)
            sizes = {name: values[:, at] for name, values in lanes.sizes.items()}
            for part in self.parts:
                found = part.bound_s(part.results(sizes, len(weights)))
                several = part.nodes and len(weights) > 1
                found = mean(found, weights[:, at]) if several else found
                bound[part.rows, at] = found[part.of]
        return bound

    def figures(self, lanes: Lanes, weights: Array) -> Array:
        """`FIGURES` of every operator, nodes summed, [figures, ops, lanes]."""
        if "figures" not in self._columns:
            least = [roofline(op, self.system) for op in self.graph.ops]
            self._columns["figures"] = self._rows(
                *(limit.compute_s for limit in least),
                *(limit.memory_s for limit in least),
                *(limit.communication_s for limit in least),
                *(op.flops for op in self.graph.ops),
                *(op.memory_bytes for op in self.graph.ops),
            )
        found = self._taken("figures", lanes, len(weights))
        return mean(found, weights) if len(weights) > 1 else found

    def columns(self, names: tuple[str, ...], lanes: Lanes) -> Array:
        """Fields of every operator, [names, ops, lanes], of lanes of one node."""
        if names not in self._columns:
            numbers = (getattr(op, name) for name in names for op in self.graph.ops)
            self._columns[names] = self._rows(*numbers)
        return self._taken(names, lanes, 1)

    def _rows(self, *numbers: Any) -> tuple[Program, Rows]:
        places = _places(results_of(*numbers))
        return self.formulas.program(places), Rows.of(numbers, places)

    def _taken(self, key: Hashable, lanes: Lanes, nodes: int) -> Array:
        """Rows of fields, [fields, ops, nodes x lanes]."""
        program, rows = self._columns[key]
        found = rows.taken(_evaluated(program, lanes.sizes, nodes))
        return found.reshape(-1, len(self.graph.ops), found.shape[1])


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
    total: Array = values[0]
    if len(weights) > 1:
        total = np.einsum("kc,kc->c", np.broadcast_to(values, weights.shape), weights)
    return total


def mean(values: Array, weights: Array) -> Array:
    """Values [..., nodes x lanes] summed with weights [nodes, lanes], [..., lanes]."""
    split = values.reshape(*values.shape[:-1], *weights.shape)
    total: Array = split[..., 0, :] * weights[0]
    for node in range(1, len(weights)):
        total += split[..., node, :] * weights[node]
    return total


# ------------------------------------------------------------------------------- plans of lanes


_PLANS: ByIdentity[Plan | None] = ByIdentity(256)


def plan_of(deployed: Deployment, split: Parallelism, kind: Kind) -> Plan | None:
    """The plan of one split, its degrees numbers; made once.

    None where the sizes decide more than numbers, or where one's work hides another's time.
    """
    if split.overlap != "none" or deployed.placement is not None:
        return None

    def make() -> Plan | None:
        try:
            return Plan.of(deployed, split, kind)
        except Unresolved:
            return None

    degrees = (getattr(split, name) for name in _DEGREES)
    numbers = tuple(None if degree is None else float(degree) for degree in degrees)
    key = (*numbers, split.sequence_parallel, split.order, kind)
    return _PLANS.get(make, deployed.model, deployed.system, deployed.engine, values=key)


Plans = list[tuple[Plan, Places | slice]]


def plans(deployed: Deployment, lanes: Lanes) -> Plans | None:
    """The plan of every lane: pairs of a plan and its lanes; None where any has none."""
    found, kinds = [], list(_kinds(lanes))
    if len(kinds) > 2 and lanes.size * lanes.nodes < _WORTH * len(kinds):
        return None
    decoded = 1.0 + lanes.drafted
    for split, reads, at in kinds:
        kind = Kind(reads, lanes.fullest is not None, lanes.drafted, lanes.sampled)
        plan = plan_of(deployed, split, kind)
        if plan is None or not (reads or (lanes.new[:, at] == decoded).all()):
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
        priced = Priced(np.empty((len(plan.graph.ops), size)), np.empty(size), np.empty(size))
        for one, at in found:
            part = one.price(picked(lanes, at), weights[:, at])
            for name in ("expected_s", "stage_s", "least_s"):
                getattr(priced, name)[..., at] = getattr(part, name)
    host = engine.host_step_s + engine.sampling_s + engine.host_sequence_s * lanes.of_rank()
    each = weights.sum(axis=0)
    through = plan.runs @ priced.expected_s
    return StepEstimate(
        laid=Laid(plan.graph, partial(_graph, deployed, lanes)),
        system=deployed.system,
        engine=engine,
        figures=Figures(partial(_figures, lanes, weights, found)),
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
    )


def _figures(lanes: Lanes, weights: Array, found: Plans) -> Array:
    """`FIGURES` of every operator, nodes summed, [figures, ops, lanes]."""
    figures = np.empty((len(FIGURES), len(found[0][0].graph.ops), lanes.size))
    for plan, at in found:
        figures[..., at] = plan.figures(picked(lanes, at), weights[:, at])
    return figures


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


def operator_seconds(deployed: Deployment, lanes: Lanes, wanted: Mask) -> Array:
    """Expected time of one run of the wanted operators [s], [ops, lanes], of lanes of one node;
    anything of others."""
    found = plans(deployed, lanes)
    if found is None:
        graph, pricer = _graph(deployed, lanes), Pricer(deployed.system, deployed.engine)
        pairs = zip(graph.ops, wanted, strict=True)
        return stack((pricer.expected_s(op) if asked else 0.0 for op, asked in pairs), lanes.size)
    if len(found) == 1:
        return found[0][0].seconds(lanes, wanted)
    seconds = np.empty((len(wanted), lanes.size))
    for plan, at in found:
        seconds[:, at] = plan.seconds(picked(lanes, at), wanted)
    return seconds


def _graph(deployed: Deployment, lanes: Lanes) -> Graph:
    """The graph of lanes with its numbers, [nodes x lanes]."""
    group, split = lanes.flat()
    return of_busiest_rank(deployed.graph(Step((group,)), split), split)


def picked(lanes: Lanes, at: Places | slice) -> Lanes:
    """Some of the lanes; their split is that of all."""
    if isinstance(at, slice):
        return lanes
    sizes: dict[str, Any] = {name: values[:, at] for name, values in lanes.sizes.items()}
    return replace(lanes, **sizes)


def _kinds(lanes: Lanes) -> Iterator[tuple[Parallelism, bool, Places | slice]]:
    """(degrees as numbers, whether prompts are read, lanes) of lanes that one plan prices."""
    split = lanes.split
    degrees = ((name, getattr(split, name)) for name in _DEGREES)
    columns: dict[str, Array] = {name: values for name, values in degrees if np.ndim(values)}
    varying = [column for column in columns.values() if np.any(column != column[0])]
    reads = np.all(lanes.new > 1.0 + lanes.drafted, axis=0)
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
