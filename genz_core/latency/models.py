"""The registry of latency models: which formula prices which kind of operator, in which phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from genz_core.latency.conditions import Conditions
from genz_core.registry import Registry
from genz_core.types import Array, Num, Op

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class Terms:
    """A latency taken apart [s].

    terms: parts that sum to it, by cause.  stages: the times of what runs side by side, as the
    formula overlaps them; the longest is among the terms, what the others add is "overlap".
    """

    terms: Mapping[str, Array]
    stages: Mapping[str, Array] = field(default_factory=dict)

    @property
    def total_s(self) -> Array:
        return sum(self.terms.values(), start=np.zeros(()))

    @classmethod
    def overlapped(cls, stages: Mapping[str, Num], total_s: Array) -> Terms:
        """Stages that take `total_s` together: the longest whole, and what hides not behind it."""
        times = {name: np.broadcast_to(time, np.shape(total_s)) for name, time in stages.items()}
        longest = np.argmax(np.stack(list(times.values())), axis=0)
        terms = {
            name: np.where(longest == at, time, 0.0)
            for at, (name, time) in enumerate(times.items())
        }
        rest = total_s - sum(terms.values(), start=np.zeros(()))
        return cls({**terms, "overlap": rest}, times)

    def plus(self, **terms: Num) -> Terms:
        """With further terms, broadcast to the shape of the others."""
        shape = np.shape(self.total_s)
        more = {
            name: np.broadcast_to(np.asarray(time, float), shape) for name, time in terms.items()
        }
        return Terms({**self.terms, **more}, self.stages)

    def where(self, works: Num) -> Terms:
        """Zero where there is nothing to do."""
        busy = np.asarray(works, float) > 0
        return Terms(
            {name: np.where(busy, time, 0.0) for name, time in self.terms.items()},
            {name: np.where(busy, time, 0.0) for name, time in self.stages.items()},
        )


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """How operators of some kinds are priced.

    formula: (**arguments, parameters) -> seconds; its docstring states the equation.
    terms: the same arguments -> `Terms` that sum to the formula's seconds.
    key: (conditions, op) -> class and format of the constants, as `LatencyProfile` keys them.
    arguments: (conditions, op) -> the formula's arguments but the constants.
    """

    formula: Callable[..., Array]
    terms: Callable[..., Terms]
    key: Callable[[Conditions, Op], tuple[str, str]]
    arguments: Callable[[Conditions, Op], dict[str, Any]]


_MODELS: Registry[LatencyModel] = Registry("latency model")
Arguments = Callable[[Conditions, Op], dict[str, Any]]


def prices(
    *kinds: str,
    formula: Callable[..., Array],
    terms: Callable[..., Terms],
    key: Callable[[Conditions, Op], tuple[str, str]],
    phase: Phase | None = None,
) -> Callable[[Arguments], Arguments]:
    """Register the latency model of some kinds; decorates the function that makes its arguments.

    phase: of the operators with new tokens that the model prices: "decode" (one a sequence) or
    "prefill"; None for both.
    """

    def register(arguments: Arguments) -> Arguments:
        model = LatencyModel(formula, terms, key, arguments)
        for kind in kinds:
            for name in (phase,) if phase else PHASES:
                _MODELS.add(f"{kind} in {name}", model)
        return arguments

    return register


def latency_model(kind: str, phase: Phase) -> LatencyModel:
    """The model that prices a kind of operator in a phase."""
    return _MODELS[f"{kind} in {phase}"]


def depends_on_phase(kind: str) -> bool:
    """Whether prefill and decode of a kind have models of their own."""
    return latency_model(kind, "prefill") is not latency_model(kind, "decode")
