"""Versions of serving software: how they are written, which is older, and the eras of an engine.

A version is a release ("0.9.0", "v1.0.0rc3"), a build ("b6918") or the month of a run ("2024-05",
also the date inside "nightly-dev-20260402").  An engine's YAML lists its eras: periods in which it
behaved so differently that their measurements apply only to them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from hardware_db.sourced_facts import Fact

_MONTH = re.compile(r"(?<!\d)(20\d\d)-?(0[1-9]|1[0-2])(?:-?[0-3]\d)?(?!\d)")
_NUMBERS = re.compile(r"[vb]?(\d+(?:\.\d+)*)")
_READABLE = re.compile(
    r"[vb]?\d+(?:\.(?:\d+|x))*(?:[.+_-]?(?:rc|post|dev|alpha|beta|a|b)\d*)*(?:[+-][\w.]+)*"
)
#: The version at the end of an engine's name, as in tables: "vLLM 0.6.3", "llama.cpp b6918".
_IN_NAME = re.compile(r"[\s@-]v?(b?\d[\w.]*(?:-\d\d)?)\b[^\w]*(?:[(\[].*)?$")


class Era(BaseModel):
    """A period of an engine's history, up to a release and a month.

    id: a word for it.  until: its last release or build.  until_month: its last month, YYYY-MM.
    changed: what the next era does differently.  source: key of the file's sources.
    compiled: whether whole steps are compiled, so that the host launches no operators one by one.
    score_bytes: as in `EngineProfile`; none if its kernels are fused, as today.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    until: str
    until_month: str
    changed: str
    source: str
    compiled: bool = False
    score_bytes: Fact | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A version that can be ordered, by its numbers or by its month; () for what it lacks."""

    numbers: tuple[int, ...] = ()
    month: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: str) -> Version:
        """The version in a text; without number and month where the text states neither."""
        text = text.strip()
        if dated := _MONTH.search(text):
            return cls(month=(int(dated[1]), int(dated[2])))
        if written := _NUMBERS.match(text):
            return cls(numbers=tuple(map(int, written[1].split("."))))
        return cls()


def is_readable(text: str) -> bool:
    """Whether a text states a release, a build or a month that `Version` can read.

    Suffixes of releases are understood: "1.0.0rc3", "0.5.6.post2", "0.6.3+cu124".
    """
    text = text.strip()
    return bool(_MONTH.search(text) or _READABLE.fullmatch(text))


def in_name(name: str) -> str:
    """The version in an engine's name: "0.6.3" for "vLLM 0.6.3", "" where there is none."""
    found = _IN_NAME.search(name.partition("/")[0].strip())
    return found[1] if found else ""


def era_of(eras: Sequence[Era], version: str) -> Era | None:
    """The era of a version; None for today's, and for a text without a version.

    eras: oldest first.
    """
    return next((era for era in eras if is_until(version, era.until, era.until_month)), None)


def is_until(version: str, until: str, until_month: str) -> bool:
    """Whether a version is a release up to `until` (including its patches), or a month up to the
    month.

    >>> is_until("0.20.2", "0.20", "2026-05"), is_until("0.21.0", "0.20", "2026-05")
    (True, False)
    """
    asked, last = Version.of(version), Version.of(until).numbers
    if asked.numbers:
        return asked.numbers[: len(last)] <= last
    return bool(asked.month) and asked.month <= Version.of(until_month).month


def is_before(version: str, since: str, since_month: str = "") -> bool:
    """Whether a version is a release older than `since`, or a month before its month.

    >>> is_before("0.16.0", "0.17"), is_before("0.17.0", "0.17"), is_before("2024-09", "0.17")
    (True, False, False)
    """
    asked, first = Version.of(version), Version.of(since).numbers
    if asked.numbers:
        return asked.numbers < first
    return bool(asked.month and since_month) and asked.month < Version.of(since_month).month


def is_beyond(versions: str, version: str) -> bool:
    """Whether a release lies outside a range "0.9 - 0.19"; False for months and unknown texts."""
    asked = Version.of(version).numbers
    first, _, last = versions.partition(" - ")
    least, most = Version.of(first).numbers, Version.of(last).numbers
    if not asked or not least or not most:
        return False
    return asked < least or asked[: len(most)] > most
