"""The layer graph of a step: ends of the model, groups of equal layers, their parts, operators."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from app.scenario import operator_intervals
from app.scenario.intervals import Ranged
from genz_core.graphs import Op
from genz_core.steps.step_estimate import StepEstimate


@dataclass(frozen=True, slots=True)
class GraphLine:
    """One line of the layer graph: an operator, or a group or part that folds.

    id: "op:7" for the operator in row 7 of the step, "layers:1" for a group, "layers:1.0" for a
    part.  detail: how often it runs.  level: of indentation.  row: of an operator, -1 for what
    folds.  latency: of all its runs.  open: whether a group or part shows its lines.
    """

    id: str
    label: str
    detail: str
    level: int
    row: int
    operator_class: str
    latency: Ranged
    open: bool = False

    @property
    def seconds(self) -> float:
        """Predicted time of all its runs [s]."""
        return self.latency.value

    @property
    def folds(self) -> bool:
        """Whether the node can be folded: a group or a part, but not an operator."""
        return self.row < 0


@dataclass(frozen=True, slots=True)
class ModulePart:
    """Operators of one module that follow each other.  rows: of the step."""

    name: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers with the same operators; `layers` is empty for operators before or after all
    layers.
    """

    layers: tuple[int, ...]
    parts: tuple[ModulePart, ...]


def layer_groups(step: StepEstimate) -> list[LayerGroup]:
    """The step's operators that take time, grouped by equal layers, in execution order."""
    ops = step.graph.ops
    rows = [row for row in range(len(ops)) if step.operators_s[row, 0] > 0]
    ends = [row for row in rows if not ops[row].layers]
    sets = _joined([frozenset(ops[row].layers) for row in rows if ops[row].layers])
    grouped = [
        LayerGroup(
            tuple(sorted(layers)), _parts(ops, [r for r in rows if layers & set(ops[r].layers)])
        )
        for layers in sets
    ]
    first = min((row for row in rows if ops[row].layers), default=len(ops))
    before, after = (
        [LayerGroup((), _parts(ops, [row for row in ends if (row < first) == early]))]
        for early in (True, False)
    )
    return [group for group in (*before, *grouped, *after) if group.parts]


def _joined(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Sets of layers, with overlapping ones joined, in the order of their first layer."""
    joined: list[frozenset[int]] = []
    for layers in sets:
        apart = [earlier for earlier in joined if not earlier & layers]
        merged = layers.union(*(earlier for earlier in joined if earlier & layers))
        at = next((i for i, earlier in enumerate(joined) if earlier & layers), len(apart))
        joined = [*apart[:at], merged, *apart[at:]]
    return joined


def _parts(ops: Sequence[Op], rows: Sequence[int]) -> tuple[ModulePart, ...]:
    parts: list[ModulePart] = []
    for row in rows:
        name = _part(ops[row])
        if parts and parts[-1].name == name:
            parts[-1] = ModulePart(name, (*parts[-1].rows, row))
        else:
            parts.append(ModulePart(name, (row,)))
    return tuple(parts)


def _part(op: Op) -> str:
    """The part of a layer that an operator belongs to: "attention", "self_attn", "mlp"."""
    steps = op.module.split(".")
    outside = [at + 1 for at, step in enumerate(steps) if step.isdigit() or step == "layers"]
    inside = steps[max(outside, default=0) :] if op.layers else []
    return inside[0] if inside else ""


# ------------------------------------------------------------------------------- as lines


def graph_lines(step: StepEstimate, opened: Collection[str]) -> list[GraphLine]:
    """The lines shown when the groups and parts whose ids are in `opened` are unfolded."""
    latencies = operator_intervals.of_rows(operator_intervals.operator_table(step))
    ops = [_operator(op, row, latencies[row]) for row, op in enumerate(step.graph.ops)]
    shown: list[GraphLine] = []
    for at, group in enumerate(layer_groups(step)):
        members = [ops[row] for part in group.parts for row in part.rows]
        if not group.layers:
            shown += members
            continue
        name, count = f"layers:{at}", f"{len(group.layers)} ×"
        head = _fold(name, layer_ranges(group.layers).capitalize(), count, members, opened)
        shown.append(head)
        for place, part in enumerate(group.parts if head.open else ()):
            inside = [replace(ops[row], level=2) for row in part.rows]
            shown += _part_lines(part.name, f"{name}.{place}", inside, opened)
    return shown


def foldable(step: StepEstimate) -> dict[str, str]:
    """Titles of the groups and parts that can be unfolded, by id."""
    titles: dict[str, str] = {}
    for at, group in enumerate(layer_groups(step)):
        if group.layers:
            title = layer_ranges(group.layers)
            titles[f"layers:{at}"] = title
            for place, part in enumerate(group.parts):
                if len(part.rows) > 1:
                    titles[f"layers:{at}.{place}"] = f"{title}: {part.name}"
    return titles


def costliest_group(step: StepEstimate) -> set[str]:
    """Ids of the group of layers that takes most time and of its parts; empty without layers."""
    groups = [line for line in graph_lines(step, ()) if line.folds]
    if not groups:
        return set()
    longest = max(groups, key=lambda line: line.seconds).id
    return {longest, *(name for name in foldable(step) if name.startswith(f"{longest}."))}


def _part_lines(
    title: str, name: str, members: Sequence[GraphLine], opened: Collection[str]
) -> list[GraphLine]:
    """The lines of a part: a heading over its operators, or its only operator without one."""
    if len(members) == 1:
        return [replace(members[0], level=1)]
    head = replace(_fold(name, title, "", members, opened), level=1)
    return [head, *(members if head.open else ())]


def _fold(
    name: str, title: str, detail: str, members: Sequence[GraphLine], opened: Collection[str]
) -> GraphLine:
    whole = Ranged.total(line.latency for line in members)
    return GraphLine(name, title, detail, 0, -1, "", whole, name in opened)


def _operator(op: Op, row: int, latency: Ranged) -> GraphLine:
    runs = f"{op.count:,.0f} ×" if op.count != 1 else ""
    return GraphLine(f"op:{row}", op.name, runs, 0, row, op.operator_class, latency)


def layer_ranges(layers: Sequence[int]) -> str:
    """(0, 1, 2, 5) -> "layers 0–2, 5"; long lists are cut."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    words = [f"{a}–{b}" if b > a else f"{a}" for a, b in runs]
    shown = ", ".join(words if len(words) <= 4 else [*words[:3], "…", words[-1]])
    return f"layer{'s' if len(layers) > 1 else ''} {shown}"
