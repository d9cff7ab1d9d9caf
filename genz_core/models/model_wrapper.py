"""A wrapper around another model that changes the operators of a step and little else."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from genz_core.graphs import Model
from genz_core.models.model_kinds import ModelKind, model_kind, model_type, padded, prompt_tokens
from genz_core.types import Num, Parallelism, Precision


@dataclass(frozen=True, slots=True)
class ModelAround:
    """Passes most of `Model` through; subclasses add `graph` and `with_precision`."""

    model: Model

    @property
    def name(self) -> str:
        """Name of the wrapped model, which all properties below also come from."""
        return self.model.name

    @property
    def kind(self) -> ModelKind:
        """Kind of the model, see `genz_core.models.model_kinds`."""
        return model_kind(self.model)

    @property
    def model_type(self) -> str:
        """The `model_type` of its config.json."""
        return model_type(self.model)

    @property
    def precision(self) -> Precision:
        """Number formats of its tensors."""
        return self.model.precision

    @property
    def parameters(self) -> float:
        """Number of parameters."""
        return self.model.parameters

    @property
    def active_parameters(self) -> float:
        """Number of parameters that one token uses."""
        return self.model.active_parameters

    @property
    def max_context(self) -> int | None:
        """Largest number of tokens that its positions allow."""
        return self.model.max_context

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions, in sentences."""
        return self.model.notes

    @property
    def source(self) -> str:
        """Origin of its shape."""
        return self.model.source

    def prompt_tokens(self, isl: Num) -> Num:
        """Tokens of a prompt with `isl` tokens of text."""
        return prompt_tokens(self.model, isl)

    def padded(self, what: frozenset[str]) -> Self:
        """The same wrapper around the model with an engine's padding."""
        inner = padded(self.model, what)
        return self if inner is self.model else replace(self, model=inner)

    def invalid(self, parallelism: Parallelism) -> str | None:
        """A sentence on degrees that cannot split the model, None if they can."""
        return self.model.invalid(parallelism)
