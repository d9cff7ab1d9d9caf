"""A question written as the options of a command."""

from collections.abc import Iterable
from typing import Any

from app.planning.demand import trace_of
from app.question.parameters import PARAMETERS
from app.question.query import Query
from app.question.question import STANDARD, Question
from app.question.verbs import parameters_of

_OF_A_TRACE = ("rate", "isl", "osl")
_UNSAID = {"weights": "checkpoint", "kv": "checkpoint"}


def options(query: Query) -> list[str]:
    """The options of `ridgeline plan` for the same question about its model."""
    trace = trace_of(query)
    found: list[str] = []
    for name in parameters_of(query.verb):
        value = getattr(query.question, name)
        stated = name in query.given and value not in ("", None)
        if name == "model" or (trace and name in _OF_A_TRACE):
            continue
        if name in query.several:
            texts = (_text(name, one) or _UNSAID.get(name, "none") for one in query.several[name])
            found += [PARAMETERS[name].option, ",".join(texts)]
        elif stated or (name != "ep" and value != getattr(STANDARD, name)):
            found += option(name, value)
    return found + (["--trace", trace.name] if trace else [])


def stated(question: Question, names: Iterable[str]) -> list[str]:
    """Options for the given parameters that differ from their defaults."""
    changed = question.changed()
    return [word for name in names if name in changed for word in option(name, changed[name])]


def option(name: str, value: Any) -> list[str]:
    """A parameter and its value as words of a command."""
    word = PARAMETERS[name].option
    if isinstance(value, bool):
        return [word if value else word.replace("--", "--no-", 1)]
    return [word, _text(name, value)]


def _text(name: str, value: Any) -> str:
    if isinstance(value, tuple):
        if name == "devices":
            return ":".join(map(str, value))
        pairs = ("=".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in value)
        return ", ".join(pairs) if name == "target" else ",".join(pairs)
    if isinstance(value, float):
        return f"{value:.12g}"
    return str(getattr(value, "slug", "") or value)
