"""Questions that a model cannot run on any number of devices, and parameters without meaning for
it or for the system.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from app.question.question import STANDARD, Question
from app.scenario.rents import rent_in_vain
from genz_core import Estimate, System
from genz_core.common.memo import ByIdentity
from genz_core.errors import ContextTooLong, InvalidParallelism, InvalidValue
from genz_core.graphs import Model
from genz_core.models.model_kinds import model_kind, prompt_tokens
from genz_core.serving import ServingEstimate
from genz_core.types import Array, Mask, Num, Parallelism, Step
from genz_core.workload import CONTEXT_TOO_LONG, OUT_OF_MEMORY
from model_registry.quantization.overrides import takes_inputs

#: Parameters that only affect a model's experts.
OF_EXPERTS = (
    "ep", "moe_tp", "expert_imbalance", "redundant_experts", "overlap", "moe_weights",
)  # fmt: skip
_EXPERTS: ByIdentity[int] = ByIdentity()


class Asking(Protocol):
    """A question with the model and the system that it names: `app.scenario.scenario.Resolved`."""

    @property
    def scenario(self) -> Question: ...

    @property
    def model(self) -> Model: ...

    @property
    def system(self) -> System: ...


# ------------------------------------------------------------------------------- contexts


def longest(question: Question, isl: Any, osl: Any) -> Any:
    """Prompt tokens of the last turn of a session, including those that it shares.

    isl, osl: of a turn, as given; numbers or arrays.
    """
    if question.kind == "batch":
        return isl
    return question.shared_tokens + question.turns * isl + (question.turns - 1) * osl


def context_complaint(model: Model, isl: float, osl: float) -> str:
    """Why a sequence is too long for a model; "" where it is not.

    Engines refuse requests with more tokens than a model has positions.

    isl: prompt tokens, those of earlier turns included.  osl: of the answer.
    """
    most = model.max_context
    if not most or not beyond_positions(model, isl, osl):
        return ""
    kind = model_kind(model)
    what = {
        "encoder": f"the input is {isl:,.0f}",
        "encoder-decoder": f"the prompt is {isl:,.0f} and the answer {osl:,.0f}",
    }.get(kind, f"prompt and answer are {isl + osl:,.0f}")
    less = "isl" if kind == "encoder" else "isl or osl"
    return (
        f"{model.name} has positions for {most:,} tokens, and {what}: give a smaller {less}, or a "
        "model with a longer context"
    )


def too_long(
    model: Model, isl: Num, osl: Num, status: Any, among: tuple[str, ...] = ("ok", OUT_OF_MEMORY)
) -> dict[int, str]:
    """{configuration: sentence} of configurations whose sequences are too long for a model.

    isl: prompt tokens.  among: reason codes that this one takes precedence over.
    """
    if not model.max_context:
        return {}
    long: Mask = np.asarray(beyond_positions(model, np.asarray(isl), np.asarray(osl)))
    if not long.any():
        return {}
    size = len(status)
    isls, osls = (
        np.broadcast_to(np.asarray(tokens, dtype=float), (size,)) for tokens in (isl, osl)
    )
    rows = np.flatnonzero(np.broadcast_to(long, (size,)) & np.isin(status, among))
    return {int(at): context_complaint(model, isls[at], osls[at]) for at in rows}


def with_contexts(priced: Estimate, isl: Num, osl: Num) -> Estimate:
    """An estimate in which sequences beyond the model's positions have a reason code.

    Their times are kept.  isl, osl: as given, the longest of the batch.
    """
    tokens = prompt_tokens(priced.model, isl)
    found = too_long(priced.model, tokens, osl, priced.status)
    if not found:
        return priced
    status = _coded(priced.status, found)
    return replace(priced, status=status, complaints={**priced.complaints, **found})


def with_served_contexts(
    served: ServingEstimate, model: Model, isl: Num, osl: Num
) -> ServingEstimate:
    """As `with_contexts`, of loads.  isl: prompt of the last turn, see `longest`."""
    of = tuple(set(served.status.tolist()) - {"invalid_parallelism"})
    found = too_long(model, prompt_tokens(model, isl), osl, served.status, of)
    if not found:
        return served
    status = _coded(served.status, found)
    return replace(served, status=status, messages={**served.messages, **found})


def nearest_lengths(resolved: Asking) -> dict[str, int]:
    """The longest isl, and the osl, at which a request would not be too long for the model.

    {} where the model has no limit, or where shared tokens alone exceed it.
    """
    q, most = resolved.scenario, resolved.model.max_context
    around = int(prompt_tokens(resolved.model, 0)) + int(longest(q, 0, 0))
    if not most or around >= most or q.turns > 1:
        return {}
    if model_kind(resolved.model) == "encoder":
        return {"isl": most - around}
    if model_kind(resolved.model) == "encoder-decoder":
        return {"isl": min(q.isl, most - around), "osl": min(q.osl, most)}
    osl = min(q.osl, (most - around) // 2)
    return {"isl": max(min(q.isl, most - around - osl), 1), "osl": max(osl, 1)}


def beyond_positions(model: Model, isl: Any, osl: Any) -> Any:
    """Whether sequences have more tokens than the model has positions; numbers or arrays."""
    most, kind = model.max_context or np.inf, model_kind(model)
    if kind == "encoder":
        return isl > most
    if kind == "encoder-decoder":  # encoder and decoder have separate positions
        return (isl > most) | (osl > most)
    return isl + osl - 1 > most  # the last token is not processed again


def _coded(status: Any, found: Mapping[int, str]) -> Any:
    coded = status.astype(object)
    coded[list(found)] = CONTEXT_TOO_LONG
    return coded.astype(str)


# ------------------------------------------------------------------------------- experts


def has_experts(model: Model) -> bool:
    """Whether a model has experts, which are spread over ranks in their own way."""
    return bool(experts_of(model))


def experts_of(model: Model) -> int:
    """Routed experts of a layer of a model, 0 of a dense one."""
    return _EXPERTS.get(lambda: _experts_of(model), model)


def _experts_of(model: Model) -> int:
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    held = (op.dims["experts_total"] for op in graph.ops if op.operator_class == "moe")
    return int(max(map(np.max, held), default=0))


def meaningless_for(resolved: Asking) -> Iterator[str]:
    """A sentence for each given parameter that has no meaning for model and system."""
    yield from _meaningless(resolved, resolved.scenario.parallelism)


def meaningless_in_rows(resolved: Asking, split: Parallelism, size: int) -> Array | None:
    """The sentences of `meaningless_for` for every row, [size]; None if there are none.

    split: the degrees of the rows, numbers or arrays [size].
    """
    found = _meaningless(resolved, split)
    if not found:
        return None
    words = np.full(size, "", dtype=object)
    for sentence, stated in found.items():
        rows = np.broadcast_to(stated, (size,))
        words[rows] = ["; ".join(filter(None, [before, sentence])) for before in words[rows]]
    return words


def refuse_impossible(resolved: Asking) -> None:
    """Refuse degrees that do not divide the model, sequences beyond its positions, and parameters
    without meaning, for verbs whose figures have no status.

    Raises:
        InvalidValue: a parameter without meaning for the model and the system.
        InvalidParallelism: the degrees, and the near ones.
        ContextTooLong: the lengths, and the model's positions.
    """
    refuse_meaningless_for(resolved)
    q, model = resolved.scenario, resolved.model
    if complaint := model.invalid(q.parallelism):
        raise InvalidParallelism(complaint)
    tokens = float(prompt_tokens(model, longest(q, q.isl, q.osl)))
    if complaint := context_complaint(model, tokens, q.osl):
        raise ContextTooLong(complaint)


def refuse_meaningless_for(resolved: Asking, split: Parallelism | None = None) -> None:
    """Refuse parameters without meaning for the model and the system.

    split: degrees instead of the question's, numbers or arrays.

    Raises:
        InvalidValue: the first such parameter.
    """
    for sentence in _meaningless(resolved, split or resolved.scenario.parallelism):
        raise InvalidValue(sentence)


def _meaningless(resolved: Asking, split: Parallelism) -> dict[str, Any]:
    """{sentence: whether it applies to each row} of given parameters without meaning."""
    model, inputs = resolved.model, resolved.scenario.activations
    found = {
        f"{name} does not apply to {model.name}, which has no experts: leave it out": stated
        for name, stated in _of_experts(resolved, split).items()
        if np.any(stated)
    }
    precision = getattr(model, "precision", None)
    if inputs and precision and not takes_inputs(precision, inputs):
        held = " and ".join(sorted(set(precision.weights.values())))
        found[
            f"activations = {inputs} does not apply to {model.name} with {held} weights, whose "
            "matrix products take 16-bit inputs: choose other weights, or leave it out"
        ] = np.asarray(True)
    if sentence := rent_in_vain(resolved.scenario, resolved.system):
        found[sentence] = np.asarray(True)
    return found


def _of_experts(resolved: Asking, split: Parallelism) -> dict[str, Any]:
    """Whether each of `OF_EXPERTS`, or their offload, was given for a model without experts:
    booleans or arrays.
    """
    question = resolved.scenario
    stated = {
        name: np.asarray(getattr(split, name, getattr(question, name))) != getattr(STANDARD, name)
        for name in OF_EXPERTS
    }
    stated["offload = experts"] = np.asarray(question.offload == "experts")
    if question.moe_tp is not None or split.moe_tp is not None:
        stated["ep"] = np.asarray(False)  # it follows from the other degrees
    if not any(np.any(values) for values in stated.values()) or has_experts(resolved.model):
        return {}
    return stated
