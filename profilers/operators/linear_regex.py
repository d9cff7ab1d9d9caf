"""Regular expressions typed by users, matched in time linear in the text (RE2).

With Python's own engine a pattern can take exponential time while it holds the interpreter; RE2
accepts no such pattern.  It has no look-ahead, look-behind or back-references.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import re2

from genz_core.errors import InvalidValue

MAX_CHARS = 500
#: Most instructions of a compiled pattern: a megabyte of names then takes a second at worst.
_MAX_INSTRUCTIONS = 600
_LOOKS_AROUND = re.compile(r"\(\?<?[=!]")
_REFERS_BACK = re.compile(r"\\[1-9]|\(\?P=")


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regular expression, searched without regard to case."""

    text: str
    _compiled: Any

    def found_in(self, name: str) -> bool:
        """Whether the pattern matches anywhere in a name."""
        return self._compiled.search(name.encode("utf-8", "replace")) is not None


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """The pattern of a regular expression.

    Raises:
        InvalidValue: it is invalid, cannot be matched in linear time, or is too large.
    """
    if len(text) > MAX_CHARS:
        raise InvalidValue(
            f"pattern {text[:40]!r}... has {len(text)} characters; give {MAX_CHARS} at most"
        )
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    try:
        expression = re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error as error:
        raise InvalidValue(_refusal(text, error)) from None
    if expression.programsize > _MAX_INSTRUCTIONS:
        raise InvalidValue(
            f"pattern {text!r} is too large: its repeats expand to {expression.programsize} "
            f"instructions, {_MAX_INSTRUCTIONS} are allowed; write * instead of a count"
        )
    return Pattern(text, expression)


def _refusal(text: str, error: Exception) -> str:
    """Why a pattern is refused, and what to write instead."""
    if _LOOKS_AROUND.search(text):
        return (
            f"pattern {text!r} uses lookahead or lookbehind, which is not supported; match the "
            "surrounding text instead, as in generation_0(?:[^0-9]|$)"
        )
    if _REFERS_BACK.search(text):
        return (
            f"pattern {text!r} uses a back-reference, which is not supported; write the words out, "
            "as in prefill|decode"
        )
    (reason,) = error.args
    return f"pattern {text!r} is not a regular expression ({reason.decode('utf-8', 'replace')})"
