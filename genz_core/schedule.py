"""Schedules of a step: prompts in chunks, and sequences in the micro-batches of a pipeline.

Chunks   a step takes at most the engine's token budget: the prompts of a batch are read in full
         steps and one with the rest, each priced at the mean number of preceding tokens (attention
         is linear in it).
Pipeline whole sequences in m micro-batches, the larger ones first.  A prefill takes the best of m =
         stages, four times as many, and one per sequence; a decode step uses m = stages.
Least    a bound for every schedule of whole sequences: the whole batch crosses one stage, and one
         sequence the stages before and after it; for consecutive decode steps, the longer of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.compiled.lanes import SPLIT, Lanes, sum_nodes
from genz_core.compiled.pricing import by_plans, launching_s, plans
from genz_core.deployment import Deployment
from genz_core.engine import EngineProfile
from genz_core.models.model_kinds import model_kind
from genz_core.steps.overlap import bound_s
from genz_core.steps.placed_graph import launches, of_busiest_rank, stage_runs
from genz_core.steps.step import price
from genz_core.steps.step_estimate import BY_CONFIG, StepEstimate
from genz_core.types import Array, Group, Num, Parallelism, Step, Workload
from genz_core.validity import spread_out

#: Gauss-Legendre nodes and weights on [0, 1]: exact for costs up to degree five in the context.
NODES = (1 + np.array([-1, 0, 1]) * np.sqrt(3 / 5)) / 2
WEIGHTS = np.array([5, 8, 5]) / 18
#: Fewest tokens of a rank of the context in the last of several steps of a prompt: one would be
#: priced as a decode step.
LEAST_REST = 2.0
_MORE_PARTS = 4.0  # micro-batches per stage, for a schedule between few and one per sequence


@dataclass(frozen=True, slots=True)
class Batches:
    """Equal sequences of steps to schedule.

    sequences, new, cached: sequences [configs], and tokens of each [nodes, configs]; several nodes
    are averaged by `weights` [nodes].  split: degrees, numbers or [configs].
    follows: steps follow one another without a gap (decode); otherwise they read prompts.
    prompt: tokens of each sequence's prompt, number or [configs]; 0 where unknown.
    """

    sequences: Array
    new: Array
    cached: Array
    split: Parallelism
    weights: Array
    follows: bool
    prompt: Num = 0.0

    @property
    def size(self) -> int:
        """Number of configurations."""
        return self.sequences.size

    @property
    def piped(self) -> bool:
        """Whether any configuration has more than one pipeline stage."""
        return bool(np.any(np.asarray(self.split.pp) > 1))

    def lanes(self, laid: Sequence[Array]) -> Lanes:
        """The lanes for several numbers of sequences, [nodes, laid x configs]."""
        ways = len(laid)
        varying: dict[str, Any] = {
            name: np.tile(np.broadcast_to(degree, (self.size,)), ways)
            for name in SPLIT
            if np.ndim(degree := getattr(self.split, name))
        }
        prompt = np.broadcast_to(np.asarray(self.prompt, dtype=float), (self.size,))
        return Lanes(
            np.concatenate(laid)[None],
            np.tile(self.new, ways),
            np.tile(self.cached, ways),
            np.tile(prompt, ways)[None],
            replace(self.split, **varying) if varying else self.split,
        )


def context(isl: Num, osl: Num, node: Num) -> Num:
    """Context of a decode step at a node of the output; numbers or arrays that broadcast."""
    return isl + node * np.maximum(osl - 2.0, 0.0)


def scheduled(deployed: Deployment, batches: Batches) -> StepEstimate:
    """Price steps under their schedule; the operators of the result are those of the largest
    micro-batch.

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    ways = _ways(batches) if batches.piped else []
    laid = [size for way in ways for size in (way.large, way.small)] or [batches.sequences]
    lanes = batches.lanes(laid)
    weights = np.repeat(batches.weights[:, None], lanes.size, axis=1)
    if not batches.follows:
        engine = reading_engine(deployed)
        if exceeds(lanes, engine):
            lanes, weights = chunks(lanes, engine)
    step = priced(deployed, lanes, weights)
    whole = not ways and len(weights) == len(batches.new)
    if whole:
        return step
    return _in_pipeline(step, ways, least_s(deployed, batches), batches)


