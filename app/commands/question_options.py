"""Options of a verb, made from the declarations of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, get_type_hints

import typer
from typer.core import TyperCommand

from app.question.extras import extras_of, read_extras
from app.question.literals import two_or_one
from app.question.parameter import Parameter
from app.question.parameters import ALIASES, PARAMETERS
from app.question.question import SPLIT
from app.question.verbs import VERBS, parameters_of

if TYPE_CHECKING:
    from app.question.query import Query


def _canonical(name: str) -> str:
    """The canonical name of an option: "shared-prompt" becomes "shared-tokens"."""
    negated = "no-" if name.startswith("no-") else ""
    plain = name.removeprefix("no-").replace("-", "_")
    return negated + ALIASES[plain].replace("_", "-") if plain in ALIASES else name


#: Settings of a command that takes a question: aliases of its options are accepted.
CONTEXT: dict[str, Any] = {"token_normalize_func": _canonical}
_NUMBER, _NUMBERS = re.compile(r"\d+"), re.compile(r"[\d, ]+")
#: Parameters that a measured file states, so that they have no default beside one.
_OF_FILES = ("model", "system", "engine", *SPLIT, "batch", "concurrency", "isl", "osl")
_METAVARS = {"whole": "INTEGER", "number": "NUMBER", "text": "TEXT", "list": "TEXT"}


class _Lists(TyperCommand):
    """A command whose options in `lists` take several numbers, separated by commas or spaces.

    A model that is an argument may be given as --model too.
    """

    lists: ClassVar[tuple[str, ...]] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with the several numbers of a list option joined by commas."""
        self._share_conversions()
        joined: list[str] = []
        if not any("--model" in one.opts for one in self.params):
            args = [word.removeprefix("--model=") for word in args if word != "--model"]
        for word in args:
            numbers = len(joined) > 1 and joined[-2] in self.lists
            if numbers and _NUMBER.fullmatch(word) and _NUMBERS.fullmatch(joined[-1]):
                joined[-1] += f",{word}"
            else:
                joined.append(word)
        return super().parse_args(ctx, joined)

    def _share_conversions(self) -> None:
        """Options of texts convert alike, so that one conversion is made for all of them."""
        every: list[Any] = list(self.params)
        texts = [one for one in every if one.type_descriptor.annotation == list[str]]
        for one in texts[1:]:
            one._runtime_param = texts[0].get_runtime_param()


#: Type of a command's parameter that is declared in `app.question.extras`.
Extra: TypeAlias = Any


class Extras(dict[str, Any]):
    """Type of a command's parameter that holds all extras of its verb, by name."""


class Given(dict[str, Any]):
    """The typed values of a question by parameter, as text or truth, without those not typed."""

    def ask(self, verb: str, **more: Any) -> Query:
        """The question for a verb; texts may name files of this machine.

        A value that looks like one number and is read as two is noted on standard error.

        more: values that replace typed ones.

        Raises:
            RidgelineError: as `app.question.query.ask`.
        """
        from app.question.query import ask
        from app.scenario.local_files import sources

        query = ask(verb, {**self, **more}, sources)
        for name, text in self.items():
            if isinstance(text, str) and (said := two_or_one(PARAMETERS[name], text)):
                typer.echo(f"ridgeline: note: {said}", err=True)
        return query


