"""A setup: a question, plus a model or a system that a visitor uploaded as text.

It is hashable and serves as the key of every cache; `changed` is the part stored in an address.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import hardware_db
from app.question.parameters import PARAMETERS
from app.question.query import UnknownParameter
from app.question.question import Question
from app.scenario.known_systems import find_system
from app.scenario.scenario import Resolved, combined, find_model
from genz_core.errors import InvalidValue, UnknownModel
from genz_core.graphs import Model
from genz_core.systems import System
from hardware_db.data_folder import overlay
from model_registry.finding.hub import hub_id
from model_registry.finding.sources import json_object, shipped_page

#: Factor on the memory of a device, large enough for anything to fit.
_ROOMY = 1e6


@dataclass(frozen=True, slots=True)
class Setup:
    """A visitor's question, and texts that have no name.

    model_config, system_yaml: text that the visitor uploaded, "" to look the name up.
    own_folder: the visitor's data folder, laid over the user's, "" for none.  own_edition: state of
    its files, to distinguish cached results.  if_fitted: price it as if everything fitted in
    memory; without rent, so that nothing is priced in money.
    """

    scenario: Question = field(default_factory=Question)
    model_config: str = ""
    system_yaml: str = ""
    own_folder: str = ""
    own_edition: str = ""
    if_fitted: bool = False

    def changed(self) -> dict[str, Any]:
        """Fields that differ from the default, by the names that the address uses."""
        return self.scenario.changed()

    def document(self) -> dict[str, Any]:
        """All fields, for an export that another machine can read."""
        brought = {
            "model_config": self.model_config,
            "system_yaml": self.system_yaml,
            "if_fitted": self.if_fitted,
        }
        return asdict(self.scenario) | {k: v for k, v in brought.items() if v}


def setup_from(changed: Mapping[str, Any]) -> Setup:
    """The setup described by `Setup.changed`; unknown keys and wrong types are refused.

    Raises:
        InvalidValue: an unknown parameter, or an impossible value.
    """
    unknown = next((name for name in changed if name not in PARAMETERS), None)
    if unknown is not None:
        raise UnknownParameter(unknown, PARAMETERS)
    for name, value in changed.items():
        if PARAMETERS[name].names and not isinstance(value, str):
            raise InvalidValue(f"{name} = {str(value)[:60]}: give a name")
    return Setup(Question(**changed))


def resolve_setup(setup: Setup, model: Model | None = None) -> Resolved:
    """Model, system and engine of a setup.

    model: of the setup, if the caller already has it (`model_of`).

    Raises:
        RidgelineError: an unknown name, a config or a YAML that cannot be read.
    """
    s = setup.scenario
    model = model or model_of(s.model, setup.model_config, tuple(s.precisions.items()))
    with overlay(Path(setup.own_folder) if setup.own_folder else None):
        found = combined(s, model, system_of(setup))
    if not setup.if_fitted:
        return found
    roomy = hardware_db.what_if(found.system, capacity=_ROOMY)
    system = replace(roomy, name=f"{found.system.name}, if it fitted", price_usd_per_hour=None)
    return replace(found, system=system)


def model_of(name: str, config: str, precisions: tuple[tuple[str, str], ...]) -> Model:
    """A model by name, or from the text of a config.json that a visitor uploaded.

    Raises:
        RidgelineError: an unknown name, a hub address without its config, or a config that
            cannot be read.
    """
    return find_model(source_of(name, config), dict(precisions))


def source_of(name: str, config: str) -> str | Mapping[str, Any]:
    """A model's name, or the config that a visitor uploaded.

    Raises:
        UnknownModel: a hub address without its config.  InvalidValue: as `json_object`.
    """
    if not config and hub_id(name) and not shipped_page(name):
        raise UnknownModel(
            "hub model",
            name,
            hint="Its config.json is not available here: fetch it from the hub first",
        )
    return json_object(config) if config else name


def system_of(setup: Setup) -> System:
    """The system of a setup, without changes.

    Raises:
        RidgelineError: an unknown name, or a YAML that cannot be read.
    """
    if setup.system_yaml:
        return hardware_db.load_yaml(setup.system_yaml)
    return find_system(setup.scenario.system)