def priced(deployed: Deployment, lanes: Lanes, weights: Array) -> StepEstimate:
    """Price lanes, summing their nodes with weights [nodes, lanes]: by their plans where they have
    some, otherwise through a graph of all lanes.
    """
    found = plans(deployed, lanes)
    if found is None:
        group, split = lanes.flat()
        step, system = Step((group,)), deployed.system
        graph = deployed.graph(step, split)
        total = summed(price(graph, step, system, split, deployed.engine, alone=False), weights)
        operators_s = total.operators_s.sum(0)
        launched = launches(total.graph, total.runs)
        waits = launching_s(deployed.engine, lanes, weights, launched, operators_s)
        return replace(
            total,
            wait_s=np.maximum(total.least_s - operators_s, 0.0),
            host_s=total.host_s + waits,
        )
    return by_plans(deployed, found, weights)


def reading_engine(deployed: Deployment) -> EngineProfile:
    """The engine for prefill: without chunking if a model needs one pass over the whole prompt."""
    if model_kind(deployed.model) == "decoder":
        return deployed.engine
    return replace(deployed.engine, chunked_prefill=False)


def exceeds(lanes: Lanes, engine: EngineProfile) -> bool:
    """Whether the prompts of any lane exceed the token budget of a rank's step."""
    if not engine.chunk_tokens:
        return False
    return bool(np.any(lanes.of_rank() * lanes.new > most_tokens(lanes.new, engine)))


def chunks(lanes: Lanes, engine: EngineProfile) -> tuple[Lanes, Array]:
    """Full steps that read the prompts of lanes with one node, and the step with the rest.

    Returns them as nodes, and the number of each, [2, lanes].
    """
    whole = Group(lanes.sequences[0], lanes.new[0], lanes.cached[0])
    nodes = chunk_nodes(whole, lanes.of_rank()[0], lanes.split.cp, engine)
    names = {"sequences": "sequences", "fullest": "fullest", "new": "new_tokens",
             "cached": "cached_tokens"}  # fmt: skip
    sizes: dict[str, Any] = {
        name: np.stack([getattr(group, field) for group, _ in nodes])
        for name, field in names.items()
    }
    return replace(lanes, **sizes), np.stack([times for _, times in nodes])


def chunk_nodes(
    whole: Group, of_rank: Num, cp: Num, engine: EngineProfile
) -> list[tuple[Group, Array]]:
    """The mean of the full steps that read prompts and the step with the rest: (their sequences,
    number of each).

    Tokens, and pairs of queries and keys, sum to those of whole prompts.  An engine that reads only
    whole prompts has at least one of them in a step.

    whole: the prompts, numbers or [lanes]; of_rank: those of the fullest rank.
    """
    sequences, new, cached = whole.sequences, whole.new_tokens, whole.cached_tokens
    total, most = of_rank * new, most_tokens(new, engine)
    full = np.floor(total / most)
    rest = total - full * most
    least = np.minimum(LEAST_REST * np.asarray(cp, dtype=float), most / 2.0)
    rest = np.where((rest > 0) & (full > 0), np.maximum(rest, least), rest)
    tokens = np.where(full > 0, (total - rest) / np.maximum(full, 1.0), total)
    nodes = []
    for each, times in (
        (tokens, full),
        (np.where(rest > 0, rest, tokens), np.where(rest > 0, 1.0, 0.0)),
    ):
        taken = np.minimum(new, each)
        chunk = replace(
            whole,
            sequences=each / taken * sequences * new / total,
            fullest=each / taken,
            new_tokens=taken,
            cached_tokens=cached + (new - taken) / 2.0,
        )
        nodes.append((chunk, times))
    return nodes


def most_tokens(new: Num, engine: EngineProfile) -> Num:
    """Token budget of a rank's step, for prompts of `new` tokens."""
    most = float(engine.chunk_tokens) or np.inf
    return np.maximum(most, new) if engine.whole_prompts else most


def summed(step: StepEstimate, weights: Array) -> StepEstimate:
    """Steps that are laid out as [nodes x configs], summed with weights [nodes, configs]."""
    if len(weights) == 1:
        return step

    changes: dict[str, Any] = {name: sum_nodes(getattr(step, name), weights) for name in BY_CONFIG}
    figures = step.figures.changed(sum_nodes, weights)
    return replace(step, **changes, figures=figures, node_weights=weights)


