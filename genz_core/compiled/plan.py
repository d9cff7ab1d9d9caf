"""The plan of one split and one kind of lanes, and how it prices lanes of that kind."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.compiled.kinds import Kind
from genz_core.compiled.lanes import (
    OF_GRAPH,
    Lanes,
    Some,
    of_all_runs,
    of_lanes,
    pieces,
    sum_broadcast,
    sum_nodes,
)
from genz_core.compiled.parts import Part, evaluated
from genz_core.deployment import Deployment
from genz_core.graphs import Graph, Op
from genz_core.latency import Pricer
from genz_core.latency.models import Phase, depends_on_phase
from genz_core.latency.pricer import decoding
from genz_core.latency.roofline import roofline
from genz_core.steps.placed_graph import of_busiest_rank, stage_runs
from genz_core.symbolic.formulas import Formulas
from genz_core.symbolic.programs import Program, Rows
from genz_core.symbolic.symbols import Symbol
from genz_core.systems import System
from genz_core.types import Array, Mask, Num, Parallelism, Step

#: Lanes whose kernels are priced at a time, enough for token counts to repeat.
_PRICED = 65536
#: One instance for all plans of a deployment, so that equal formulas have identical objects.
_PRICERS: ByIdentity[Pricer] = ByIdentity()
_GRAPHS: ByIdentity[tuple[Formulas, Graph]] = ByIdentity()


class Priced(NamedTuple):
    """Prices of lanes, summed over their nodes [s].

    expected_s: of one run of each operator, [ops, lanes].
    stage_s: of the slowest pipeline stage; least_s: of the step; [lanes].
    """

    expected_s: Array
    stage_s: Array
    least_s: Array


@dataclass(frozen=True, slots=True)
class Plan:
    """A graph evaluated except for its sizes, and everything needed to price it.

    graph: its numbers are symbols of `formulas`, or constants.
    parts: of the graph.  runs: of each operator, [ops]; by_stage: on each stage, [stages, ops].
    unless: conditions under which the plan does not apply to a lane, because an operator that it
    prices as prefill decodes there.
    """

    formulas: Formulas
    graph: Graph
    parts: tuple[Part, ...]
    runs: Array
    by_stage: Array
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
        formulas, graph = _graph(deployed, split, kind)
        system, engine = deployed.system, deployed.engine
        pricer = _PRICERS.get(lambda: Pricer(system, engine), system, engine)
        every, settled = range(len(graph.ops)), [_phase(op) for op in graph.ops]
        phases = [phase for phase, _ in settled]
        depends = formulas.depends("cached")
        later = [kind.reads or kind.fullest or _follows(op, depends) for op in graph.ops]
        by_stage = stage_runs(graph, int(split.pp))
        parts = [
            Part.of_rows(formulas, graph, rows, pricer, phases, nodes, by_stage)
            for nodes in (False, True)
            if (rows := [at for at in every if later[at] == nodes])
        ]
        return cls(
            formulas,
            graph,
            tuple(parts),
            np.array([op.count for op in graph.ops], dtype=float),
            by_stage,
            Program.of(formulas, (unsure for _, unsure in settled)),
            deployed.system,
        )

    def holds(self, lanes: Lanes) -> bool:
        """Whether every operator has the phase that the plan assumes, in all of the lanes."""
        return not any(np.any(decodes) for decodes in self.unless(lanes.sizes))

    def price(self, lanes: Lanes, weights: Array, priced: Priced, among: Some) -> None:
        """Price steps.

        weights: of the nodes of a lane, [nodes, lanes].  priced: the arrays that take the prices,
        in the columns `among`.
        """
        for at, sizes in lanes.pieces(_PRICED):
            width = at.stop - at.start
            every = [part.results(sizes, len(weights)) for part in self.parts]
            known = [(r, part.kernels_s(r)) for part, r in zip(self.parts, every, strict=True)]
            for piece in pieces(width):
                some = [tuple(of_lanes(array, piece, width) for array in pair) for pair in known]
                to = _within(among, at.start + piece.start, at.start + piece.stop)
                self._price(some, weights[:, at][:, piece], priced, to)

    def _price(
        self,
        known: Sequence[tuple[Array, ...]],
        weights: Array,
        priced: Priced,
        to: Some,
    ) -> None:
        """Price a few steps; known: the results of each part, and the times of its kernels."""
        stage: Num = 0.0
        least: Num = 0.0
        for part, (results, kernels_s) in zip(self.parts, known, strict=True):
            bound = part.bound_s(results)
            time = part.at_least(kernels_s, bound)
            least = least + of_all_runs(part.runs, bound).reshape(-1, weights.shape[1])
            on_stages = of_all_runs(part.by_stage, time)
            stage = stage + on_stages.reshape(len(on_stages), -1, weights.shape[1])
            mean = part.mean(time, weights)
            for row, variant in zip(part.rows, part.of, strict=True):
                priced.expected_s[row, to] = mean[variant]
        priced.stage_s[to] = sum_broadcast(np.max(stage, axis=0), weights)
        priced.least_s[to] = sum_broadcast(np.asarray(least), weights)

    def seconds(self, lanes: Lanes, wanted: Mask) -> Array:
        """Expected time of one run of each operator [s], [ops, lanes], of lanes with one node;
        undefined for operators that are not wanted, [ops].
        """
        seconds = np.zeros((len(self.graph.ops), lanes.size))
        parts = [part for part in self.parts if wanted[part.rows].any()]
        for at, sizes in lanes.pieces(_PRICED):
            for part in parts:
                variants = np.bincount(part.of[wanted[part.rows]], minlength=part.runs.size) > 0
                time = part.expected_s(part.results(sizes, 1), variants)
                seconds[part.rows, at] = time[part.of]
        return seconds

    def bound_s(self, lanes: Lanes, weights: Array) -> Array:
        """Least times of one run of each operator, the nodes summed [s], [ops, lanes]."""
        bound = np.empty((len(self.graph.ops), lanes.size))
        for at, sizes in lanes.pieces():
            for part in self.parts:
                found = part.bound_s(part.results(sizes, len(weights)))
                bound[part.rows, at] = part.mean(found, weights[:, at])[part.of]
        return bound

    def least_s(self, lanes: Lanes, weights: Array) -> Array:
        """Least time of steps without a pipeline, the nodes summed [s], [lanes]."""
        seconds = np.empty(lanes.size)
        for at, sizes in lanes.pieces():
            some, least = weights[:, at], np.zeros((1, 1))
            for part in self.parts:
                bound = part.bound_s(part.results(sizes, len(weights)))
                least = least + of_all_runs(part.runs, bound).reshape(-1, some.shape[1])
            seconds[at] = sum_broadcast(least, some)
        return seconds

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
        return sum_nodes(found, weights) if len(weights) > 1 else found

    def columns(self, names: tuple[str, ...], lanes: Lanes) -> Array:
        """Fields of every operator, [names, ops, lanes], of lanes of one node."""
        self._make(names)
        return self._taken(names, lanes, 1)

    def numbers(self, names: tuple[str, ...], sizes: Mapping[str, Any]) -> list[list[Any]]:
        """Fields of every operator, by name and operator; sizes: numbers or symbols by name."""
        self._make(names)
        program, rows = self._columns[names]
        found, count = rows.numbers(program(sizes)), len(self.graph.ops)
        return [found[at : at + count] for at in range(0, len(found), count)]

    def _make(self, names: tuple[str, ...]) -> None:
        if names not in self._columns:
            numbers = (getattr(op, name) for name in names for op in self.graph.ops)
            self._columns[names] = self._rows(*numbers)

    def _rows(self, *numbers: Any) -> tuple[Program, Rows]:
        program = Program.of(self.formulas, numbers)
        return program, Rows.of(numbers, program)

    def _taken(self, key: Hashable, lanes: Lanes, nodes: int) -> Array:
        """Rows of fields of every operator, [fields, ops, nodes x lanes]."""
        program, rows = self._columns[key]
        found = rows.taken(evaluated(program, lanes.sizes, nodes))
        return found.reshape(-1, len(self.graph.ops), found.shape[1])


def key_of(split: Parallelism, kind: Kind) -> Hashable:
    """A key that is equal for equal degrees and kinds."""
    degrees = (getattr(split, name) for name in OF_GRAPH)
    numbers = (None if degree is None else float(degree) for degree in degrees)
    return (*numbers, split.sequence_parallel, split.order, kind)


def _graph(deployed: Deployment, split: Parallelism, kind: Kind) -> tuple[Formulas, Graph]:
    """The graph of a kind of step, whose numbers are symbols, and their formulas; one for all
    systems, and for all engines that run the model alike.
    """

    def make() -> tuple[Formulas, Graph]:
        formulas = Formulas()
        step = Step((kind.group(formulas),))
        return formulas, of_busiest_rank(deployed.executed.graph(step, split), split)

    engine, key = deployed.engine, key_of(split, kind)
    return _GRAPHS.get(make, deployed.model, engine.eager, engine.shared_beside, values=key)


def _within(some: Some, start: int, stop: int) -> Some:
    """A part of a selection of lanes."""
    return slice(start, stop) if isinstance(some, slice) else some[start:stop]


def _phase(op: Op) -> tuple[Phase, Symbol | None]:
    """The phase of an operator, and the condition where it depends on the sizes: prefill unless it
    holds.
    """
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
