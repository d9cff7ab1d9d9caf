"""Options as groups: a dataclass of annotated fields stands in a command for an option each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each field of the dataclasses among its parameters.

    Options stand where their group does; names, defaults and help are those of the fields.
    """
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    options: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        single = parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
        options += _options(groups[name]) if name in groups else [single]

    @wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{entry.name: given.pop(entry.name) for entry in fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    run.__annotations__ = {option.name: option.annotation for option in options}
    vars(run)["__signature__"] = signature.replace(parameters=options)
    return run


def _options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for entry in fields(group):
        default = inspect.Parameter.empty if entry.default is MISSING else entry.default
        yield inspect.Parameter(
            entry.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=hints[entry.name],
        )
