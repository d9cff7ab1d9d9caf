"""Boxes of the form that take a part of the question as text: "16 users", "2k / 500".

They are parsed like a typed line.  Their values are stored as texts in the session and in the
address under the parameters' names, so that a link restores them.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from app.dashboard.page_texts import page_text
from app.line.line_parser import read
from app.line.words import is_number, short
from app.question import literals
from app.question.parameters import PARAMETERS
from app.question.question import LOADS, STANDARD
from app.scenario.setup import Setup
from app.wording.quantities import counted
from genz_core.errors import InvalidValue

#: Default number of users.
USUAL_USERS = 16
_USUAL = {"concurrency": str(USUAL_USERS)}


@dataclass(frozen=True, slots=True)
class Phrase:
    """A box.  names: its parameters.  say: examples of what may be typed.  help: of the box."""

    label: str
    names: tuple[str, ...]
    say: str
    help: str


PHRASES: Mapping[str, Phrase] = {
    "load": Phrase("Load", LOADS, "16 users, 20/s, batch 8 or trace", page_text("loads")),
    "lengths": Phrase("Lengths in / out", ("isl", "osl"), "2k / 500", page_text("lengths")),
    "targets": Phrase("Targets", ("target",), "p99 tpot < 30ms, ttft < 1s", page_text("targets")),
}
NAMES = tuple(name for phrase in PHRASES.values() for name in phrase.names)


def box(key: str, place: Any = st) -> dict[str, Any]:
    """Draw a box of `PHRASES`; returns the values of its parameters, by name."""
    phrase, before = PHRASES[key], f"{key}_before"
    texts = _texts(phrase.names)
    shown = _shown(key, texts)
    if f"{key}_box" not in st.session_state or st.session_state.get(before) != shown:
        st.session_state[f"{key}_box"] = shown
        st.session_state[before] = shown
    text = place.text_input(
        phrase.label,
        shown,  # also without the message that sets it, which a quick change of page may drop
        key=f"{key}_box",
        max_chars=200,
        placeholder=phrase.say,
        help=phrase.help,
    ).strip()
    if text != shown:
        texts = {**(texts if key == "lengths" else {}), **_parsed(key, text)}
        _keep(phrase.names, texts)
        st.session_state[before] = _shown(key, texts)
    _to_address(phrase.names, texts)
    return {name: literals.value(PARAMETERS[name], text) for name, text in texts.items()}


def set_texts(values: Mapping[str, Any]) -> None:
    """Put values of parameters into the boxes; of several loads the last of `LOADS`."""
    given = {name: values[name] for name in NAMES if name in values}
    load = next((n for n in reversed(LOADS) if given.get(n) not in (None, "", 0)), "")
    for name in given if load else set(given) - set(LOADS):
        st.session_state.pop(name, None)
    if load:
        _keep(LOADS, {load: _text(given[load])})
    for name in set(given) - set(LOADS):
        st.session_state[name] = _text(given[name])


def off_default(setup: Setup) -> dict[str, Any]:
    """The parameters of a setup that differ from the form's defaults."""
    changed = setup.changed().items()
    return {name: v for name, v in changed if (name, v) != ("concurrency", USUAL_USERS)}


def _text(value: Any) -> str:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:.15g}"
    return ", ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def _texts(names: tuple[str, ...]) -> dict[str, str]:
    """The texts of some parameters: from the address if it differs from the session's last one."""
    said = st.session_state.setdefault("phrases_said", {})
    for name in names:
        text = st.query_params.get(name)
        if text is not None and text != said.get(name):
            said[name] = text
            _keep(names if name in LOADS else (name,), {name: text})
    return {name: text for name in names if (text := str(st.session_state.get(name) or ""))} or (
        dict(_USUAL) if names == LOADS else {}
    )


def _keep(names: tuple[str, ...], texts: Mapping[str, str]) -> None:
    """Store texts in the session, and remove the others of `names`."""
    for name in names:
        st.session_state[name] = texts.get(name, "")


def _to_address(names: tuple[str, ...], texts: Mapping[str, str]) -> None:
    """Write the values that differ from their defaults into the address."""
    said = st.session_state["phrases_said"]
    usual = _USUAL if names == LOADS else {n: _text(getattr(STANDARD, n)) for n in names}
    for name in names:
        text = texts.get(name, "")
        wanted = text if text and text != usual.get(name, "") else None
        with suppress(StreamlitAPIException):  # of a control that writes its value itself
            if wanted is None and name in st.query_params:
                del st.query_params[name]
            elif wanted is not None and st.query_params.get(name) != wanted:
                st.query_params[name] = wanted
        said[name] = wanted


def _shown(key: str, texts: Mapping[str, str]) -> str:
    """The text that a box shows for its parameters."""
    if key == "lengths":
        return " / ".join(_short(texts.get(name) or getattr(STANDARD, name)) for name in
                          PHRASES[key].names)  # fmt: skip
    if key == "targets":
        return texts.get("target", "")
    ((name, text),) = texts.items()
    if name == "concurrency":
        return counted(text, "user")
    return {"rate": f"{text}/s", "batch": f"batch {text}", "trace": "trace"}[name]


def _short(text: Any) -> str:
    with suppress(ValueError):
        return short(literals.number(str(text)))
    return str(text)


def _parsed(key: str, text: str) -> dict[str, str]:
    """The texts of the parameters in the text of a box."""
    phrase, usual = PHRASES[key], _USUAL if key == "load" else {}
    if not text:
        return dict(usual)
    if key == "load" and text.casefold() == "trace":
        return {"trace": "trace"}
    if is_number(text) and key != "targets":
        text = f"{text} users" if key == "load" else f"{text} in"
    line = read(text.replace(" / ", "/") if key == "lengths" else text)
    given = line.given
    if line.unread or not given or set(given) - set(phrase.names):
        raise InvalidValue(f"{phrase.label.casefold()} = {text[:60]!r}: give {phrase.say}")
    return {name: _text(value) for name, value in given.items()}