def of_verb(verb: str, *, optional: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Give the command of a verb an option for each of its parameters.

    The options replace the command's parameter of type `Given`, which receives the typed values.
     Numbers are taken as text, so that "10k" and "1:64:x2" are parsed where they are allowed.  An
    option that is typed twice adds a value if the parameter takes several.
    The command's parameters of type `Extra` are the extras of the verb; one of type `Extras`
    receives all of them.

    optional: whether the model, a positional argument if the verb needs it, may be omitted.

    Raises:
        InvalidValue: when the command runs: an option typed twice that takes one value.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = get_type_hints(command)
        known = {at: one for at, one in parameters_of(verb).items() if at not in own}
        beside = extras_of(verb, programs=True)
        together = Extras in own.values()
        extras = {at: one for at, one in beside.items() if together or own.get(at) is Extra}

        def read(typed: dict[str, Any]) -> Given:
            texts = {at: _single(one, typed[at], several=False) for at, one in extras.items()}
            typed |= read_extras(extras, texts)[0]
            values = {
                at: _single(one, typed.pop(at), several=at in VERBS[verb].several)
                for at, one in known.items()
            }
            return Given({at: value for at, value in values.items() if value is not None})

        if VERBS[verb].measured:  # the file states them
            known |= {at: replace(known[at], default=None) for at in _OF_FILES if at in known}
        argument = "optional" if optional else "argument" if VERBS[verb].names_model else "option"
        options = list(_options(known, argument))
        lists = tuple(one.option for one in extras.values() if "numbers" in one.also)
        kind = type("VerbCommand", (_Lists,), {"lists": lists})
        return _with_options(command, options, read, _options(extras, ""), cls=kind)

    return decorate


def takes(*several: str, **defaults: Any) -> Callable[[Callable[..., None]], Any]:
    """Give a measuring command an option for some declared parameters.

    The command's parameter of type `Given` receives their values.  Options that were not typed have
    the defaults given here, which a machine can measure in reasonable time.

    several: parameters that accept a list, as "1,2,4" or "1:8:x2"; passed as lists.
    defaults: {parameter: value, or text of several}.

    Raises:
        InvalidValue: when the command runs: an invalid value.
    """
    known = {name: replace(PARAMETERS[name], default=value) for name, value in defaults.items()}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def read(typed: dict[str, Any]) -> Given:
            from app.question import literals as texts

            found = Given()
            for name, one in known.items():
                text = _single(one, typed.pop(name), several=name in several)
                if text is None:
                    text = texts.text(one.default)
                read_one = texts.values if name in several else texts.value
                found[name] = read_one(one, text) if text else None
            return found

        return _with_options(command, list(_options(known, "option")), read)

    return decorate


def _with_options(
    command: Callable[..., None],
    options: list[inspect.Parameter],
    read: Callable[[dict[str, Any]], Given],
    extras: Iterable[inspect.Parameter] = (),
    **settings: Any,
) -> Callable[..., None]:
    """A command with options in place of its parameter of type `Given`; `read` converts the typed
    values.

    extras: replace the command's own parameters of the same names.  settings: of the command.
    """
    declared = {one.name: one for one in extras}
    hints = get_type_hints(command, include_extras=True)
    signature = inspect.signature(command)
    place = next(name for name, kind in hints.items() if kind is Given)
    together = next((name for name, kind in hints.items() if kind is Extras), "")
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name == place:
            parameters += options
        elif name == together:
            parameters += declared.values()
        elif name in declared:
            parameters.append(declared[name])
        else:
            parameters.append(
                parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            )

    @wraps(command)
    def run(**typed: Any) -> None:
        given = read(typed)
        if together:
            typed[together] = Extras({name: typed.pop(name) for name in declared})
        command(**typed, **{place: given})

    run.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    vars(run)["settings"] = {"context_settings": CONTEXT, **settings}
    return run


def _options(known: dict[str, Parameter], model: str) -> Iterator[inspect.Parameter]:
    for name, one in known.items():
        if name == "model" and model != "option":
            told = f"{one.help} Also --model."
            kind: Any = Annotated[str, typer.Argument(help=told, show_default=False)]
            default: Any = inspect.Parameter.empty if model == "argument" else ""
        else:
            kind, default = _option(one), None
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind
        )


def _option(one: Parameter) -> Any:
    """The annotated type of an option, with its names, help and default."""
    told: dict[str, Any] = {"help": _help(one), "rich_help_panel": one.group or None}
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


def _single(one: Parameter, typed: Any, *, several: bool) -> Any:
    """One typed value; several joined by commas if the parameter takes several."""
    if not isinstance(typed, list):
        return typed if typed != "" else None
    if not typed:
        return None
    if len(typed) > 1 and not (several or one.kind == "list"):
        from genz_core.errors import InvalidValue

        raise InvalidValue(
            f"{one.option} is typed {len(typed)} times ({', '.join(typed)}): give it once"
        )
    return ",".join(typed)
