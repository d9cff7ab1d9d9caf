"""A setup: a scenario, and what a scenario cannot name.

That is a model or a system that a visitor brings as text, and what-if multipliers.  It is hashable,
so it is the key of every cache, and `changed` is what an address carries.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import hardware_db
import model_registry
from app.scenario.scenario import Resolved, Scenario, combined
from genz_core.errors import InvalidValue, UnknownModel
from genz_core.types import Model, System
from hardware_db.data_folder import overlay
from model_registry.finding.hub import hub_id
from model_registry.finding.sources import shipped_page

FACTORS = ("peak", "bandwidth", "capacity", "link")
#: What a setup adds to a scenario in numbers, with what each is unless said otherwise.
NUMBERS: Mapping[str, float] = {**dict.fromkeys(FACTORS, 1.0), "price": 0.0}


@dataclass(frozen=True, slots=True)
class Setup:
    """What is asked.

    model_config, system_yaml: text that the visitor brought, "" to look the name up.
    peak, bandwidth, capacity, link: what-if multipliers of the system.
    price: rent of a device [USD per hour]; 0 for the one that the system states.
    own_folder: the visitor's data folder, laid over the user's, "" for none.  own_edition: state of
    its files, which tells apart what is cached.
    """

    scenario: Scenario = field(default_factory=Scenario)
    model_config: str = ""
    system_yaml: str = ""
    peak: float = 1.0
    bandwidth: float = 1.0
    capacity: float = 1.0
    link: float = 1.0
    price: float = 0.0
    own_folder: str = ""
    own_edition: str = ""

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


def resolve_setup(setup: Setup, model: Model | None = None) -> Resolved:
    """Model, system and engine of a setup.

    model: of the setup, where the caller holds it already (`model_of`).

    Raises:
        RidgelineError: an unknown name, a config or a YAML that cannot be read.
    """
    s = setup.scenario
    model = model or model_of(s.model, setup.model_config, tuple(s.precisions.items()))
    with overlay(Path(setup.own_folder) if setup.own_folder else None):
        return combined(s, model, system_of(setup), measured=not setup.system_yaml)


def model_of(name: str, config: str, precisions: tuple[tuple[str, str], ...]) -> Model:
    """A model by name, or from the text of a config.json that a visitor brought.

    Raises:
        RidgelineError: an unknown name, a hub address without its config, or a config that
            cannot be read.
    """
    return model_registry.load(source_of(name, config), **dict(precisions))


def source_of(name: str, config: str) -> str | dict[str, Any]:
    """A model's name, or the config that a visitor brought.

    Raises:
        UnknownModel: a hub address without its config.  InvalidValue: as `parse_config`.
    """
    if not config and hub_id(name) and not shipped_page(name):
        raise UnknownModel("hub model", name, hint="Its config.json is not here: ask the hub first")
    return parse_config(config) if config else name


def system_of(setup: Setup) -> System:
    """The system of a setup, what-if multipliers applied.

    Raises:
        RidgelineError: an unknown name, or a YAML that cannot be read.
    """
    if setup.system_yaml:
        system = hardware_db.load_yaml(setup.system_yaml)
    else:
        system = hardware_db.load(setup.scenario.system)
    if setup.price:
        system = replace(system, price_usd_per_hour=setup.price)
    return hardware_db.what_if(system, **{name: getattr(setup, name) for name in FACTORS})


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
