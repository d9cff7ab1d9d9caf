"""Registry of latency models: the formula of each kind of operator in each phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from genz_core.common.registry import Registry
from genz_core.graphs import Op
from genz_core.latency.conditions import Conditions
from genz_core.latency.kernel_time import KernelTime

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")


@dataclass(frozen=True, slots=True)
class LatencyModel:
    """Formula, constants and arguments that price operators of some kinds.

    formula: (**arguments, parameters) -> `KernelTime`; its docstring states the equation.
    key: (conditions, op) -> class and format of the constants, as `LatencyProfile` keys them.
    arguments: (conditions, op) -> the formula's arguments, without the constants.
    """

    formula: Callable[..., KernelTime]
    key: Callable[[Conditions, Op], tuple[str, str]]
    arguments: Callable[[Conditions, Op], dict[str, Any]]


_MODELS: Registry[LatencyModel] = Registry(
    "latency model", "name the kind under `@prices` in a file of genz_core/latency"
)

_Arguments = Callable[[Conditions, Op], dict[str, Any]]


def prices(
    *kinds: str,
    formula: Callable[..., KernelTime],
    key: Callable[[Conditions, Op], tuple[str, str]],
    phase: Phase | None = None,
) -> Callable[[_Arguments], _Arguments]:
    """Register the latency model of some kinds; decorates the function that makes its arguments.

    Args:
        kinds: names of operator kinds.
        formula, key: see `LatencyModel`.
        phase: "decode" for operators with one new token a sequence, "prefill" for those with
            more; None for a model of both.

    Raises:
        InvalidValue: a kind already has a model in that phase.
    """

    def register(arguments: _Arguments) -> _Arguments:
        model = LatencyModel(formula, key, arguments)
        for kind in kinds:
            for name in (phase,) if phase else PHASES:
                _MODELS.add(f"{kind} in {name}", model)
        return arguments

    return register


def latency_model(kind: str, phase: Phase) -> LatencyModel:
    """The model that prices a kind of operator in a phase.

    Raises:
        InvalidValue: none is registered; the registered ones are listed.
    """
    return _MODELS[f"{kind} in {phase}"]


def depends_on_phase(kind: str) -> bool:
    """Whether two different models price prefill and decode of a kind."""
    return latency_model(kind, "prefill") is not latency_model(kind, "decode")
