"""The operators of one step of a model, as a static table and as the document that is
priced later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from genz_core.errors import InvalidParallelism, InvalidValue
from genz_core.graphs import Model
from genz_core.types import Group, Num, Parallelism, Step
from model_registry.graph.model import DescribedModel
from model_registry.reports import static_table, step_documents
from model_registry.reports.static_table import StaticTable
from model_registry.spec import ModelInputs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class StepQuery:
    """A step: tokens of each query, number of queries, degrees, and formats instead of the model's.

    inputs: images that each query reads with its new tokens, which are then text only.
    """

    cached_tokens: Sequence[int]
    input_tokens: Sequence[int]
    batch_size: int | None = None
    parallelism: Parallelism = field(default_factory=Parallelism)
    formats: Mapping[str, str] = field(default_factory=dict)
    inputs: ModelInputs = field(default_factory=ModelInputs)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CountedStep:
    """table: figures of each operator.  document: of schema `step_documents.SCHEMAS["ops"]`."""

    table: StaticTable
    document: Mapping[str, Any]

    def to_dataframe(self) -> pd.DataFrame:
        """A row per operator of one block, SI units."""
        import pandas as pd

        return pd.DataFrame(static_table.as_rows(self.table))

    def __repr__(self) -> str:
        return static_table.as_text(self.table)

    def _repr_html_(self) -> str:
        return str(self.to_dataframe().to_html(index=False, border=0))

    def to_dict(self) -> dict[str, Any]:
        """The table and the document in one object, as `ridgeline ops --json` prints it."""
        return {**json.loads(static_table.as_json(self.table)), **self.document}


def count(data: Mapping[str, Any], asked: StepQuery) -> CountedStep:
    """Count a step of the model that a document of `step_documents` carries.

    Raises:
        RidgelineError: as `step_documents.reopened`; impossible sizes or degrees.
    """
    model, _ = step_documents.reopened(data, **asked.formats)
    if message := model.invalid(asked.parallelism):
        raise InvalidParallelism(message)
    step = static_table.step_of(asked.cached_tokens, asked.input_tokens, asked.batch_size)
    if asked.inputs.images:
        model, step = _with_images(model, step, asked.inputs)
    graph = step_documents.counted_graph(data, model, step, asked.parallelism)
    stated = step_documents.StatedModel(
        model, graph, step.groups, int(step_documents.number(asked.parallelism.tp))
    )
    table = static_table.table_of(stated, step, asked.parallelism)
    given = {**data, "formats": {**data["formats"], **asked.formats}}
    return CountedStep(table, step_documents.ops_document(given, step, graph, asked.parallelism))


def _with_images(model: Model, step: Step, inputs: ModelInputs) -> tuple[Model, Step]:
    """The model with such images, and the step in which every prompt brings its own.

    Raises:
        InvalidValue: a model without an image encoder, or no prompt that could bring images.
    """
    if not isinstance(model, DescribedModel):
        raise InvalidValue(
            f"images = {inputs.images}: {model.name} is known from a trace alone, which reads "
            "text; leave images or --trace out"
        )
    reading = model.with_inputs(inputs)
    if all(np.all(group.generates) for group in step.groups):
        raise InvalidValue(
            f"images = {inputs.images}: a query of one new token generates and brings no image; "
            "give the tokens of text of a prompt in input_tokens"
        )
    beside = float(np.asarray(reading.prompt_tokens(0.0)))
    groups = tuple(
        group if np.all(group.generates) else _prompt(group, group.new_tokens + beside)
        for group in step.groups
    )
    return reading, Step(groups)


def _prompt(group: Group, new_tokens: Num) -> Group:
    """A group that reads `new_tokens` tokens, including all images of its prompts."""
    return replace(group, new_tokens=new_tokens, prompt=new_tokens)
