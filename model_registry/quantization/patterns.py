"""Patterns that name modules of a checkpoint by their path.

They come with uploads, so that they are hostile until parsed: regular expressions that could
take more than polynomial time are refused, and runs of layers are bounded.  The registry's own
files write runs short: `model.layers.{0..2,7}.self_attn*` is four patterns.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from genz_core.errors import InvalidValue

#: More decoder layers than this in a configuration are taken for an error.
MAX_LAYERS = 1024


def _expand(pattern: str) -> list[str]:
    """`layers.{0..2,7}.x` -> the four patterns it stands for."""
    match = re.search(r"\{([0-9.,]+)\}", pattern)
    if match is None:
        return [pattern]
    numbers: list[int] = []
    for part in match.group(1).split(","):
        first, _, last = part.partition("..")
        if not first.isdigit() or (last and not last.isdigit()) or int(last or first) > MAX_LAYERS:
            raise InvalidValue(f"{pattern!r} in the quantisation map is no list of layers")
        numbers += range(int(first), int(last or first) + 1)
    return [pattern[: match.start()] + str(n) + pattern[match.end() :] for n in numbers]


def _regex(pattern: str) -> re.Pattern[str]:
    """A `re:` pattern, refused where its matching could take more than polynomial time."""
    text = pattern.removeprefix("re:")
    if len(text) > 300 or re.search(r"\)[*+{]", text) or len(re.findall(r"[^\\][*+]", text)) > 5:
        raise InvalidValue(f"the pattern {text[:60]!r} in the quantisation map is too involved")
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidValue(f"the pattern {text[:60]!r} is no regular expression: {error}") from None


_PREFIX = re.compile(r"^(?!\*).*?(?=layers\.)")
_LAYER = re.compile(r"layers\.(\d+)\.")
_ROOTS = ("", "model.", "model.language_model.", "language_model.model.", "backbone.")


@dataclass(frozen=True)
class Patterns:
    """A list of module patterns, indexed so that a look-up does not try all of them.

    exact: paths in a named layer.  parts: path components anywhere.  globs: by the layer they
    name, "" for any.  layers: those that some pattern names; anywhere: whether one may tell
    layers apart without naming them plainly.
    """

    exact: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    globs: Mapping[str, tuple[re.Pattern[str], ...]] = field(default_factory=dict)
    regexes: tuple[re.Pattern[str], ...] = ()
    layers: frozenset[str] = frozenset()
    anywhere: bool = False

    @classmethod
    def read(cls, patterns: Iterable[str]) -> Patterns:
        exact, parts, regexes = set(), [], []
        globs: dict[str, list[str]] = {}
        for pattern in (one for text in patterns for one in _expand(str(text))):
            short = _PREFIX.sub("", pattern.removesuffix(".")).removeprefix("model.")
            if pattern.startswith("re:"):
                regexes.append(_regex(pattern))
            elif "*" in short:
                for layer in _layers_of(short):
                    globs.setdefault(layer, []).append(short)
            elif _LAYER.match(f"{short}."):
                exact.add(short)
            else:
                parts.append(f".{short}.")
        return cls(
            exact=frozenset(exact),
            parts=tuple(parts),
            globs={layer: tuple(map(_compiled, found)) for layer, found in globs.items()},
            regexes=tuple(regexes),
            layers=frozenset({path.split(".")[1] for path in exact} | set(globs) - {""}),
            anywhere=any(re.search(r"\d", one.pattern) for one in regexes),
        )

    def tells(self, layer: int) -> bool:
        """Whether some pattern may tell this layer from the others."""
        return self.anywhere or str(layer) in self.layers

    def match(self, path: str) -> bool:
        """Whether the module at `path`, or one it is part of, is named."""
        pieces = path.split(".")
        layer = pieces[1] if pieces[0] == "layers" else ""
        near = (*self.globs.get("", ()), *(self.globs.get(layer, ()) if layer else ()))
        return (
            any(".".join(pieces[:end]) in self.exact for end in range(2, len(pieces) + 1))
            or any(part in f".{path}." for part in self.parts)
            or any(glob.match(path) for glob in near)
            or any(one.match(root + path) for one in self.regexes for root in _ROOTS)
        )


def _layers_of(glob: str) -> list[str]:
    """The layers that a glob can match, [""] for any: `layers.1*` is layer 1, 10, 11 ..."""
    named = re.match(r"layers\.(\d+)([.*])", glob)
    if not named:
        return [""]
    if named.group(2) == ".":
        return [named.group(1)]
    return [str(n) for n in range(MAX_LAYERS) if str(n).startswith(named.group(1))]


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    """A glob and all that lies under what it names."""
    return re.compile(f"{fnmatch.translate(glob)}|{fnmatch.translate(glob + '.*')}")
