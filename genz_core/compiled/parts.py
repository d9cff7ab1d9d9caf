"""Parts of a graph: operators that are priced together; equal ones are priced once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genz_core.compiled.kernels import Distinct, Kernels
from genz_core.compiled.lanes import pieces, sum_nodes
from genz_core.graphs import Graph, Op
from genz_core.latency import Pricer
from genz_core.latency.kernel_time import KernelTime
from genz_core.latency.models import Phase
from genz_core.latency.pricer import launched
from genz_core.latency.roofline import roofline
from genz_core.symbolic.formulas import Formulas
from genz_core.symbolic.programs import Program, Rows
from genz_core.symbolic.symbols import Symbol
from genz_core.systems import System
from genz_core.types import Array, Mask, Num, Places


@dataclass(frozen=True, slots=True)
class Part:
    """Operators that are priced together; those of equal time form one variant.

    rows: the operators in the graph; of: the variant of each, [ops].
    nodes: whether they are priced at each node of a lane.
    program: computes the expressions that the rows use.  limits: least times of a variant on each
    resource, [limits x variants] rows.
    runs, by_stage: of a variant, [1, variants], and on each pipeline stage, [stages, variants].
    launch_s: time that the host takes for a kernel.
    """

    rows: Places
    of: Places
    nodes: bool
    program: Program
    limits: Rows
    kernels: tuple[Kernels, ...]
    runs: Array
    by_stage: Array
    launch_s: float

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
    ) -> Part:
        """The part of some rows of a graph; phases, by_stage: of the graph's operators."""
        ops = [graph.ops[at] for at in rows]
        limits = [_limits(op, pricer.system) for op in ops]
        kernels = pricer.kernels_of(ops, [phases[at] for at in rows])
        variants: dict[Hashable, list[int]] = defaultdict(list)
        for at, limit in enumerate(limits):
            variants[_keys(limit), _kernel_key(kernels.get(at))].append(at)
        alike: dict[Hashable, dict[int, KernelTime]] = defaultdict(dict)
        for variant, members in enumerate(variants.values()):
            if (kernel := kernels.get(members[0])) is not None:
                alike[kernel.formula][variant] = kernel
        firsts = [limits[members[0]] for members in variants.values()]
        most = max(map(len, firsts))
        numbers = [first[at] if at < len(first) else 0.0 for at in range(most) for first in firsts]
        read = (n for group in alike.values() for k in group.values() for n in (*k.axes, k.work))
        program = Program.of(formulas, [*numbers, *read])
        of = np.empty(len(ops), dtype=np.intp)
        for variant, members in enumerate(variants.values()):
            of[members] = variant
        member = of == np.arange(len(variants))[:, None]
        counts = np.array([op.count for op in ops], dtype=float)
        return cls(
            np.array(rows, dtype=np.intp),
            of,
            nodes,
            program,
            Rows.of(numbers, program),
            tuple(Kernels.of(group, program) for group in alike.values()),
            (member @ counts)[None],
            by_stage[:, list(rows)] @ member.T,
            pricer.engine.launch_s,
        )

    def results(self, sizes: Mapping[str, Array], nodes: int) -> Array:
        """The expressions that the rows use, at the nodes or for the lanes, [results, nodes x
        lanes].
        """
        return evaluated(self.program, sizes, nodes if self.nodes else 1)

    def bound_s(self, results: Array) -> Array:
        """Least time of one run of each variant [s], [variants, nodes x lanes]."""
        limits = self.limits.taken(results)
        bound: Array = limits.reshape(-1, self.runs.size, limits.shape[1]).max(axis=0)
        return bound

    def expected_s(self, results: Array, wanted: Mask) -> Array:
        """Expected time of one run of each variant [s], [variants, nodes x lanes]; undefined for
        variants that are not wanted, [variants].
        """
        return self.at_least(self.kernels_s(results, wanted), self.bound_s(results))

    def kernels_s(self, results: Array, wanted: Mask | None = None) -> Array:
        """Time of the kernel of each variant [s], [variants, nodes x lanes]; 0 without one.

        wanted: the variants asked for, all by default; others may get 0, [variants].
        """
        time, distinct = np.zeros((self.runs.size, results.shape[1])), Distinct()
        for kernels in self.kernels:
            if wanted is None or wanted[kernels.at].any():
                kernels.put_seconds(time, results, distinct)
        return time

    def at_least(self, time: Num, bound: Num) -> Array:
        """Time of operators [s] whose kernels take `time`, but at least their bound."""
        return np.maximum(launched(time, self.launch_s), bound)

    def mean(self, values: Array, weights: Array) -> Array:
        """Values of the variants, nodes summed, [variants, lanes].

        values: [variants, nodes x lanes].  weights: [nodes, lanes].
        """
        return sum_nodes(values, weights) if self.nodes and len(weights) > 1 else values


def _limits(op: Op, system: System) -> list[Any]:
    """Least times of a run of an operator on the resources that it uses."""
    least = roofline(op, system)
    every = (least.compute_s, least.memory_s, least.communication_s)
    return [time for time in every if isinstance(time, Symbol) or time]


def _keys(numbers: Iterable[Any]) -> tuple[Hashable, ...]:
    return tuple(n.key if isinstance(n, Symbol) else float(n) for n in numbers)


def _kernel_key(kernel: KernelTime | None) -> Hashable:
    """A key that is equal for kernels of equal times."""
    if kernel is None:
        return None
    return kernel.formula, _keys((*kernel.axes, kernel.work, np.ravel(kernel.launch_s)[0]))


def evaluated(program: Program, sizes: Mapping[str, Array], nodes: int) -> Array:
    """The results of a program, [results, nodes x lanes]; a row of zeros where it has none."""
    lanes = sizes["cached"].shape[1]
    results = np.zeros((max(len(program.results), 1), nodes, lanes))
    for at in pieces(lanes):
        some = {name: size[:, at] for name, size in sizes.items()}
        for row, result in zip(results, program(some), strict=False):
            row[:, at] = result
    return results.reshape(len(results), -1)