def least_s(deployed: Deployment, batches: Batches) -> Array:
    """Least time of the steps under every schedule of whole sequences [s], [configs].

    Raises:
        MissingSpec: the system states no peak or link that an operator needs.
    """
    one = np.ones(batches.size)
    laid = [batches.sequences, one] if batches.piped else [batches.sequences]
    lanes = batches.lanes(laid)
    weights = np.repeat(batches.weights[:, None], lanes.size, axis=1)
    found = plans(deployed, lanes)
    if found is not None and not batches.piped:
        return found.least_s(weights)
    if found is None:
        group, split = lanes.flat()
        graph = of_busiest_rank(deployed.graph(Step((group,)), split), split)
        bound = sum_nodes(bound_s(graph, deployed.system, split, weights.size), weights)
    else:
        graph, bound = found.graph, found.bound_s(weights)
    runs = np.array([op.count for op in graph.ops], dtype=float)
    if not batches.piped:
        return np.asarray(runs @ bound)
    whole, single = bound[:, : batches.size], bound[:, batches.size :]
    stages = np.broadcast_to(np.asarray(batches.split.pp, dtype=float), (batches.size,))
    least = np.empty(batches.size)
    for degree in np.unique(stages):
        chosen = stages == degree
        on_stages = stage_runs(graph, int(degree))
        slowest, way = on_stages @ whole[:, chosen], runs @ single[:, chosen]
        alone = on_stages @ single[:, chosen]
        if batches.follows:
            least[chosen] = np.maximum(way, slowest.max(0))
        else:
            least[chosen] = alone.sum(0) + (slowest - alone).max(0)
    return least


# ------------------------------------------------------------------------------- the pipeline


@dataclass(frozen=True, slots=True)
class _Way:
    """A split of whole sequences, [configs]: a number of parts, of which `larger` have `large`
    sequences and the others `small`.

    If the parts do not divide the sequences, `small` is one fewer.  Without a pipeline there is one
    part.
    """

    parts: Array
    larger: Array
    large: Array
    small: Array


def _ways(batches: Batches) -> list[_Way]:
    """Splits to choose among: the requested number of parts, otherwise those of the module's
    docstring.
    """
    sequences, size = batches.sequences, batches.size
    chosen = np.broadcast_to(np.asarray(batches.split.micro_batches, dtype=float), (size,))
    stages = np.broadcast_to(np.asarray(batches.split.pp, dtype=float), (size,))
    wanted = [stages] if batches.follows else [stages, _MORE_PARTS * stages, sequences]
    if np.all(chosen > 0):
        wanted = wanted[:1]
    ways = []
    for parts in wanted:
        parts = np.where(stages > 1, np.where(chosen > 0, chosen, parts), 1.0)
        parts = np.minimum(parts, sequences)
        small = np.where(stages > 1, np.floor(sequences / parts), sequences)
        left = sequences - small * parts
        ways.append(_Way(parts, np.where(left > 0, left, parts), small + (left > 0), small))
    return ways


def _in_pipeline(
    step: StepEstimate, ways: Sequence[_Way], least: Array, batches: Batches
) -> StepEstimate:
    """The step under the fastest schedule; step: [ways x (large, small) x configs]."""
    if not ways:
        return replace(step, least_s=least, wait_s=np.maximum(least - step.operators_s.sum(0), 0.0))
    shape = (len(ways), 2, batches.size)
    through, stage = step.operators_s.sum(0).reshape(shape), step.stage_s.reshape(shape)
    totals = np.stack(
        [
            _schedule_s(way, *whole, follows=batches.follows)
            for way, whole in zip(ways, zip(through[:, 0], stage, strict=True), strict=True)
        ]
    )
    best = np.argmin(totals, axis=0)
    columns = 2 * best * batches.size + np.arange(batches.size)
    parts = np.stack([way.parts for way in ways])
    chosen = step.of_columns(columns)
    total = np.maximum(totals.min(axis=0), least)
    return replace(
        chosen,
        micro_batches=np.take_along_axis(parts, best[None], axis=0)[0],
        least_s=least,
        wait_s=np.maximum(total - chosen.operators_s.sum(0), 0.0),
    )


def _schedule_s(way: _Way, through: Array, stage: Array, *, follows: bool) -> Array:
    """Time of all micro-batches [s], [configs].

    A single step takes as long as the first, large micro-batch needs through all stages; the others
    then leave the slowest stage one after another.  If steps follow one another, the time is the
    longer of that and of the slowest stage's work on all micro-batches.

    through: time of a large one over all stages.  stage: time of the slowest stage for a large one
    and for a small one.
    """
    work = way.larger * stage[0] + (way.parts - way.larger) * stage[1]
    schedule_s: Array = np.maximum(through, work) if follows else through + work - stage[0]
    return schedule_s


def as_batches(
    sequences: Num,
    new: Num,
    cached: Num,
    split: Parallelism,
    *,
    follows: bool,
    prompt: Num = 0.0,
) -> Batches:
    """Batches with one node, from numbers or arrays [configs]."""
    sizes, lanes = spread_out(Workload(sequences, new, 1.0, cached), split)
    tokens = sizes["isl"][None], sizes["cached"][None]
    return Batches(sizes["batch"], *tokens, lanes, np.ones(1), follows, prompt)
