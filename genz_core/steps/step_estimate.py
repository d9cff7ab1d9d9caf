"""A priced step, arrays [ops, configs]: its times, their parts, and tables of its operators.

A single configuration is an array of length one.  Each operator's time is the sum of its parts, and
a step is the sum of its operators, the pipeline's wait and the host's time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from genz_core.common.short_repr import clipped, spans
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph, Op, picked
from genz_core.latency import Explanation, Pricer
from genz_core.latency.roofline import fastest_of
from genz_core.systems import System
from genz_core.types import Array, Places
from genz_core.validity import stack

#: The parts of an operator's expected latency, in the order in which they are drawn.
PARTS = ("compute", "tiles", "memory", "bandwidth", "communication", "links", "launch")
#: {resource that binds an operator: name of its time beyond that bound}, in the order that breaks
#: ties.
_BEYOND: Mapping[str, str] = {"communication": "links", "compute": "tiles", "memory": "bandwidth"}
#: Fields of a `StepEstimate` that are arrays over configurations.
BY_CONFIG = (
    "expected_s", "stage_s", "wait_s", "least_s", "stages", "micro_batches", "host_s", "learned_s",
)  # fmt: skip
#: Figures taken from the operators, of one run of each.
FIGURES = ("compute_s", "memory_s", "communication_s", "flops", "bytes")


class Laid:
    """Graph of several steps, whose numbers are computed on demand.

    outline: the same operators in the same order, but with numbers that may be of other sizes.
    """

    def __init__(self, outline: Graph, make: Callable[[], Graph] | None = None) -> None:
        self.outline, self._make = outline, make

    @cached_property
    def graph(self) -> Graph:
        """The operators, with their numbers as scalars or arrays."""
        return self.outline if self._make is None else self._make()


class Figures:
    """`FIGURES` of every operator, computed on demand."""

    def __init__(self, make: Callable[[], Array]) -> None:
        self._make = make

    @cached_property
    def array(self) -> Array:
        """[figures, ops, configs]."""
        return self._make()

    def changed(self, change: Callable[..., Array], given: Array | Places) -> Figures:
        """The figures changed by a function."""
        return Figures(partial(_changed, self, change, given))


def _changed(figures: Figures, change: Callable[..., Array], given: Array | Places) -> Array:
    return change(figures.array, given)


def _columns_of(values: Array, columns: Places) -> Array:
    return values[..., columns]


@dataclass(frozen=True)
class StepEstimate:
    """A priced step; times in seconds.

    laid: the graph that was priced, possibly for several steps; lane: the columns of this step,
    None for all.
    figures: see `compute_s`, `memory_s`, `communication_s`, `flops` and `bytes`.
    runs: runs of each operator in the step, [ops].  expected_s: expected time of one run,
    [ops, configs].
    stage_s: time of the slowest pipeline stage for the largest micro-batch, [configs].
    wait_s: time of the step beyond that micro-batch's time through all stages, [configs].
    least_s: least time of the step under any schedule, [configs].
    stages: pipeline stages; micro_batches: runs of one, [configs].  host_s: host time, [configs].
    learned_s: correction by measured runs, positive or negative, [configs].
    node_weights: [nodes, configs], weights of the contexts that a mean step averages, or the number
    of chunks of a prompt (a run is then one in each chunk); the graph's numbers are ordered node by
    node, [nodes x configs].  None: a single node of weight one.
    moved_s: the part of `host_s` for offloaded data, [configs]; None without offload.
    """

    laid: Laid
    system: System
    engine: EngineProfile
    figures: Figures
    runs: Array
    expected_s: Array
    stage_s: Array
    wait_s: Array
    least_s: Array
    stages: Array
    micro_batches: Array
    host_s: Array
    learned_s: Array
    node_weights: Array | None = None
    lane: Places | None = None
    moved_s: Array | None = None

    @property
    def compute_s(self) -> Array:
        """Least time of the arithmetic of one run of each operator [s], [ops, configs]."""
        return self._figure("compute_s")

    @property
    def memory_s(self) -> Array:
        """Least time of the memory traffic of one run [s], [ops, configs]."""
        return self._figure("memory_s")

    @property
    def communication_s(self) -> Array:
        """Least time of the messages of one run [s], [ops, configs]."""
        return self._figure("communication_s")

    @property
    def flops(self) -> Array:
        """FLOPs of one run, [ops, configs]."""
        return self._figure("flops")

    @property
    def bytes(self) -> Array:
        """Memory traffic of one run, [ops, configs]."""
        return self._figure("bytes")

    def _figure(self, name: str) -> Array:
        figure: Array = self.figures.array[FIGURES.index(name)]
        return figure

    @property
    def graph(self) -> Graph:
        """The operators of the step, with their numbers as scalars or arrays [configs]."""
        lanes = self.laid.graph
        if self.lane is None:
            return lanes
        return replace(lanes, ops=tuple(picked(op, self.lane) for op in lanes.ops))

    @property
    def outline(self) -> Graph:
        """Names, kinds and places of the operators of the step; its numbers must not be read."""
        return self.laid.outline

    def of_columns(self, columns: Places) -> StepEstimate:
        """The step for a selection of configurations, which may repeat."""
        changes: dict[str, Any] = {name: getattr(self, name)[..., columns] for name in BY_CONFIG}
        nodes = 1 if self.node_weights is None else len(self.node_weights)
        starts = np.arange(nodes)[:, None] * self.configs
        places: Places = (starts + columns).ravel()
        if self.node_weights is not None:
            changes["node_weights"] = self.node_weights[:, columns]
        if self.moved_s is not None:
            changes["moved_s"] = self.moved_s[..., columns]
        places = places if self.lane is None else self.lane[places]
        figures = self.figures.changed(_columns_of, columns)
        return replace(self, **changes, figures=figures, lane=places)

    def __repr__(self) -> str:
        figures = (("total_s", self.total_s), ("bound_total_s", self.bound_total_s))
        return (
            f"StepEstimate({len(self.outline.ops):,} operators x {self.configs:,} configurations "
            f"on {clipped(self.system.name)} under {clipped(self.engine.name)}:\n"
            f"  {spans(figures)})"
        )

    @property
    def configs(self) -> int:
        """Number of configurations: the columns of every array."""
        return int(self.expected_s.shape[1])

    def op(self, row: int, config: int = 0) -> Op:
        """Operator `row` in one configuration; arrays [nodes] where its figures are averages."""
        op = self.laid.graph.ops[row]
        in_lane = op if self.lane is None else picked(op, self.lane)
        return picked(in_lane, slice(config, None, self.configs))

    def explain(self, row: int, config: int = 0) -> Explanation:
        """Price of one run of operator `row` in one configuration, broken down into scalars."""
        pricer = Pricer(self.system, self.engine)
        weights = (1.0,) if self.node_weights is None else tuple(self.node_weights[:, config])
        return pricer.explain(self.op(row, config)).mean(weights)

    @property
    def bound_s(self) -> Array:
        """Least time of one run, [ops, configs]."""
        return np.maximum(np.maximum(self.compute_s, self.memory_s), self.communication_s)

    @property
    def operators_s(self) -> Array:
        """Expected time of each operator over all its runs, [ops, configs]."""
        return self.expected_s * self.runs[:, None]

    @property
    def pipeline_s(self) -> Array:
        """Time that a micro-batch waits for others [s], [configs]; 0 without a pipeline."""
        return self.wait_s

    @cached_property
    def total_s(self) -> Array:
        """Expected latency of the step, [configs]: operators, pipeline wait, host, and the
        correction by measured runs.
        """
        total_s: Array = self.operators_s.sum(0) + self.pipeline_s + self.host_s + self.learned_s
        return total_s

    def learned_factor(self, config: int = 0) -> float:
        """Factor by which measured runs change a step's time beyond its operators' bounds."""
        learned = float(self.learned_s[config])
        if not learned:
            return 1.0
        beyond = float(self.total_s[config] - self.bound_s[:, config] @ self.runs)
        return max(beyond, 0.0) / (beyond - learned)

    @property
    def bound_total_s(self) -> Array:
        """Least latency of the step under any schedule, [configs]."""
        return self.least_s

    def parts(self) -> dict[str, Array]:
        """Parts of each operator's time by name, [ops, configs] each; they sum to `operators_s`.

        The bound is attributed to the resource that limits the operator.  Of the rest, "launch" is
        the time before a kernel starts working, or the host's time to launch it; the remainder is
        named after its cause: "tiles" (tiles do not fill the device, or run below its peak),
        "bandwidth" (below its peak), "links" (time of a collective beyond its bytes).
        """
        bound, pricer = self.bound_s, Pricer(self.system, self.engine)
        binding = np.argmax(np.stack([self.communication_s, self.compute_s, self.memory_s]), axis=0)
        waits_for, longer = binding.copy(), self._of_a_run(pricer.arithmetic_over_memory_s)
        waits_for[longer > 0.0], waits_for[longer < 0.0] = 1, 2
        over = self.expected_s - bound
        launch = np.minimum(over, self._of_a_run(pricer.launch_s))
        split = {"launch": launch}
        for at, (resource, beyond) in enumerate(_BEYOND.items()):
            split[resource] = np.where(binding == at, bound, 0.0)
            split[beyond] = np.where(waits_for == at, over - launch, 0.0)
        return {name: split[name] * self.runs[:, None] for name in PARTS}

    def _of_a_run(self, seconds: Callable[[Op], Array]) -> Array:
        """Seconds of an operator's configurations, averaged over the nodes, [ops, configs]."""
        weights = self.node_weights
        nodes = 1 if weights is None else len(weights)
        each = stack((seconds(op) for op in self.graph.ops), nodes * self.configs)
        if weights is None:
            return each
        mean_s: Array = np.einsum("okc,kc->oc", each.reshape(len(each), nodes, -1), weights)
        return mean_s

    def table(self, config: int = 0) -> dict[str, list[object]]:
        """Table of the operators in one configuration: {column: values [ops]}.

        Columns: name, kind, class, module, runs, flops, bytes (both per run), flops_per_byte,
        compute, bound_s, predicted_s (all runs), share, bound, and the parts in seconds.
        """
        ops, parts = self.graph.ops, {n: part[:, config] for n, part in self.parts().items()}
        seconds, bound = self.operators_s[:, config], (self.bound_s * self.runs[:, None])[:, config]
        flops, moved = self.flops[:, config].tolist(), self.bytes[:, config].tolist()
        total = max(float(seconds.sum()), np.finfo(float).tiny)
        columns: dict[str, list[object]] = {
            "name": [op.name for op in ops],
            "kind": [op.kind for op in ops],
            "class": [op.operator_class for op in ops],
            "module": [op.module for op in ops],
            "runs": self.runs.tolist(),
            "flops": flops,
            "bytes": moved,
            "flops_per_byte": [f / b if b else 0.0 for f, b in zip(flops, moved, strict=True)],
            "compute": [fastest_of(op, self.system) for op in ops],
            "bound_s": bound.tolist(),
            "predicted_s": seconds.tolist(),
            "share": (seconds / total).tolist(),
            "bound": list(_bounds(parts)),
        }
        return columns | {f"{name}_s": part.tolist() for name, part in parts.items()}


def _bounds(parts: Mapping[str, Array]) -> list[str]:
    """The bottleneck of each operator: the resource (including its inefficiency) that takes most
    of its time, or "overhead" for its launch.

    parts: of each operator's time, [ops] each.
    """
    names = (*_BEYOND, "overhead")
    shares = [parts[resource] + parts[beyond] for resource, beyond in _BEYOND.items()]
    return [names[at] for at in np.argmax(np.stack([*shares, parts["launch"]]), axis=0)]
