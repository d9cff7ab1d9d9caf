"""Patterns that name modules of a checkpoint by path.

They come with uploads, so they are treated as hostile: regular expressions that could take more
than polynomial time are refused, and ranges of layers are bounded.  The registry's own files
abbreviate
ranges: `model.layers.{0..2,7}.self_attn*` is four patterns.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from genz_core.errors import InvalidValue

#: More decoder layers than this in a configuration are treated as an error.
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
            raise InvalidValue(f"{pattern!r} in the quantisation map is not a list of layers")
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
        raise InvalidValue(
            f"the pattern {text[:60]!r} is not a regular expression: {error}"
        ) from None


_PREFIX = re.compile(r"^(?!\*).*?(?=layers\.)")
_LAYER = re.compile(r"layers\.(\d+)\.")
_ROOTS = ("", "model.", "model.language_model.", "language_model.model.", "backbone.")


@dataclass(frozen=True)
class ModulePatterns:
    """Module patterns, indexed so that a look-up need not try all of them.

    exact: paths in a specific layer.  parts: path components anywhere.  globs: by the layer that
    they name, "" for any.  inside: of each layer that some pattern names, these patterns without
    its number.  anywhere: a pattern may distinguish layers without naming them.
    """

    exact: frozenset[str] = frozenset()
    parts: tuple[str, ...] = ()
    globs: Mapping[str, tuple[re.Pattern[str], ...]] = field(default_factory=dict)
    regexes: tuple[re.Pattern[str], ...] = ()
    inside: Mapping[str, frozenset[str]] = field(default_factory=dict)
    anywhere: bool = False

    @classmethod
    def parse(cls, patterns: Iterable[str]) -> ModulePatterns:
        """Index the patterns of a checkpoint's quantisation map.

        Raises:
            InvalidValue: a pattern that is malformed or too involved to match safely.
        """
        exact, parts, regexes = set(), [], []
        globs: dict[str, list[str]] = {}
        inside: dict[str, set[str]] = {}
        for pattern in (single for text in patterns for single in _expand(str(text))):
            short = _PREFIX.sub("", pattern.removesuffix(".")).removeprefix("model.")
            if pattern.startswith("re:"):
                regexes.append(_regex(pattern))
            elif "*" in short:
                for layer in _layers_of(short):
                    globs.setdefault(layer, []).append(short)
                    inside.setdefault(layer, set()).add(short.removeprefix(f"layers.{layer}."))
            elif named := _LAYER.match(f"{short}."):
                exact.add(short)
                inside.setdefault(named.group(1), set()).add(short[named.end() :])
            else:
                parts.append(f".{short}.")
        anywhere = (*(regex.pattern for regex in regexes), *globs.get("", ()))
        return cls(
            exact=frozenset(exact),
            parts=tuple(parts),
            globs={layer: tuple(map(_compiled, named)) for layer, named in globs.items()},
            regexes=tuple(regexes),
            inside={layer: frozenset(paths) for layer, paths in inside.items()},
            anywhere=any(re.search(r"\d", pattern) for pattern in anywhere),
        )

    def of_layer(self, layer: int) -> Hashable:
        """The patterns that may match this layer but not others; modules of layers with equal ones
        match alike.
        """
        return layer if self.anywhere else self.inside.get(str(layer))

    def match(self, path: str) -> bool:
        """Whether a pattern names the module at `path`, or a module around it."""
        pieces = path.split(".")
        layer = pieces[1] if pieces[0] == "layers" else ""
        near = (*self.globs.get("", ()), *(self.globs.get(layer, ()) if layer else ()))
        return (
            any(".".join(pieces[:end]) in self.exact for end in range(2, len(pieces) + 1))
            or any(part in f".{path}." for part in self.parts)
            or any(glob.match(path) for glob in near)
            or any(regex.match(root + path) for regex in self.regexes for root in _ROOTS)
        )


def _layers_of(glob: str) -> list[str]:
    """The layers that a glob can match, [""] for any: `layers.1*` matches layers 1, 10, 11 ..."""
    named = re.match(r"layers\.(\d+)([.*])", glob)
    if not named:
        return [""]
    if named.group(2) == ".":
        return [named.group(1)]
    return [str(n) for n in range(MAX_LAYERS) if str(n).startswith(named.group(1))]


@lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    """A regular expression for a glob, which also matches every module below a match."""
    return re.compile(f"{fnmatch.translate(glob)}|{fnmatch.translate(glob + '.*')}")
