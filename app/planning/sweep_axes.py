"""A sweep: every combination of the values of some parameters, given by name or in a YAML file.

    model: Qwen/Qwen3-32B
    system: [h100, h200]
    tp: [1, 2, 4, 8]
    batch: {from: 1, to: 256, step: x2}
    isl: {from: 1024, to: 8192, step: 1024}

Or individual rows under `points`, each with the values that differ from the rest of the file.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from app.question.query import Query, Sources, ask, with_experts
from app.question.verbs import VERBS, parameters_of
from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS
from genz_core.types import Array

#: Parameters whose combinations are each looked up once.
STRUCTURAL = VERBS["sweep"].several
#: Parameters that are numbers of a row.
NUMERIC = tuple(name for name, one in parameters_of("sweep").items() if one.array)
KNOWN = (*parameters_of("sweep"), "points")
MOST_ROWS = 50_000_000


@dataclass(frozen=True, slots=True)
class Block:
    """Rows with the same model, system and engine: every combination of the numbers on its axes.

    asked: the question of the block.  axes: {parameter: values}, the last one varies fastest.
    """

    query: Query
    axes: Mapping[str, tuple[float, ...]]

    def __len__(self) -> int:
        return math.prod(len(values) for values in self.axes.values())

    @property
    def load(self) -> str:
        """The kind of load."""
        return self.query.question.kind

    def columns(self, start: int, stop: int) -> dict[str, Array]:
        """The numbers of some of the rows, {parameter: [rows]}."""
        shape = tuple(len(values) for values in self.axes.values()) or (1,)
        places = np.unravel_index(np.arange(start, stop), shape)
        pairs = zip(self.axes.items(), places, strict=False)
        columns = {name: np.asarray(values, dtype=float)[at] for (name, values), at in pairs}
        return with_experts(columns, self.query)


@dataclass(frozen=True, slots=True)
class SweepAxes:
    """A sweep: its blocks, in the order of their rows.

    digest: of the sweep's definition; it identifies the unfinished parts of a sweep.
    """

    blocks: tuple[Block, ...]
    digest: str = field(default="", compare=False)

    def __len__(self) -> int:
        return sum(map(len, self.blocks))


def sweep_axes(given: Mapping[str, Any], sources: Sources = dict) -> SweepAxes:
    """A sweep from its axes by name, each a value, a list or {from, to, step}.

    sources: function that resolves models and systems; by default texts are names.

    Raises:
        InvalidValue: an unknown axis, an impossible value, no model or system, not exactly one
            load, or more rows than fit a file.
    """
    points = given.get("points", [{}])
    if not isinstance(points, Sequence) or isinstance(points, str) or not points:
        raise InvalidValue(
            "points: give a list of rows, each with the values that differ from the shared ones"
        )
    shared = {name: value for name, value in given.items() if name != "points"}
    blocks: list[Block] = []
    for point in points:
        if not isinstance(point, Mapping):
            raise InvalidValue(f"points: {str(point)[:60]!r} is not a row of axes")
        blocks.extend(_blocks(ask("sweep", {**shared, **point}, sources), sources))
    digest = hashlib.sha256(json.dumps(given, sort_keys=True, default=str).encode()).hexdigest()
    return _checked(tuple(blocks), digest)


def of_asked(query: Query, sources: Sources = dict) -> SweepAxes:
    """A sweep from a question whose `arrays` are axes and whose `several` are names.

    Raises:
        InvalidValue: more rows than fit in a file.
    """
    axes = {name: values.tolist() for name, values in query.arrays.items()}
    told = f"{query.question}{dict(query.several)}{axes}"
    return _checked(tuple(_blocks(query, sources)), hashlib.sha256(told.encode()).hexdigest())


def _checked(blocks: tuple[Block, ...], digest: str) -> SweepAxes:
    result = SweepAxes(blocks, digest[:16])
    if len(result) > MOST_ROWS:
        raise InvalidValue(f"{len(result):,} rows; sweep at most {MOST_ROWS:,} into one file")
    return result


def _blocks(query: Query, sources: Sources) -> Iterator[Block]:
    """A block for each combination of the names."""
    axes = {name: tuple(dict.fromkeys(values.tolist())) for name, values in query.arrays.items()}
    for name, values in (*axes.items(), *query.several.items()):
        if len(values) > LIMITS["axis"].most:
            raise InvalidValue(
                f"{name}: {len(values):,} values; give at most {LIMITS['axis'].most:,}"
            )
    names = query.several
    for values in product(*names.values()):
        chosen = dict(zip(names, values, strict=True))
        meant = sources(chosen)
        objects = {name: one for name, one in meant.items() if not isinstance(one, str)}
        named: dict[str, Any] = {name: str(one) for name, one in chosen.items()}
        question = replace(query.question, **named)
        one = replace(
            query, question=question, arrays={}, several={}, objects={**query.objects, **objects}
        )
        yield Block(one, axes)
