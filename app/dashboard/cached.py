"""From what a visitor asks to an estimate, kept so that a page costs nothing to revisit.

A `Setup` is a scenario and what a scenario cannot name: a model or a system that the visitor
brought, and what-if multipliers.  It is hashable, so it is the key of every cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

import genz_core
import hardware_db
import model_registry
from app.scenario.scenario import Resolved, Scenario, combined, estimate_resolved
from genz_core import Estimate
from genz_core.errors import InvalidValue
from genz_core.step import StepEstimate
from genz_core.types import Model, System
from hardware_db import library

PHASES = ("prefill", "decode")
FACTORS = ("peak", "bandwidth", "capacity", "link")
#: What a setup adds to a scenario in numbers, with what each is unless said otherwise.
NUMBERS: Mapping[str, float] = {**dict.fromkeys(FACTORS, 1.0), "price": 0.0}


@dataclass(frozen=True, slots=True)
class Setup:
    """What is asked.

    model_config, system_yaml: text that the visitor brought, "" to look the name up.
    peak, bandwidth, capacity, link: what-if multipliers of the system.
    price: rent of a device [USD per hour]; 0 for the one that the system states.
    """

    scenario: Scenario = field(default_factory=Scenario)
    model_config: str = ""
    system_yaml: str = ""
    peak: float = 1.0
    bandwidth: float = 1.0
    capacity: float = 1.0
    link: float = 1.0
    price: float = 0.0

    def changed(self) -> dict[str, Any]:
        """What differs from the default, by the names that the address uses."""
        factors = {name: value for name, value in self._numbers().items() if value != NUMBERS[name]}
        return self.scenario.changed() | factors

    def document(self) -> dict[str, Any]:
        """Everything, for an export that another machine can read."""
        brought = {"model_config": self.model_config, "system_yaml": self.system_yaml}
        return asdict(self.scenario) | self._numbers() | {k: v for k, v in brought.items() if v}

    def _numbers(self) -> dict[str, float]:
        return {name: getattr(self, name) for name in NUMBERS}


def setup_from(changed: Mapping[str, Any]) -> Setup:
    """The setup that `Setup.changed` described; unknown keys and wrong kinds are refused.

    Raises:
        InvalidValue: a key that no scenario has, or a value of another kind.
    """
    standard = asdict(Scenario()) | dict(NUMBERS) | {"moe_tp": 1}
    for name, value in changed.items():
        if name not in standard:
            raise InvalidValue(f"a scenario has no {name!r}; it has {', '.join(standard)}")
        wanted: type | tuple[type, ...] = type(standard[name])
        if not isinstance(value, (int, float) if wanted is float else wanted):
            raise InvalidValue(f"{name} = {value!r}: give {type(standard[name]).__name__}")
    names = {f.name for f in fields(Scenario)}
    scenario = Scenario(**{k: v for k, v in changed.items() if k in names})
    numbers: dict[str, Any] = {k: float(v) for k, v in changed.items() if k in NUMBERS}
    return Setup(scenario, **numbers)


@st.cache_resource(max_entries=64, show_spinner=False)
def model_of(name: str, config: str, precisions: tuple[tuple[str, str], ...]) -> Model:
    """A model by name, or from the text of a config.json that a visitor brought.

    Raises:
        RidgelineError: an unknown name, a file's path, or a config that cannot be read.
    """
    _refuse_path("model", name)
    return model_registry.load(parse_config(config) if config else name, **dict(precisions))


def parse_config(text: str) -> dict[str, Any]:
    """The mapping in a config.json.

    Raises:
        InvalidValue: the text is no JSON object.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(f"the config is not valid JSON: {error}") from None
    if not isinstance(config, dict):
        raise InvalidValue("the config is valid JSON but no object; paste a whole config.json")
    return config


def _refuse_path(kind: str, name: str) -> None:
    """A visitor names models and systems; files of the server are not theirs to open."""
    if name.startswith((".", "/", "~", "\\")) or name.endswith((".json", ".yaml", ".yml")):
        raise InvalidValue(
            f"{name!r} is a path: give a name, or upload the file as your own {kind}"
        )


def system_of(setup: Setup) -> System:
    """The system of a setup, what-if multipliers applied."""
    _refuse_path("system", setup.scenario.system)
    if setup.system_yaml:
        system = hardware_db.load_yaml(setup.system_yaml)
    else:
        system = hardware_db.load(setup.scenario.system)
    if setup.price:
        system = replace(system, price_usd_per_hour=setup.price)
    return hardware_db.what_if(system, **{name: getattr(setup, name) for name in FACTORS})


