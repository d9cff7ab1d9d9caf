"""The constants of an engine that are fitted on whole steps, with their priors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EngineConstant:
    """An engine constant that is fitted on whole steps, with the widths of its priors.

    field: of `EngineProfile`.  engine, device, recipe: standard deviations of its logarithm between
    the assumed value and an engine; between the engine and one of its devices; between that device
    and one model and format on it; era: between the engine today and one of its eras.  0: no
    difference there.
    least: starting value if the constant is zero; 0 if zero means that the engine has no such cost.
    most: how far its logarithm may rise in an engine, since a rate cannot exceed the hardware's.
    """

    field: str
    engine: float
    device: float = 0.0
    recipe: float = 0.0
    era: float = 0.0
    least: float = 1e-9
    most: float = 3.0


#: The widths are judgements: round figures, chosen by their results on configurations, models and
#: devices left out of hardware_db/measurements (docs/accuracy.md, "Limits").
CONSTANTS = (
    EngineConstant("kernel_floor_s", 0.06, 0.3, 0.4, era=0.5),
    EngineConstant("host_step_s", 0.1, 0.4, 0.7, era=0.7),
    EngineConstant("host_sequence_s", 0.1, 0.0, 0.7, era=0.7, least=0.5e-6),
    EngineConstant("moe_floor_s", 0.1, era=0.5),
    EngineConstant("expert_s", 0.1, era=0.5),
    EngineConstant("compute_efficiency", 0.05, 0.3, 0.3, era=0.3, most=0.1),
    EngineConstant("memory_efficiency", 0.02, 0.15, 0.15, era=0.2, most=0.1),
    EngineConstant("attention_efficiency", 0.05, 0.2, 0.2, era=0.3, most=0.1),
    EngineConstant("four_bit_efficiency", 0.5, era=0.3),
    EngineConstant("expert_efficiency", 0.5, era=0.3),
    EngineConstant("vector_weights", 0.3, device=0.15, least=0.0, most=1.0),
    EngineConstant("host_request_s", 1.0, least=1e-4, most=1.6),
    EngineConstant("prompt_launch_s", 0.15, 0.2, 0.4, era=0.7, least=0.0),
)
FIELDS = tuple(constant.field for constant in CONSTANTS)
#: {constant: starting value where it is zero}.
LEAST: Mapping[str, float] = {constant.field: constant.least for constant in CONSTANTS}
