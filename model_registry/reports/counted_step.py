"""The operators of one step of a model, as a static table and as the document that prices it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from genz_core.errors import InvalidParallelism
from genz_core.types import Parallelism
from model_registry.reports import chain, static_table
from model_registry.reports.static_table import StaticTable


@dataclass(frozen=True, slots=True)
class Asked:
    """A step: tokens of each query, how many queries, degrees, formats in place of the model's."""

    cached_tokens: Sequence[int]
    input_tokens: Sequence[int]
    batch_size: int | None = None
    parallelism: Parallelism = field(default_factory=Parallelism)
    formats: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CountedStep:
    """table: figures an operator.  document: the third step of `chain`."""

    table: StaticTable
    document: Mapping[str, Any]


def count(data: Mapping[str, Any], asked: Asked) -> CountedStep:
    """Count a step of the model that a document of `chain` carries.

    Raises:
        RidgelineError: as `chain.reopened`; sizes or degrees that cannot be.
    """
    model, _ = chain.reopened(data, **asked.formats)
    if message := model.invalid(asked.parallelism):
        raise InvalidParallelism(message)
    step = static_table.step_of(asked.cached_tokens, asked.input_tokens, asked.batch_size)
    graph = chain.counted_graph(data, model, step, asked.parallelism)
    stated = chain.StatedModel(model, graph, step.groups, int(chain.number(asked.parallelism.tp)))
    table = static_table.static_table(
        stated, asked.cached_tokens, asked.input_tokens, asked.batch_size, asked.parallelism
    )
    given = {**data, "formats": {**data["formats"], **asked.formats}}
    return CountedStep(table, chain.ops_document(given, step, graph, asked.parallelism))


def as_json(counted: CountedStep) -> str:
    """The table and the document in one object."""
    return json.dumps({**json.loads(static_table.as_json(counted.table)), **counted.document})
