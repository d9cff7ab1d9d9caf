"""A question as a line that reads back as the same question; it contains only non-default
values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from app.line.line_parser import read
from app.line.words import quoted, short
from app.question import literals
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question
from app.question.verbs import VERBS
from app.wording.quantities import counted

_DEGREES = ("tp", "pp", "dp", "ep", "cp")


def written(question: Question, several: Mapping[str, tuple[Any, ...]] | None = None) -> str:
    """The line of a question.

    several: values to choose among, by parameter.
    """
    values = {**question.changed(), **(several or {})}
    if question.moe_tp is not None:
        values["ep"] = question.ep
    line = " ".join(_phrases(values))
    if _reads_as(line, values):
        return line
    return " ".join(_stated(name, value) for name, value in values.items())


def _reads_as(text: str, values: Mapping[str, Any]) -> bool:
    line = read(text)
    return not line.unread and line.given == values


def _phrases(values: Mapping[str, Any]) -> Iterator[str]:
    """The words that a person would type, part by part; both lengths are one part."""
    for name, value in values.items():
        if name == "isl" or (name == "osl" and "isl" not in values):
            isl, osl = (values.get(each, getattr(STANDARD, each)) for each in ("isl", "osl"))
            both = {"isl", "osl"} <= set(values)
            yield f"{short(isl)}/{short(osl)}" if both else _stated(name, value)
        elif name != "osl":
            yield _phrase(name, value)


def _phrase(name: str, value: Any) -> str:
    if name == "engine_version":
        return _stated(name, value)
    typed_as = {
        "concurrency": lambda: counted(short(value), "user"),
        "rate": lambda: f"{short(value)}/s",
        "target": lambda: ", ".join(value),
        **dict.fromkeys(_DEGREES, lambda: f"{name}{value}"),
        **dict.fromkeys(("model", "system", "engine", "weights", "speculation"), lambda: value),
    }.get(name)
    if typed_as is None or (isinstance(value, tuple) and name in VERBS["plan"].several):
        return _stated(name, value)
    text = typed_as()
    return text if _reads_as(text, {name: value}) else _stated(name, value)


def _stated(name: str, value: Any) -> str:
    """ "name=value", a form that exists for every value."""
    if PARAMETERS[name].kind == "truth":
        return f"--{'' if value else 'no-'}{name.replace('_', '-')}"
    text = short(value) if isinstance(value, (int, float)) else literals.text(value)
    return f"{name.replace('_', '-')}={quoted(text)}"
