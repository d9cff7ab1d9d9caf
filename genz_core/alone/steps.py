"""A step on symbols: its plan's parts at its nodes, each no faster than its bounds."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from genz_core.alone.kernels import AskedKernel, Kernels
from genz_core.compiled.parts import Part
from genz_core.compiled.plan import Plan
from genz_core.deployment import Deployment
from genz_core.steps.placed_graph import launches
from genz_core.types import Array, Group, Parallelism


def sizes_of(group: Group) -> dict[str, Any]:
    """Sizes by the names used in plans."""
    return {
        "sequences": group.sequences,
        "new": group.new_tokens,
        "cached": group.cached_tokens,
        "prompt": group.prompt,
        "fullest": group.fullest,
    }


def weighted_sum(weights: Sequence[Any] | Array, values: Sequence[Any]) -> Any:
    pairs = zip(weights, values, strict=True)
    return reduce(np.add, (value * weight for weight, value in pairs))


@dataclass(slots=True)
class SymbolicStep:
    """A step on symbols, in the form of `StepEstimate`."""

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
class Phase:
    """A step at its nodes: (group, weight) of each node, and the bounds and kernels of each part
    there.
    """

    plan: Plan
    nodes: list[tuple[Any, Any]]
    parts: list[tuple[Part, list[tuple[list[Any], dict[int, AskedKernel]]]]]
    least: Any = None

    @classmethod
    def of(
        cls, plan: Plan, nodes: list[tuple[Any, Any]], kernels: Kernels, unless: list[Any]
    ) -> Phase:
        parts = []
        for part in plan.parts:
            at_nodes = []
            for group, _ in nodes if part.nodes else nodes[:1]:
                results = part.program(sizes_of(group))
                limits, variants = part.limits.numbers(results), part.runs.size
                bounds = [reduce(np.maximum, limits[at::variants]) for at in range(variants)]
                at_nodes.append((bounds, dict(kernels.ask(part, results))))
            parts.append((part, at_nodes))
        unless += [reads for group, _ in nodes for reads in plan.unless(sizes_of(group))]
        return cls(plan, nodes, parts)

    def least_s(self) -> Any:
        """Least time of the step, see `Plan.price`."""
        return reduce(
            np.add,
            (
                weighted_sum(part.runs[0], self._mean([bounds for bounds, _ in at_nodes]))
                for part, at_nodes in self.parts
            ),
        )

    def step(
        self,
        times: Mapping[Hashable, Any],
        deployed: Deployment,
        split: Parallelism,
        *,
        reads: bool,
    ) -> SymbolicStep:
        """The step, once the kernels' times are known.  reads: whether it prefills prompts."""
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
            stage = stage + weighted_sum(part.by_stage[0], mean)
            for row, variant in zip(part.rows, part.of, strict=True):
                expected[row] = mean[variant]
        engine, least = deployed.engine, self.least_s() if self.least is None else self.least
        hosts = [
            [engine.host_step_s + engine.sampling_s
             + engine.host_sequence_s * group.of_rank(split.dp)]
            for group, _ in self.nodes
        ]  # fmt: skip
        operators = weighted_sum(self.plan.runs, expected)
        wait = np.maximum(least - operators, 0.0)
        host = self._mean(hosts)[0]
        if reads or engine.launches_decodes:
            launched = reduce(np.add, (weight for _, weight in self.nodes))
            launched = launched * launches(self.plan.graph, self.plan.runs)
            tokens = reduce(np.maximum, (g.of_rank(split.dp) * g.new_tokens for g, _ in self.nodes))
            captured = engine.captured_tokens(1.0 + self.nodes[0][0].drafted)
            host = host + engine.launching_s(launched, operators, tokens, reads, captured)
        return SymbolicStep(expected, stage, wait, least, host, operators)

    def _mean(self, at_nodes: list[list[Any]]) -> list[Any]:
        """Values at the nodes, by variant, summed with their weights."""
        if len(at_nodes) == 1:
            return at_nodes[0]
        weights = [weight for _, weight in self.nodes]
        return [weighted_sum(weights, values) for values in zip(*at_nodes, strict=True)]
