"""The kind of a model: whether it generates tokens one by one, or something else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from genz_core.common.memo import ByIdentity
from genz_core.errors import NoOutput, UnsupportedModel
from genz_core.graphs import Model
from genz_core.types import Num

#: decoder: one token per step, with a cache. encoder: one pass over the input, no tokens out.
#: encoder-decoder: a pass of an encoder, then a decoder that attends to its output. diffusion:
#: whole blocks of tokens, refined in passes.
ModelKind = Literal["decoder", "encoder", "encoder-decoder", "diffusion"]
#: What answers questions about models that do not generate token by token.
_ANSWERED = "estimate, serve and sweep"


def model_kind(model: Model) -> ModelKind:
    """The kind of a model; "decoder" if the model does not state it."""
    kind: ModelKind = getattr(model, "kind", "decoder")
    return kind


def model_type(model: Model) -> str:
    """The `model_type` of a model's config.json; "" if the model does not state it."""
    stated: str = getattr(model, "model_type", "")
    return stated


def generates(model: Model) -> bool:
    """Whether a model generates tokens, so that TPOT is defined."""
    return model_kind(model) != "encoder"


def prompt_tokens(model: Model, isl: Num) -> Num:
    """Tokens that a model reads for a prompt with `isl` tokens of text: those plus its images and
    sound.

    A model that does not state otherwise reads text only.
    """
    counted: Callable[[Num], Num] | None = getattr(model, "prompt_tokens", None)
    return isl if counted is None else counted(isl)


def padded(model: Model, what: frozenset[str]) -> Model:
    """The model with an engine's padding (`Padding.what`); unchanged if it cannot be padded."""
    fill: Callable[[frozenset[str]], Model] | None = getattr(model, "padded", None)
    if fill is None or not what:
        return model
    return _PADDED.get(lambda: fill(what), model, values=what)


#: One object for a model and its padding on all systems, so that they share its graphs.
_PADDED: ByIdentity[Model] = ByIdentity()


def check_generates(model: Model, asked: str) -> None:
    """Refuse a question that only a generating model can answer.  asked: the subject of the
    message.

    Raises:
        NoOutput: the model is an encoder.
    """
    if not generates(model):
        raise NoOutput(
            f"{model.name} processes its input in one pass and generates no tokens, so {asked} "
            f"does not apply; {_ANSWERED} give its latency and sequences per second"
        )


def check_one_by_one(model: Model) -> None:
    """Refuse models whose requests cannot be simulated one by one.

    Raises:
        NoOutput: the model is an encoder.
        UnsupportedModel: it does not keep all of its context in one cache.
    """
    check_generates(model, "a simulation of requests")
    if model_kind(model) != "decoder":
        raise UnsupportedModel(
            f"{model.name} is of kind {model_kind(model)}, and only decoder models can be "
            f"simulated; {_ANSWERED} give its latencies"
        )
