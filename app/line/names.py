"""Names in a line: a model, a system, an engine with its version, a number format."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import hardware_db
from app.line.words import is_number
from genz_core.errors import RidgelineError, UnknownName
from genz_core.precision import canonical
from hardware_db import data_folder, engine_versions
from hardware_db.lookup import fold
from model_registry.finding.hub import hub_id
from model_registry.finding.loading import names as model_names
from model_registry.finding.lookup import resolve_name, versions_of

#: Most words of any name.
MOST_WORDS = 5
_VERSION = re.compile(r"[vb]?\d+(\.\w+)+|[vb]\d+|20\d\d-\d\d", re.I)
_NAME = re.compile(r"[\w./:@+-]*[a-zA-Z][\w./:@+-]*|\d{4,}|\d+(\.\d+)*")


@dataclass(frozen=True, slots=True)
class Named:
    """The meaning of some words.

    given: values by parameter.  note: a sentence if the name has another possible meaning, else "".
    fits: several possible names; then nothing is given.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    fits: tuple[str, ...] = ()


def named(words: Sequence[str]) -> tuple[int, Named] | None:
    """The largest number of first words that are a name, and its meaning; None if there is none.

    A number format, an engine and a system precede a model, whose names are the least specific.
    """
    own = data_folder.stamp()
    for count in range(min(MOST_WORDS, len(words)), 0, -1):
        if found := _whole(tuple(words[:count]), own):
            return count, found
    for count in range(min(MOST_WORDS, len(words)), 0, -1):
        if fits := _several(tuple(words[:count]), own):
            return count, Named(fits=fits)
    return None


def number_format(word: str) -> str:
    """The number format that a word states, "" if it states none."""
    try:
        canonical(word)
    except RidgelineError:
        return ""
    return word


def known() -> list[str]:
    """Names of models without their accounts, of systems and engines."""
    short = [name.rpartition("/")[2] for name in model_names()]
    return [*short, *hardware_db.spellings(), *hardware_db.engine_names()]


@lru_cache(maxsize=4096)
def _whole(words: tuple[str, ...], own: frozenset[tuple[Path, int]]) -> Named | None:
    """The name that all the words form together."""
    if not all(_NAME.fullmatch(word) for word in words):
        return None
    text = " ".join(words)
    if len(words) == 1 and number_format(text):
        return Named({"weights": text})
    if len(words) > 1 and words[-1].casefold() == "x":
        return None  # "tpu v7 x 4"
    one_system = fold(text) in hardware_db.spellings()
    others = any(_is_something(word, own) for word in words[1:]) or number_format(words[0])
    if len(words) > 1 and not one_system and others:
        return _version(words, own)
    kinds: tuple[Callable[[str], Named | None], ...] = (_engine, _system, _model)
    return next((found for kind in kinds if (found := kind(text))), None)


def _version(words: tuple[str, ...], own: frozenset[tuple[Path, int]]) -> Named | None:
    """The model whose version is also the name of a system: "minimax m2"; None for two names."""
    first, second = words if len(words) == 2 else ("", "")
    if not second or number_format(second) or _whole((first,), own):
        return None
    return _model(f"{first} {second}")


@lru_cache(maxsize=4096)
def _is_something(word: str, _own: frozenset[tuple[Path, int]]) -> bool:
    """Whether a word alone is a format, an engine or a system, and so not part of another name."""
    if is_number(word) or re.fullmatch(r"\d+gi?b?", word.casefold()):
        return False
    system = _system(word)
    return bool(
        number_format(word) or _engine(word) or (system and "starts with" not in system.note)
    )


def _engine(text: str) -> Named | None:
    head, _, last = text.rpartition(" ")
    if head and not _VERSION.fullmatch(last):
        return None
    version = engine_versions.in_name(text)
    name = text[: text.casefold().rfind(version.casefold())].rstrip(" -@vb") if version else text
    try:
        record = hardware_db.engine_facts(name)
    except RidgelineError:
        return None
    spelled = (record.id, record.name, *record.aliases)
    if re.sub(r"[\W_]", "", name.casefold()) not in [
        re.sub(r"[\W_]", "", each.casefold()) for each in spelled
    ]:
        return None
    return Named({"engine": record.id} | ({"engine_version": version} if version else {}))


def _system(text: str) -> Named | None:
    if is_number(text) and len(text) < 4:
        return None
    if any(map(is_number, text.split()[1:])) and fold(text) not in hardware_db.spellings():
        return None  # "h100 5" users
    try:
        record = hardware_db.facts(text)
        note = hardware_db.system_files.note(text)
    except RidgelineError:
        return None
    if note and (":" in text or ("cpu" in text.casefold().split() and record.kind != "cpu")):
        return None  # "h100:8" devices; the integrated GPU of a "ryzen cpu"
    return Named({"system": record.id}, note)


def _model(text: str) -> Named | None:
    if is_number(text) or not re.search("[a-zA-Z]", text):
        return None
    if re.search(r" \d{3,}$", text):
        return None  # "deepseek v3 1000" users
    latest = versions_of(text)
    if latest:
        others = f", not {' or '.join(latest[1:3])}" if latest[1:] else ""
        return Named({"model": latest[0]}, f"{text} is taken as {latest[0]}{others}")
    try:
        if hub_id(text):
            return Named({"model": text})
        match = resolve_name(text)
    except RidgelineError:
        return None
    if " " in text and match.matched == "fine-tune":
        return None  # words that are not part of a name
    if match.weights or match.kv or match.activations:
        return Named({"model": text.replace(" ", "-")}, match.note)
    return Named({"model": match.id}, match.note)


@lru_cache(maxsize=1024)
def _several(words: tuple[str, ...], own: frozenset[tuple[Path, int]]) -> tuple[str, ...]:
    """Names that the words fit without deciding for one, () for words that fit none."""
    if not all(_NAME.fullmatch(word) for word in words) or is_number(words[0]):
        return ()
    if any(_is_something(word, own) for word in words):
        return ()
    for resolve in (hardware_db.facts, resolve_name):
        try:
            resolve(" ".join(words))
        except UnknownName as error:
            if len(error.fits) > 1:
                return tuple(error.near)
        except RidgelineError:
            continue
    return ()
