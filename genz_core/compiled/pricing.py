"""Prices of lanes by their plans: each plan is made once and prices the lanes of its kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.compiled.kinds import Kind, kinds
from genz_core.compiled.lanes import Lanes, Some, of_all_runs, sum_broadcast
from genz_core.compiled.plan import Plan, Priced, key_of
from genz_core.deployment import Deployment
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph
from genz_core.latency import Pricer
from genz_core.steps.placed_graph import launches, of_busiest_rank
from genz_core.steps.step import operators_s
from genz_core.steps.step_estimate import Figures, Laid, StepEstimate
from genz_core.symbolic.symbols import Unresolved
from genz_core.types import Array, Mask, Num, Parallelism, Step
from genz_core.validity import stack

#: number of steps for each kind beyond two above which making their plans is faster than pricing
#: them through a graph
_WORTH = 900
_PLANS: ByIdentity[Plan | None] = ByIdentity(64)


def plan_of(deployed: Deployment, split: Parallelism, kind: Kind) -> Plan | None:
    """The plan of one split, with degrees as numbers; made once.

    None if sizes change more than numbers, or if one operator's work overlaps with another's.
    """
    if split.overlap != "none" or deployed.placement is not None:
        return None

    def make() -> Plan | None:
        try:
            return Plan.of(deployed, split, kind)
        except Unresolved:
            return None

    key = key_of(split, kind)
    return _PLANS.get(make, deployed.model, deployed.system, deployed.engine, values=key)


@dataclass(frozen=True, slots=True)
class Plans:
    """The plans of all lanes.

    lanes: all of them.  of_kinds: for each kind its plan, its lanes, and their indices among all.
    Weights are of the nodes of all lanes, [nodes, lanes].
    """

    lanes: Lanes
    of_kinds: tuple[tuple[Plan, Lanes, Some], ...]

    @property
    def graph(self) -> Graph:
        """The operators; their numbers are symbols and must not be read."""
        return self.of_kinds[0][0].graph

    @property
    def runs(self) -> Array:
        """Runs of each operator in a step, [ops]."""
        return self.of_kinds[0][0].runs

    def price(self, weights: Array) -> Priced:
        """The lanes priced, nodes summed."""
        size = self.lanes.size
        priced = Priced(np.empty((len(self.runs), size)), np.empty(size), np.empty(size))
        for plan, lanes, at in self.of_kinds:
            plan.price(lanes, weights[:, at], priced, at)
        return priced

    def bound_s(self, weights: Array) -> Array:
        """Least time of one run of each operator, nodes summed [s], [ops, lanes]."""
        (bound,) = self._all(lambda plan, lanes, at: (plan.bound_s(lanes, weights[:, at]),))
        return bound

    def least_s(self, weights: Array) -> Array:
        """Least time of steps without a pipeline, nodes summed [s], [lanes]."""
        (least,) = self._all(lambda plan, lanes, at: (plan.least_s(lanes, weights[:, at]),))
        return least

    def figures(self, weights: Array) -> Array:
        """`FIGURES` of every operator, nodes summed, [figures, ops, lanes]."""
        (figures,) = self._all(lambda plan, lanes, at: (plan.figures(lanes, weights[:, at]),))
        return figures

    def columns(self, names: tuple[str, ...]) -> Array:
        """Fields of every operator, [names, ops, lanes], of lanes of one node."""
        (columns,) = self._all(lambda plan, lanes, at: (plan.columns(names, lanes),))
        return columns

    def seconds(self, wanted: Mask) -> Array:
        """Expected time of one run of each operator [s], [ops, lanes], of lanes with one node;
        undefined for operators that are not wanted, [ops].
        """
        (seconds,) = self._all(lambda plan, lanes, at: (plan.seconds(lanes, wanted),))
        return seconds

    def _all(self, ask: Callable[[Plan, Lanes, Some], tuple[Array, ...]]) -> tuple[Array, ...]:
        """The answer of every plan for its lanes, combined: arrays [..., lanes]."""
        if len(self.of_kinds) == 1:
            return ask(*self.of_kinds[0])
        whole: tuple[Array, ...] = ()
        for plan, lanes, at in self.of_kinds:
            found = ask(plan, lanes, at)
            whole = whole or tuple(np.empty((*a.shape[:-1], self.lanes.size)) for a in found)
            for array, of_lanes in zip(whole, found, strict=True):
                array[..., at] = of_lanes
        return whole


def plans(deployed: Deployment, lanes: Lanes) -> Plans | None:
    """The plans of all lanes; None where any lane has none."""
    told_apart = kinds(lanes, most=2.0 + lanes.size * lanes.nodes / _WORTH)
    if not told_apart or not (lanes.sequences > 0).all():
        return None
    found = []
    for split, kind, at in told_apart:
        some = lanes if len(told_apart) == 1 else lanes.picked(at)
        plan = plan_of(deployed, split, kind) if kind.has(some) else None
        if plan is None or not plan.holds(some):
            return None
        found.append((plan, some, at))
    return Plans(lanes, tuple(found))


def by_plans(deployed: Deployment, found: Plans, weights: Array) -> StepEstimate:
    """Lanes priced by their plans, nodes summed with weights [nodes, lanes]."""
    engine, lanes, priced = deployed.engine, found.lanes, found.price(weights)
    host = engine.host_step_s + engine.sampling_s + engine.host_sequence_s * lanes.of_rank()
    each = weights.sum(axis=0)
    (operators_s,) = of_all_runs(found.runs[None], priced.expected_s)
    host = sum_broadcast(host, weights) + launching_s(
        engine, lanes, weights, launches(found.graph, found.runs), operators_s
    )
    return StepEstimate(
        laid=Laid(found.graph, partial(_graph, deployed, lanes)),
        system=deployed.system,
        engine=engine,
        figures=Figures(partial(found.figures, weights)),
        runs=found.runs,
        expected_s=priced.expected_s,
        stage_s=priced.stage_s,
        wait_s=np.maximum(priced.least_s - operators_s, 0.0),
        least_s=priced.least_s,
        stages=lanes.split.pp * each,
        micro_batches=each,
        host_s=host,
        learned_s=np.zeros(lanes.size),
        node_weights=None if len(weights) == 1 else weights,
    )


def launching_s(
    engine: EngineProfile, lanes: Lanes, weights: Array, launched: Num, operators_s: Array
) -> Array | float:
    """Time for which the device waits for the launches of all nodes together [s], [lanes].

    weights: [nodes, lanes].  launched: operators that the host launches in a node.  operators_s:
    time of those of all nodes, [lanes].
    """
    query = 1.0 + lanes.drafted
    reads = np.max(lanes.new, axis=0) > query
    if not engine.launches_decodes and not reads.any():
        return 0.0
    tokens = np.max(lanes.of_rank() * lanes.new, axis=0)
    launched = weights.sum(axis=0) * launched
    captured = engine.captured_tokens(query)
    return np.asarray(engine.launching_s(launched, operators_s, tokens, reads, captured))


def operator_columns(
    deployed: Deployment, lanes: Lanes, names: tuple[str, ...]
) -> tuple[Graph, Array]:
    """Fields of every operator, [names, ops, lanes], of lanes with one node; and the graph, whose
    numbers must not be read.
    """
    found = plans(deployed, lanes)
    if found is not None:
        return found.graph, found.columns(names)
    graph = _graph(deployed, lanes)
    fields = [stack((getattr(op, name) for op in graph.ops), lanes.size) for name in names]
    return graph, np.stack(fields)


def operator_seconds(deployed: Deployment, lanes: Lanes, wanted: Mask) -> Array:
    """Expected time of one run of the wanted operators [s], [ops, lanes], of lanes with one node;
    undefined for others.
    """
    found = plans(deployed, lanes)
    if found is not None:
        return found.seconds(wanted)
    graph, pricer = _graph(deployed, lanes), Pricer(deployed.system, deployed.engine)
    if lanes.split.overlap != "none":
        return operators_s(graph, lanes.split, pricer, lanes.size)
    pairs = zip(graph.ops, wanted, strict=True)
    return stack((pricer.expected_s(op) if asked else 0.0 for op, asked in pairs), lanes.size)


def _graph(deployed: Deployment, lanes: Lanes) -> Graph:
    """The graph of lanes with its numbers, [nodes x lanes]."""
    group, split = lanes.flat()
    return of_busiest_rank(deployed.graph(Step((group,)), split), split)
