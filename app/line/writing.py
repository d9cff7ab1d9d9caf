"""A question as a line that reads back as the same question: only what is not the default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from app.line.reading import read
from app.line.words import quoted
from app.question import typed
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question
from app.question.verbs import VERBS

_DEGREES = ("tp", "pp", "dp", "ep", "cp")


def written(question: Question, several: Mapping[str, tuple[Any, ...]] | None = None) -> str:
    """The line of a question.

    several: values to choose among, by parameter.
    """
    values = {**question.changed(), **(several or {})}
    if question.moe_tp is not None:
        values["ep"] = question.ep
    short = " ".join(_phrases(values))
    if _reads_as(short, values):
        return short
    return " ".join(_stated(name, value) for name, value in values.items())


def _reads_as(text: str, values: Mapping[str, Any]) -> bool:
    line = read(text)
    return not line.unread and line.given == values


def _phrases(values: Mapping[str, Any]) -> Iterator[str]:
    """What a person would type, part by part; lengths are one."""
    for name, value in values.items():
        if name == "isl" or (name == "osl" and "isl" not in values):
            isl, osl = (values.get(each, getattr(STANDARD, each)) for each in ("isl", "osl"))
            short = f"{_number(isl)}/{_number(osl)}"
            both = {"isl", "osl"} <= set(values)
            yield short if both else _stated(name, value)
        elif name != "osl":
            yield _phrase(name, value)


def _phrase(name: str, value: Any) -> str:
    if name == "engine_version":
        return _stated(name, value)
    short = {
        "concurrency": lambda: f"{_number(value)} user{'s' if value != 1 else ''}",
        "rate": lambda: f"{_number(value)}/s",
        "target": lambda: ", ".join(value),
        **dict.fromkeys(_DEGREES, lambda: f"{name}{value}"),
        **dict.fromkeys(("model", "system", "engine", "weights", "speculation"), lambda: value),
    }.get(name)
    if short is None or (isinstance(value, tuple) and name in VERBS["plan"].several):
        return _stated(name, value)
    text = short()
    return text if _reads_as(text, {name: value}) else _stated(name, value)


def _stated(name: str, value: Any) -> str:
    """ "name=value", which every value can be written as."""
    if PARAMETERS[name].kind == "truth":
        return f"--{'' if value else 'no-'}{name.replace('_', '-')}"
    text = _number(value) if isinstance(value, (int, float)) else typed.text(value)
    return f"{name.replace('_', '-')}={quoted(text)}"


def _number(value: float) -> str:
    """A number as short as it reads back: 2k, 20, 0.9."""
    if value == int(value) and abs(value) < 1e15:
        whole = int(value)
        return f"{whole // 1000}k" if whole and whole % 1000 == 0 else str(whole)
    return repr(float(value))
