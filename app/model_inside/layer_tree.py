"""A graph as people read it: ends, groups of equal layers, their parts, and operators in them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from app.scenario import intervals
from app.scenario.intervals import Latency
from genz_core.step import StepEstimate
from genz_core.types import Op


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the layer graph.

    id: "op:7" for the operator in row 7 of the step, else of what folds.  level: of indentation.
    detail: how often it runs.  row: of an operator, -1 for what folds.  latency: of all its runs.
    open: whether what folds shows its lines.
    """

    id: str
    label: str
    detail: str
    level: int
    row: int
    operator_class: str
    latency: Latency
    open: bool = False

    @property
    def seconds(self) -> float:
        return self.latency.seconds

    @property
    def folds(self) -> bool:
        return self.row < 0


@dataclass(frozen=True, slots=True)
class Part:
    """Operators of one module that follow each other: rows of the step."""

    name: str
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Equal layers; no layers for what runs once before or after them."""

    layers: tuple[int, ...]
    parts: tuple[Part, ...]


def groups(step: StepEstimate) -> list[Group]:
    """The step's operators that take time, by layers that share operators, in running order."""
    ops = step.graph.ops
    rows = [row for row in range(len(ops)) if step.operators_s[row, 0] > 0]
    ends = [row for row in rows if not ops[row].layers]
    sets = _joined([frozenset(ops[row].layers) for row in rows if ops[row].layers])
    found = [
        Group(tuple(sorted(one)), _parts(ops, [r for r in rows if one & set(ops[r].layers)]))
        for one in sets
    ]
    first = min((row for row in rows if ops[row].layers), default=len(ops))
    before, after = (
        [Group((), _parts(ops, [row for row in ends if (row < first) == early]))]
        for early in (True, False)
    )
    return [one for one in (*before, *found, *after) if one.parts]


def _joined(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Layer sets that overlap made one, in the order of their first."""
    found: list[frozenset[int]] = []
    for one in sets:
        apart = [other for other in found if not other & one]
        merged = one.union(*(other for other in found if other & one))
        at = next((i for i, other in enumerate(found) if other & one), len(apart))
        found = [*apart[:at], merged, *apart[at:]]
    return found


def _parts(ops: Sequence[Op], rows: Sequence[int]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for row in rows:
        name = _part(ops[row])
        if parts and parts[-1].name == name:
            parts[-1] = Part(name, (*parts[-1].rows, row))
        else:
            parts.append(Part(name, (row,)))
    return tuple(parts)


def _part(op: Op) -> str:
    """The part of a layer that an operator belongs to: "attention", "self_attn", "mlp"."""
    steps = op.module.split(".")
    outside = [at + 1 for at, step in enumerate(steps) if step.isdigit() or step == "layers"]
    inside = steps[max(outside, default=0) :] if op.layers else []
    return inside[0] if inside else ""


# ------------------------------------------------------------------------------- as lines


def lines(step: StepEstimate, opened: Collection[str]) -> list[Line]:
    """What is shown when the groups and parts named in `opened` are unfolded."""
    known = intervals.of_rows(intervals.operator_table(step))
    ops = [_operator(*one) for one in zip(step.graph.ops, range(len(known)), known, strict=True)]
    found: list[Line] = []
    for at, group in enumerate(groups(step)):
        members = [ops[row] for part in group.parts for row in part.rows]
        if not group.layers:
            found += members
            continue
        name, count = f"layers:{at}", f"{len(group.layers)} ×"
        head = _fold(name, ranges(group.layers).capitalize(), count, members, opened)
        found.append(head)
        for place, part in enumerate(group.parts if head.open else ()):
            inside = [replace(ops[row], level=2) for row in part.rows]
            found += _part_lines(part.name, f"{name}.{place}", inside, opened)
    return found


def foldable(step: StepEstimate) -> dict[str, str]:
    """Every group and part that can be unfolded, with its title."""
    found: dict[str, str] = {}
    for at, group in enumerate(groups(step)):
        if group.layers:
            title = ranges(group.layers)
            found[f"layers:{at}"] = title
            for place, part in enumerate(group.parts):
                if len(part.rows) > 1:
                    found[f"layers:{at}.{place}"] = f"{title}: {part.name}"
    return found


def _part_lines(
    title: str, name: str, members: Sequence[Line], opened: Collection[str]
) -> list[Line]:
    """A part of a layer; one operator needs no heading."""
    if len(members) == 1:
        return [replace(members[0], level=1)]
    head = replace(_fold(name, title, "", members, opened), level=1)
    return [head, *(members if head.open else ())]


def _fold(
    name: str, title: str, detail: str, members: Sequence[Line], opened: Collection[str]
) -> Line:
    whole = Latency.total(line.latency for line in members)
    return Line(name, title, detail, 0, -1, "", whole, name in opened)


def _operator(op: Op, row: int, latency: Latency) -> Line:
    runs = f"{op.count:,.0f} ×" if op.count != 1 else ""
    return Line(f"op:{row}", op.name, runs, 0, row, op.operator_class, latency)


def ranges(layers: Sequence[int]) -> str:
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
