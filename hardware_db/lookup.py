"""The slug of a system, from a name as people type it or as programs print it.

Names are compared twice.  First as one word without case, separators and vendor words, so that
`NVIDIA GeForce RTX 4090`, `rtx-4090` and `RTX4090` are one.  Then as a set of parts: a name also
fits a system when each of its parts is true of the system (`A100 SXM4 80GB HBM2e`), which drops
suffixes that do not tell devices apart and keeps those that do.  Last as the beginning of a name
(`MI325`), if only one system's name begins with it; a number alone does not count.

Which board a bare name means (`H200`, `A100`) is data: that board's YAML lists the name among its
aliases.  `found` names the other boards, too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from genz_core.errors import LONGEST_NAME, UnknownSystem

#: Words that distinguish no devices: vendors, brands and generic words.
NOISE: frozenset[str] = frozenset(
    {"nvidia", "amd", "intel", "google", "aws", "amazon", "apple", "corporation", "inc", "tm", "r"}
    | {"furiosaai", "tenstorrent", "qualcomm", "meta", "huawei"}
    | {"geforce", "rtx", "rx", "instinct", "tesla", "quadro", "radeon", "xeon", "platinum", "epyc"}
    | {"gpu", "graphics", "card", "chip", "accelerator", "processor", "cpu", "silicon", "cloud"}
    | {"tensor", "core", "cores", "generation", "edition", "the", "c"}
    | {"vf"}  # a virtual function of a whole device, as in "AMD Instinct MI300X VF"
)
_PARTS = re.compile(r"[a-z]+|\d+(?:\.\d+)?")
#: Most other systems that a note on a bare name lists.
_MOST_OTHERS = 4
#: Names whose words are kept: those of the systems, which each search reads, and those asked for.
_KEPT = 8192
_INSTEAD = "`ridgeline systems` lists all, and a YAML file of your own can be given instead."


@lru_cache(maxsize=_KEPT)
def fold(name: str, noise: frozenset[str] = NOISE) -> str:
    """A name as a single word: in lower case, without separators, and without vendor words if
    others remain.
    """
    words = re.findall(r"[a-z0-9.+]+", name.casefold())
    return "".join(word for word in words if word not in noise) or "".join(words)


@lru_cache(maxsize=_KEPT)
def parts(name: str) -> frozenset[str]:
    """Runs of letters and of digits in a name, without vendor words; 80g counts as 80gb."""
    text = re.sub(r"(\d)\s*(?:gi?b|g)\b", r"\1gb", name.casefold())
    return frozenset(part for part in _PARTS.findall(text) if part not in NOISE)


@dataclass(frozen=True, slots=True)
class NamedSystem:
    """Names of a system, and words that describe it.

    names: slug, full name and aliases.  traits: memory size and type, family, as in `parts`.
    """

    slug: str
    names: tuple[str, ...]
    traits: frozenset[str] = frozenset()


def index(systems: Collection[NamedSystem]) -> dict[str, str]:
    """{folded name: slug}; where two systems have the same name, the first keeps it."""
    slugs: dict[str, str] = {}
    for noise in (NOISE, frozenset[str]()):  # then including vendor words, as in RTX4090
        for system in systems:
            for name in system.names:
                slugs.setdefault(fold(name, noise), system.slug)
    return slugs


def exact(name: str, slugs: Mapping[str, str]) -> str | None:
    """The slug for a whole name in an `index`, None where there is none or the name is too long."""
    return slugs.get(fold(name)) if len(name) <= LONGEST_NAME else None


@dataclass(frozen=True, slots=True)
class Found:
    """The system that a name stands for.

    note: which other systems the name could mean, or that it is only the beginning of a name; ""
    where it is unambiguous.  others: slugs that it could also mean, nearest first.
    """

    slug: str
    note: str = ""
    others: tuple[str, ...] = ()


def found(name: str, slug: str, systems: Collection[NamedSystem]) -> Found:
    """A whole name's system, with a note where names of other systems begin with that name.

    A slug or a full name stands for one system only.
    """
    named = next((system for system in systems if system.slug == slug), None)
    if named is None or fold(name) in map(fold, (slug, *named.names[:2])):
        return Found(slug)
    words = _sequence(name)
    others = [
        system.slug
        for system in systems
        if system.slug != slug
        and any(_sequence(other)[: len(words)] == words for other in system.names)
    ]
    if not others:
        return Found(slug)
    nearest = sorted(others, key=lambda other: (len(other), other))[:_MOST_OTHERS]
    return Found(
        slug, f"{name.strip()} is taken as {slug}, not {_alternatives(nearest)}", tuple(nearest)
    )


def _sequence(name: str) -> list[str]:
    """Runs of letters and of digits in a name, in their order, without vendor words."""
    return [part for part in _PARTS.findall(name.casefold()) if part not in NOISE]


def _alternatives(names: Sequence[str]) -> str:
    """Names joined as "a, b or c"."""
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def resolve(name: str, systems: Collection[NamedSystem], slugs: Mapping[str, str]) -> Found:
    """The system of a name.

    Args:
        name: as it was typed.
        systems: all systems.
        slugs: their `index`.

    Raises:
        UnknownSystem: no system, or several, fit; those, or the near ones, are listed.
    """
    if len(name) > LONGEST_NAME:
        raise UnknownSystem("system", name, hint="The name is too long.")
    if slug := exact(name, slugs):
        return found(name, slug, systems)
    fits = _fitting(parts(name), systems)
    if len(fits) == 1:
        return Found(fits[0])
    fits = fits or _beginning(name, systems)
    if len(fits) == 1 and not fold(name).isdigit():
        return Found(
            fits[0], f"{name.strip()} is taken as {fits[0]}, the only name that starts with it"
        )
    instead = "" if len(fits) > 1 else _INSTEAD
    names = [name for system in systems for name in system.names]
    hint = "Give one system; `sweep` and `plan` compare several" if "," in name else ""
    raise UnknownSystem("system", name, names, hint, fits=fits, instead=instead)


def _beginning(name: str, systems: Collection[NamedSystem]) -> list[str]:
    """Slugs of the systems with a name that begins with what was typed, with or without vendor
    words.
    """
    fits: set[str] = set()
    for noise in (NOISE, frozenset[str]()):
        start = fold(name, noise)
        fits |= {
            system.slug
            for system in systems
            if start and any(fold(known, noise).startswith(start) for known in system.names)
        }
    start = fold(name)
    return sorted(fits, key=lambda slug: (not fold(slug).startswith(start), slug))


def _fitting(words: frozenset[str], systems: Collection[NamedSystem]) -> list[str]:
    """Slugs of the systems that all words describe, ordered by the longest name among the words."""
    scores: dict[str, int] = {}
    for system in systems:
        names = [parts(name) for name in system.names]
        if not words <= system.traits.union(*names):
            continue
        lengths = [len(name) for name in names if name and name <= words]
        if lengths:
            scores[system.slug] = max(lengths)
    best = max(scores.values(), default=0)
    return [slug for slug, score in scores.items() if score == best]
