"""Objects that a caller gives in place of the name of a model, a system or an engine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.question.parameter import Parameter
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.limits import brief
from genz_core.systems import System

#: Types that a parameter takes besides a name, by what it names.
_TYPES: Mapping[str, tuple[type, ...]] = {
    "model": (Path, Mapping, Model),
    "system": (Path, Mapping, System),
    "engine": (EngineProfile,),
}
#: The same in words.
_ACCEPTED = {
    "model": "a name, a path, a config or what ridgeline.model returns",
    "system": "a name, a path, a mapping or what ridgeline.system returns",
    "engine": "a name or what ridgeline.engine returns",
}


def refuse_other_objects(one: Parameter, value: Any) -> None:
    """Refuse an object of a type that a parameter does not take.

    Raises:
        InvalidValue: it quotes the value, says what is accepted, and names the parameter that takes
            such an object, if there is one.
    """
    if isinstance(value, (bool, int, float, bytes)):
        raise InvalidValue(f"{one.name} = {brief(value)}: give a name")
    if one.names not in _TYPES or isinstance(value, (str, *_TYPES[one.names])):
        return
    if one.names == "model":
        from model_registry.finding.hub import HubModel  # late: it imports the network's modules

        if isinstance(value, HubModel):
            return
    other = next((name for name, types in _TYPES.items() if isinstance(value, types)), "")
    hint = f"; this one is given as {other}" if other else ""
    raise InvalidValue(f"{one.name} = {brief(value)}: give {_ACCEPTED[one.names]}{hint}")
