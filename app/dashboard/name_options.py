"""Options of the boxes for models and systems, ordered so that an exact match comes first.

In a box of several names, Enter selects the first option that contains the typed text.
The option that a name stands for therefore precedes others that contain it; the rest is sorted.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import hardware_db
from app.dashboard import caches, own_definitions
from hardware_db import data_folder
from model_registry.finding.loading import names as model_names
from model_registry.finding.lookup import spellings as model_spellings

#: How a box with these options filters them: those that contain the typed text, in order.
FILTER: Literal["contains"] = "contains"


def models() -> list[str]:
    """The visitor's models and all shipped models."""
    return _beside(own_definitions.own_texts("models"), shipped_models(), model_spellings)


def systems() -> list[str]:
    """The visitor's systems and the library's systems."""
    own = own_definitions.own_texts("systems")
    return _beside(own, library_systems(), hardware_db.spellings)


def library_systems() -> tuple[str, ...]:
    """Shipped systems and systems in the data folder."""
    return _systems(data_folder.stamp())


def _beside(
    own: Collection[str], names: Sequence[str], spellings: Callable[[], Iterable[str]]
) -> list[str]:
    """The visitor's names first; names that contain one of the other names last."""
    low = {spelling.casefold() for spelling in spellings()} if own else set()
    first = [name for name in own if not any(text in name.casefold() for text in low)]
    return [*first, *names, *(name for name in own if name not in first)]


@caches.by_setup(1)
def shipped_models() -> tuple[str, ...]:
    """Every shipped model, and aliases that only other models' names contain."""
    return tuple(exact_first(model_names(), model_spellings()))


@caches.by_setup(8)
def _systems(_stamp: frozenset[tuple[Path, int]]) -> tuple[str, ...]:
    return tuple(exact_first(hardware_db.names(), hardware_db.spellings()))


def exact_first(names: Sequence[str], spelled: Mapping[str, str]) -> list[str]:
    """Names ordered so that the first that contains a spelling is the one that it means.

    An alias that is contained in some names, but not in the one that it means, becomes a name
    itself: "zai-org/GLM-4.6" means zai-org/GLM-4.5, and is contained in zai-org/GLM-4.6V.

    spelled: {spelling: name}.
    """
    meant = {spelling.casefold(): name for spelling, name in spelled.items()}
    low = {name: name.casefold() for name in names}
    held = {text: [name for name in low if text in low[name]] for text in meant}
    lost = [text for text, holders in held.items() if holders and meant[text] not in holders]
    for text in lost:
        ends = (s for s in spelled if meant[s.casefold()] == meant[text] and _ends(s, text))
        meant[text] = max(ends, key=len)
    low |= {meant[text]: meant[text].casefold() for text in lost}
    before: dict[str, set[str]] = {name: set() for name in low}
    for text, first in meant.items():
        for name in low if held[text] else ():
            if text in low[name] and name != first:
                before[name].add(first)
    return _ordered(before)


def _ends(spelling: str, text: str) -> bool:
    """Whether a spelling is `text`, with or without an account."""
    return spelling.casefold().endswith(text) and spelling[: -len(text)][-1:] in ("", "/")


def _ordered(before: Mapping[str, set[str]]) -> list[str]:
    """Names in alphabetical order, but each after those that must precede it; cycles are broken."""
    order: dict[str, None] = {}
    begun: set[str] = set()

    def place(name: str) -> None:
        if name not in begun:
            begun.add(name)
            for earlier in sorted(before[name], key=str.casefold):
                place(earlier)
            order[name] = None

    for name in sorted(before, key=str.casefold):
        place(name)
    return list(order)
