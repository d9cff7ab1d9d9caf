"""Settings as nested mappings: read from YAML, merged, and changed field by field.

The standard tree holds every field with its default; the defaults fix the type of each field.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from genz_core.errors import InvalidValue, file_problem

Tree = dict[str, Any]
FieldPath = tuple[str, ...]

_MAX_BYTES = 1 << 20
#: Names of the types in messages.
_KIND_NAMES = {"str": "text", "int": "a whole number", "bool": "true or false"}


def read_tree(path: Path) -> Tree:
    """The mapping in a YAML file.

    Raises:
        InvalidValue: the file cannot be read, is too large, or holds no mapping.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidValue(f"{path.name} is larger than a run file")
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"{path}: {file_problem(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidValue(f"{path.name} is not YAML: {reason}") from None
    if not isinstance(tree, dict):
        raise InvalidValue(f"{path.name} holds no mapping of fields")
    return tree


def lay_over(
    tree: Tree, partial: Mapping[str, Any], standard: Tree, source: str, prefix: str = ""
) -> None:
    """Merge a partial tree into a whole one, in place.

    Args:
        source: where the partial tree comes from, for messages.  prefix: prefix of its field names.

    Raises:
        InvalidValue: a field that the standard tree lacks, or a value of another type.
    """
    for key, value in partial.items():
        name = f"{prefix}{key}"
        if key not in standard:
            near = difflib.get_close_matches(str(key), list(standard), n=3, cutoff=0.4)
            hint = f"near: {', '.join(near)}" if near else f"known: {', '.join(standard)}"
            raise InvalidValue(f"{source}: no field {name!r}; {hint}")
        if isinstance(standard[key], dict):
            if not isinstance(value, Mapping):
                raise InvalidValue(f"{source}: {name} = {value!r}: give a mapping")
            lay_over(tree[key], value, standard[key], source, f"{name}.")
        else:
            tree[key] = _checked(f"{source}: {name}", value, standard[key])


def set_field(tree: Tree, key: str, text: str, standard: Tree) -> None:
    """Set one field of a tree to a value typed as text, in place.

    Args:
        key: the field's full name ("run.batch") or its last part, where that is unambiguous.

    Raises:
        InvalidValue: no such field or several, invalid YAML, or a value of another type.
    """
    path = _field_path(standard, key)
    value = _parsed(key, text, _value_at(standard, path))
    _value_at(tree, path[:-1])[path[-1]] = value


def _leaves(tree: Mapping[str, Any], prefix: FieldPath = ()) -> list[FieldPath]:
    """The paths of all fields."""
    paths: list[FieldPath] = []
    for key, value in tree.items():
        path = (*prefix, str(key))
        paths += _leaves(value, path) if isinstance(value, dict) else [path]
    return paths


def _field_path(standard: Tree, key: str) -> FieldPath:
    """The path of a field, named in full or by its last part.

    Raises:
        InvalidValue: there is none, or there are several.
    """
    leaves = _leaves(standard)
    parts = tuple(key.split("."))
    matches = [leaf for leaf in leaves if leaf == parts] or [
        leaf for leaf in leaves if leaf[-len(parts) :] == parts
    ]
    if len(matches) == 1:
        return matches[0]
    names = [".".join(leaf) for leaf in matches or leaves]
    if matches:
        raise InvalidValue(f"{key!r} is ambiguous; give one of {', '.join(names)}")
    full_names = {name.rpartition(".")[2]: name for name in names}
    close = difflib.get_close_matches(key, [*names, *full_names], n=3, cutoff=0.5)
    near = ", ".join(dict.fromkeys(full_names.get(name, name) for name in close))
    raise InvalidValue(
        f"no field {key!r}; " + (f"near: {near}" if near else "--print-config shows all")
    )


def _value_at(tree: Tree, path: FieldPath) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _parsed(key: str, text: str, default: Any) -> Any:
    """A value typed on the command line, converted to the type of the field."""
    try:
        value = yaml.safe_load(text) if text else ""
    except (yaml.YAMLError, RecursionError):
        raise InvalidValue(f"{key}={text!r} is not a value that YAML can read") from None
    # because YAML reads 1:8:2 as 3722
    as_typed = isinstance(default, str) and isinstance(value, (int, float))
    return _checked(key, text if as_typed else value, default)


def _checked(key: str, value: Any, default: Any) -> Any:
    """The value, if it has the type of the field's default.

    A number is accepted for a text, "a,b" for a list, and a whole number for a fraction.

    Raises:
        InvalidValue: another type.
    """
    if isinstance(default, str) and isinstance(value, (int, float)):
        value = str(value)
    if isinstance(default, list) and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    exact = type(value) is type(default) or (isinstance(default, float) and type(value) is int)
    if not exact:
        kind = type(default).__name__
        raise InvalidValue(f"{key} = {value!r}: give {_KIND_NAMES.get(kind, kind)}")
    return value
