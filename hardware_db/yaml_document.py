"""Untrusted YAML documents: text to plain data, and merging one document over another.

The text is bounded in size, depth and number of entries before anything is built from it; anchors
(which can make a few lines expand to gigabytes), tags that would construct objects, and duplicate
keys are refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from genz_core.errors import InvalidValue, file_problem

MAX_BYTES = 256 * 2**10
MAX_DEPTH = 12
MAX_NODES = 20_000

if TYPE_CHECKING:
    from yaml import SafeLoader as _SafeLoader
else:
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StrictLoader(_SafeLoader):
    """The safe loader, which also refuses duplicate keys and keys that are not texts."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is not text", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key!r} is given twice", key_node.start_mark
                )
            seen.add(key)
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        return mapping


def read(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InvalidValue: it cannot be read, or as `parse`.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{path}: {file_problem(error)}") from None
    return parse(text, path.name)


def parse(text: str, label: str = "the YAML", *, ships: bool = False) -> dict[str, Any]:
    """The mapping in a YAML text.

    Args:
        text: a single document.
        label: name of the document in messages ("systems/h100.yaml").
        ships: whether it comes with the package, and so is trusted in size and depth.

    Raises:
        InvalidValue: too large or too deep, anchors, tags, a key twice, or not a mapping.
    """
    if not ships and len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise InvalidValue(f"{label} is larger than {MAX_BYTES // 2**10} KiB; give one system")
    try:
        if not ships:
            _check_events(text, label)
        data = yaml.load(text, Loader=_StrictLoader)
    except InvalidValue:
        raise
    except yaml.YAMLError as error:
        raise InvalidValue(f"{label} is not valid YAML: {_first_line(error)}") from None
    except ValueError as error:
        raise InvalidValue(f"{label} holds a value that cannot be read: {error}") from None
    if not isinstance(data, dict):
        raise InvalidValue(f"{label} must be a mapping of keys to values, not {_kind(data)}")
    return data


def _check_events(text: str, label: str) -> None:
    """Refuse anchors, depth and size by the parse events, before objects are built."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_SafeLoader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise InvalidValue(f"{label} uses YAML anchors or aliases; write each value out")
        if isinstance(event, yaml.NodeEvent):
            nodes += 1
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InvalidValue(f"{label} nests deeper than {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise InvalidValue(f"{label} has more than {MAX_NODES} entries; give one system")


def _first_line(error: yaml.YAMLError) -> str:
    """The problem and its place, or the first line of the message."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"{error.problem} (line {mark.line + 1}, column {mark.column + 1})"
    return str(error).splitlines()[0]


def _kind(data: object) -> str:
    """Kind of a document that is not a mapping, for a message."""
    return {type(None): "nothing", list: "a list", str: "a text"}.get(type(data), "a number")


def overlay(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Document `base` with `change` merged over it: mappings merge, other values are replaced.

    A value of null removes the key.  A sourced number (a mapping with `value`) is replaced as a
    whole, so a changed figure never keeps the source of the old one.
    """
    merged = dict(base)
    for key, new in change.items():
        old = merged.get(key)
        if new is None:
            merged.pop(key, None)
        elif isinstance(old, Mapping) and isinstance(new, Mapping) and "value" not in new:
            merged[key] = overlay(old, new)
        else:
            merged[key] = new
    return merged
