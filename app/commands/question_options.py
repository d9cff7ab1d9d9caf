"""Options of a verb, made from the declarations of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from app.question.parameter import Parameter
from app.question.parameters import ALIASES
from app.question.verbs import VERBS, parameters_of


def _canonical(name: str) -> str:
    """The name of an option by any of its parameter's names: "shared-prompt" is "shared-tokens"."""
    negated = "no-" if name.startswith("no-") else ""
    plain = name.removeprefix("no-").replace("-", "_")
    return negated + ALIASES[plain].replace("_", "-") if plain in ALIASES else name


#: Settings of a command that takes a question: other names of its options are understood.
CONTEXT: dict[str, Any] = {"token_normalize_func": _canonical}
_METAVARS = {"whole": "INTEGER", "number": "NUMBER", "text": "TEXT", "list": "TEXT"}


class Given(dict[str, Any]):
    """What a user typed of a question: text or truth by parameter, without what was not typed."""


def asks(verb: str, model: str = "argument") -> Callable[[Callable[..., None]], Any]:
    """Give a command an option for every parameter of a verb.

    The options stand where the command's parameter of type `Given` does, which receives what was
    typed.  Numbers are taken as text, so that "10k" and "1:64:x2" can be read where they mean
    something.  An option that is typed twice adds a value where the parameter takes several.

    model: "argument" where the model's name needs no option, "optional" where it may be left out
    besides, "option" for `--model`.

    Raises:
        InvalidValue: when the command runs, an option typed twice that takes one value.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        signature = inspect.signature(command)
        place = next(name for name, kind in hints.items() if kind is Given)
        own = {name for name in signature.parameters if name != place}
        known = {n: one for n, one in parameters_of(verb).items() if n not in own}
        options: list[inspect.Parameter] = []
        for name, parameter in signature.parameters.items():
            if name == place:
                options += _options(known, model)
            else:
                options.append(
                    parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
                )

        @wraps(command)
        def run(**typed: Any) -> None:
            given = Given()
            for name, one in known.items():
                value = _single(verb, one, typed.pop(name))
                if value is not None:
                    given[name] = value
            command(**typed, **{place: given})

        run.__annotations__ = {option.name: option.annotation for option in options}
        vars(run)["__signature__"] = signature.replace(parameters=options)
        return run

    return decorate


def _options(known: dict[str, Parameter], model: str) -> Iterator[inspect.Parameter]:
    for name, one in known.items():
        if name == "model" and model != "option":
            kind: Any = Annotated[str, typer.Argument(help=one.help, show_default=False)]
            default: Any = inspect.Parameter.empty if model == "argument" else ""
        else:
            kind, default = _option(one), None
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
        )


def _option(one: Parameter) -> Any:
    """The type of an option, with its names, help and default."""
    told: dict[str, Any] = {"help": _help(one), "rich_help_panel": one.group}
    told["show_default"] = _default(one)
    if one.kind == "truth":
        names = f"{one.option}/--no-{one.option[2:]}"
        return Annotated[bool | None, typer.Option(names, **told)]
    return Annotated[
        list[str] | None, typer.Option(one.option, metavar=_METAVARS[one.kind], **told)
    ]


def _help(one: Parameter) -> str:
    choices = ", ".join(filter(None, one.choices))
    others = ", ".join(f"--{name.replace('_', '-')}" for name in one.aliases)
    parts = (one.help, f"({one.unit})" if one.unit else "", f"One of {choices}." if choices else "")
    return " ".join(filter(None, (*parts, f"Also {others}." if others else "")))


def _default(one: Parameter) -> Any:
    if one.default in (None, "", ()):
        return False
    if one.kind == "truth":
        return "yes" if one.default else "no"
    return f"{one.default:g}" if one.kind == "number" else str(one.default)


def _single(verb: str, one: Parameter, typed: Any) -> Any:
    """One value of what was typed; several joined by commas where the parameter takes several."""
    if not isinstance(typed, list):
        return typed if typed != "" else None
    if not typed:
        return None
    several = one.kind == "list" or one.name in VERBS[verb].several
    if len(typed) > 1 and not several:
        from genz_core.errors import InvalidValue

        raise InvalidValue(f"{one.option} is typed {len(typed)} times ({', '.join(typed)}): once")
    return ",".join(typed)
