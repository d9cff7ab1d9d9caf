"""The operators of one step of a model, counted without hardware: the verb `ops`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from app.question.query import Query
from app.scenario.inputs import inputs_of
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.limits import checked_size
from model_registry.reports import counted_step, step_documents
from model_registry.reports.counted_step import CountedStep


def count(
    query: Query,
    cached_tokens: Sequence[str],
    input_tokens: Sequence[str],
    batch_size: int = 0,
    *,
    trace: bool = False,
    without: Collection[str] = (),
    piped: Mapping[str, Any] | None = None,
) -> CountedStep:
    """Count the operators of a step.

    Args:
        cached_tokens, input_tokens: whole numbers, one per query, or one for all.
        batch_size: total number of queries; 0 for one of each.
        trace, without: trace the model's own code, and rewrites to leave out.
        piped: an arch or a modules document instead of the question's model.

    Raises:
        RidgelineError: an invalid model, sizes or degrees; images that it cannot read.
    """
    question = query.question
    source = query.named("model")
    if piped is None and isinstance(source, Model):
        raise InvalidValue(
            "ops counts from a config: give the model's name, its config.json or the content of "
            "one, and formats by their own keywords"
        )
    named = step_documents.carried(source, trace=trace, without=without) if piped is None else piped
    step = counted_step.StepQuery(
        _sizes("cached_tokens", cached_tokens), _sizes("input_tokens", input_tokens),
        batch_size or None, question.parallelism, question.precisions, inputs_of(question),
    )  # fmt: skip
    return counted_step.count(named, step)


def _sizes(name: str, texts: Sequence[str]) -> list[int]:
    """The whole numbers in a list.  name: of the limit for each."""
    return [checked_size(name, text, name) for text in texts]
