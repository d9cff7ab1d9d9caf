"""Functions made from the declarations: the signature, types and help of every argument."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

from app.question.extras import extras_of, read_extras
from app.question.forms import forms_of
from app.question.parameter import Parameter
from app.question.parameters import PARAMETERS
from app.question.query import ask
from app.question.verbs import parameters_of

#: Types that may replace a name, by what the name refers to.
_OBJECTS = {
    "model": ("Path", "Mapping[str, Any]", "Model"),
    "system": ("Path", "System"),
    "engine": ("EngineProfile",),
    "trace": ("str", "Path", "Requests"),
    "lengths": ("str", "Path", "Sequence[Sequence[float]]", "np.ndarray"),
}
_WIDTH = 96
_NEEDED = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Own:
    """An argument of a function that is not a parameter of its question.

    default: `inspect.Parameter.empty` if it is required.
    """

    name: str
    type: str
    default: Any
    help: str


def verb(
    *own: Own,
    first: Sequence[str] = ("model",),
    model: Any = _NEEDED,
    instead: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the function of a verb, with the verb's name, from an inner function.

    The inner function is called with the `Query`, and with the extras of the verb and `own` by
    name.

    Args:
        own: further arguments.
        first: arguments that may be given by position.
        model: default of the model; without one it is required.
        instead: the verb to use if a parameter is given, by that parameter.
    """
    instead = instead or {}

    def made(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        arguments = list(_arguments(name, own, first, model, instead))

        @wraps(function)
        def call(*values: Any, **given: Any) -> Any:
            # it imports all models, so only when it is needed
            from app.scenario.local_files import sources

            named = _named(name, first, values, given)
            options, parameters = read_extras(extras_of(name), named)
            for one in own:
                options[one.name] = parameters.pop(one.name, one.default)
            for one in arguments:
                if one.default is _NEEDED and one.name not in named:
                    raise TypeError(f"{name}() needs {one.name}: it is not given")
            verbs = (other for at, other in instead.items() if parameters.get(at) is not None)
            return function(ask(next(verbs, name), parameters, sources), **options)

        signature = inspect.Signature(
            [
                inspect.Parameter(
                    one.name,
                    inspect.Parameter.POSITIONAL_OR_KEYWORD
                    if one.name in first
                    else inspect.Parameter.KEYWORD_ONLY,
                    default=one.default,
                    annotation=one.type,
                )
                for one in arguments
            ],
            return_annotation=function.__annotations__["return"],
        )
        call.__signature__ = signature  # type: ignore[attr-defined]  # read by inspect
        call.__doc__ = _document(function.__doc__ or "", arguments)
        call.__annotations__ = {"return": function.__annotations__["return"]}
        return call

    return made


def _arguments(
    name: str, own: Sequence[Own], first: Sequence[str], model: Any, instead: Mapping[str, str]
) -> Iterator[Own]:
    """All arguments of a verb's function: positional arguments, parameters, other arguments."""
    known = parameters_of(name)
    wanted = [one for at, one in PARAMETERS.items() if at in known or at in instead]
    every = {
        one.name: Own(
            one.name, type_of(one, name), model if one.name == "model" else one.default,
            help_of(one),
        )
        for one in wanted
    }  # fmt: skip
    for extra in extras_of(name).values():
        every[extra.name] = Own(extra.name, type_of(extra, ""), extra.default, help_of(extra))
    every |= {one.name: one for one in own}
    yield from (every.pop(at) for at in first)
    yield from every.values()


def type_of(one: Parameter, name: str) -> str:
    """The type of a parameter of a verb, as Python source."""
    number = "int" if one.kind == "whole" else "float"
    text = ["str", *_OBJECTS.get(one.names, ())]
    types = {
        "number": ["float"] if one.kind == "text" else [number],
        "numbers": [f"Sequence[{'float' if one.kind == 'text' else number}]", "np.ndarray"],
        "range": ["Mapping[str, Any]"],
        "truth": ["bool"],
        "text": ["str"] if one.numeric else text,
        "texts": [f"Sequence[{' | '.join(text)}]"],
        "rows": text,
        "prices": ["Mapping[str, float]"],
    }
    said = dict.fromkeys(each for form in forms_of(one, name) for each in types[form])
    return " | ".join([*said, *(["None"] if one.default is None else [])])


def help_of(one: Parameter) -> str:
    """The help of a parameter, with its unit and choices."""
    choices = ", ".join(f'"{choice}"' for choice in one.choices if choice)
    unit = f" Unit: {one.unit}." if one.unit else ""
    return f"{one.help}{unit}{f' One of {choices}.' if choices else ''}"


def _named(
    name: str, first: Sequence[str], values: Sequence[Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """All given arguments, by name."""
    if len(values) > len(first):
        raise TypeError(
            f"{name}() takes {len(first)} argument{'s' if len(first) > 1 else ''} without a name "
            f"({', '.join(first)}), and {len(values)} were given"
        )
    named = dict(zip(first, values, strict=False))
    twice = next((at for at in named if at in given), None)
    if twice:
        raise TypeError(f"{name}() got {twice} twice: give it once")
    return {**named, **given}


def _document(text: str, arguments: Sequence[Own]) -> str:
    """A docstring with a line for every argument, before the description of what it returns."""
    head, returns, rest = inspect.cleandoc(text).partition("Returns:\n")
    said = "\n".join(
        textwrap.fill(
            f"{one.name}: {one.help}", _WIDTH, initial_indent="    ", subsequent_indent=" " * 8
        )
        for one in arguments
    )
    return f"{head}Args:\n{said}\n\n{returns}{rest}\n"