@st.cache_resource(max_entries=64, show_spinner=False)
def resolved(setup: Setup) -> Resolved:
    """Model, system and engine of a setup.

    Raises:
        RidgelineError: an unknown name, a config or a YAML that cannot be read.
    """
    scenario = setup.scenario
    model = model_of(scenario.model, setup.model_config, tuple(scenario.precisions.items()))
    return combined(scenario, model, system_of(setup), measured=not setup.system_yaml)


@st.cache_resource(max_entries=64, show_spinner=False)
def priced(setup: Setup) -> Estimate:
    """The estimate of a setup, one configuration.

    Raises:
        RidgelineError: as `resolved`, and degrees or sizes that cannot be.
    """
    return estimate_resolved(resolved(setup))


@st.cache_resource(max_entries=32, show_spinner=False)
def swept(setup: Setup, axis: str, values: tuple[int, ...]) -> Estimate:
    """The estimate of a setup with `axis` ("batch" or "isl") running over `values`."""
    return estimate_resolved(resolved(setup), **{axis: np.array(values, dtype=float)})


@st.cache_resource(show_spinner=False)
def _seen() -> frozenset[tuple[Path, int]]:
    """The files of the user's own that all that is kept stands on."""
    return library.stamp()


def keep_up() -> None:
    """Forget all that is kept if a command has changed the user's own files meanwhile."""
    if _seen() != library.stamp():
        forget()


def forget() -> None:
    """Drop all that is kept: something that predictions stand on has changed."""
    st.cache_resource.clear()
    st.cache_data.clear()


def step_of(estimate: Estimate, phase: str) -> StepEstimate:
    return estimate.prefill if phase == "prefill" else estimate.decode


def parts_of(step: StepEstimate, config: int = 0) -> dict[str, float]:
    """Seconds of a step by what takes them; they sum to its total."""
    parts = {name: float(part[:, config].sum()) for name, part in step.parts().items()}
    parts |= {"host": float(step.host_s[config]), "pipeline": float(step.pipeline_s[config])}
    noise = 1e-9 * sum(parts.values())
    return {name: value if value > noise else 0.0 for name, value in parts.items()}


# ------------------------------------------------------------------------------- what would help


@st.cache_data(max_entries=256, show_spinner=False)
def levers(setup: Setup) -> dict[str, list[tuple[str, float]]]:
    """What single changes would save of each phase's latency, best first.

    Every one is priced anew: half the launch and host time, or twice a resource.
    """
    base, asked = priced(setup), resolved(setup)
    changes: list[tuple[str, Resolved]] = [
        (f"twice the {words}", replace(asked, system=hardware_db.what_if(asked.system, **change)))
        for words, change in (
            ("memory bandwidth", {"bandwidth": 2.0}),
            ("peak arithmetic", {"peak": 2.0}),
            ("link bandwidth", {"link": 2.0}),
        )
    ]
    changes.append(("half the launch and host time", replace(asked, engine=_lighter(asked.engine))))
    changes += _fewer_bits(setup)
    saved: dict[str, list[tuple[str, float]]] = {phase: [] for phase in PHASES}
    for words, other in changes:
        after = estimate_resolved(other)
        for phase in PHASES:
            share = 1.0 - _latency(after, phase) / _latency(base, phase)
            saved[phase].append((words, share))
    return {phase: sorted(found, key=lambda item: -item[1]) for phase, found in saved.items()}


def _latency(estimate: Estimate, phase: str) -> float:
    return float((estimate.ttft_s if phase == "prefill" else estimate.tpot_s)[0])


def _lighter(engine: genz_core.EngineProfile) -> genz_core.EngineProfile:
    names = ("kernel_floor_s", "host_step_s", "host_sequence_s", "host_request_s", "sampling_s")
    return replace(engine, **{name: getattr(engine, name) / 2.0 for name in names})


def _fewer_bits(setup: Setup) -> Sequence[tuple[str, Resolved]]:
    """The setup with 8-bit weights, where they are the checkpoint's 16 bit now."""
    weights = set(resolved(setup).model.precision.weights.values())
    if setup.scenario.weights or not weights <= {"bf16", "fp16"}:
        return []
    other = replace(setup, scenario=replace(setup.scenario, weights="fp8"))
    return [("fp8 weights", resolved(other))]
