"""The run file: all settings of a measurement, composed from presets and changed field by field.

    compose(["model=qwen3-8b", "profile=quick", "run.batch=4", "isl=256"])

`model=` and `profile=` name presets (a model without a preset is its name); any other key is a
field, in full or by its last part where that is unambiguous.  Values are read as YAML.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from genz_core.errors import InvalidValue, UnknownName

_FOLDER = Path(__file__).parent / "presets"
GROUPS = ("model", "profile")
_MAX_BYTES = 1 << 20

Tree = dict[str, Any]


def presets(group: str) -> list[str]:
    """Names of the presets of a group."""
    return sorted(path.stem for path in (_FOLDER / group).glob("*.yaml"))


def compose(overrides: Sequence[str] = (), file: Path | None = None) -> Tree:
    """The resolved settings: base, then a run file, then presets, then single fields.

    Args:
        overrides: "model=NAME", "profile=NAME" or "field=value".

    Raises:
        InvalidValue: a field that there is not, a value of another kind, no YAML.
        UnknownName: no such profile.
    """
    base = _read(_FOLDER / "base.yaml")
    tree = copy.deepcopy(base)
    if file is not None:
        _lay(tree, _read(file), base, file.name)
    pairs = [_pair(text) for text in overrides]
    for group, name in (pair for pair in pairs if pair[0] in GROUPS):
        _lay(tree, _preset(group, name), base, f"{group}={name}")
    for key, text in (pair for pair in pairs if pair[0] not in GROUPS):
        path = _field(base, key)
        _put(tree, path, _value(key, text, _at(base, path)))
    return tree


def dump(tree: Mapping[str, Any]) -> str:
    """The settings as a run file that `compose` reads back."""
    return yaml.safe_dump(dict(tree), sort_keys=False)


def _read(path: Path) -> Tree:
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InvalidValue(f"{path.name} is larger than a run file")
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidValue(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InvalidValue(f"{path.name} is no YAML: {reason}") from None
    if not isinstance(tree, dict):
        raise InvalidValue(f"{path.name} holds no mapping of fields")
    return tree


def _pair(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not (separator and key.strip()):
        raise InvalidValue(f"{text!r} is no override; write field=value")
    return key.strip(), value.strip()


def _preset(group: str, name: str) -> Tree:
    """A preset; a model without one is its name."""
    if name in presets(group):
        return _read(_FOLDER / group / f"{name}.yaml")
    if group == "model" and name:
        return {"model": {"name": name}}
    raise UnknownName(group, name, presets(group), f"there are {', '.join(presets(group))}")


def _leaves(tree: Mapping[str, Any], before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in tree.items():
        path = (*before, str(key))
        found += _leaves(value, path) if isinstance(value, dict) else [path]
    return found


def _field(base: Tree, key: str) -> tuple[str, ...]:
    """The path of a field, named in full or by its last part.

    Raises:
        InvalidValue: there is none, or there are several.
    """
    leaves = _leaves(base)
    parts = tuple(key.split("."))
    matches = [leaf for leaf in leaves if leaf == parts] or [
        leaf for leaf in leaves if leaf[-len(parts) :] == parts
    ]
    if len(matches) == 1:
        return matches[0]
    names = [".".join(leaf) for leaf in matches or leaves]
    if matches:
        raise InvalidValue(f"{key!r} is in several places: {', '.join(names)}")
    ends = {name.rpartition(".")[2]: name for name in names}
    close = difflib.get_close_matches(key, [*names, *ends], n=3, cutoff=0.5)
    near = ", ".join(dict.fromkeys(ends.get(name, name) for name in close))
    raise InvalidValue(
        f"no field {key!r}; " + (f"near: {near}" if near else "--print-config shows all")
    )


def _at(tree: Tree, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _put(tree: Tree, path: tuple[str, ...], value: Any) -> None:
    _at(tree, path[:-1])[path[-1]] = value


def _value(key: str, text: str, standard: Any) -> Any:
    """A value typed on the command line, of the kind that the field has."""
    try:
        value = yaml.safe_load(text) if text else ""
    except (yaml.YAMLError, RecursionError):
        raise InvalidValue(f"{key}={text!r} is no value that YAML reads") from None
    as_typed = isinstance(standard, str) and isinstance(value, (int, float))  # 1:8:2 is 3722
    return _kind(key, text if as_typed else value, standard)


def _kind(key: str, value: Any, standard: Any) -> Any:
    """The value, checked against what the field holds by default.

    Raises:
        InvalidValue: another kind.
    """
    if isinstance(standard, str) and isinstance(value, (int, float)):
        value = str(value)
    if isinstance(standard, list) and isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    exact = type(value) is type(standard) or (isinstance(standard, float) and type(value) is int)
    if not exact:
        wanted = {"str": "text", "int": "a whole number", "bool": "true or false"}
        kind = type(standard).__name__
        raise InvalidValue(f"{key} = {value!r}: give {wanted.get(kind, kind)}")
    return value


def _lay(tree: Tree, over: Mapping[str, Any], base: Tree, where: str, path: str = "") -> None:
    """Lay a partial tree over a whole one, in place.

    Raises:
        InvalidValue: it has a field that there is not.
    """
    for key, value in over.items():
        name = f"{path}{key}"
        if key not in base:
            near = difflib.get_close_matches(str(key), list(base), n=3, cutoff=0.4)
            hint = f"near: {', '.join(near)}" if near else f"known: {', '.join(base)}"
            raise InvalidValue(f"{where}: no field {name!r}; {hint}")
        if isinstance(base[key], dict):
            if not isinstance(value, Mapping):
                raise InvalidValue(f"{where}: {name} = {value!r}: give a mapping")
            _lay(tree[key], value, base[key], where, f"{name}.")
        else:
            tree[key] = _kind(f"{where}: {name}", value, base[key])
