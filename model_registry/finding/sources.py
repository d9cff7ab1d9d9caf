"""From what a user has in hand (a name, a path, an address, a config) to a checkpoint's config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, UnknownModel
from model_registry.finding.catalog import records
from model_registry.finding.hub import fetch, hub_id
from model_registry.finding.lookup import resolve
from model_registry.graph.keys import Config

_MAX_BYTES = 8 * 2**20  # a config.json is some kilobytes
_QUANT = "hf_quant_config.json"
Source = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The configuration of a checkpoint and how it was found.

    config: as Hugging Face has it, without the registry's own keys.  quant: what ModelOpt wrote
    beside it, None for nothing.  notes: what a name was taken for.  formats: number formats that
    a name announces, by the names that `load` gives them.  origin: who published the config.
    """

    name: str
    config: Mapping[str, Any]
    quant: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""

    @property
    def keys(self) -> Config:
        """The config for who asks for canonical names."""
        return Config(self.config, self.name)


def checkpoint(source: Source, quant: Source | None = None) -> Checkpoint:
    """The checkpoint of a name, a path, a hub address, or a pasted or parsed config.json.

    quant: its hf_quant_config.json, where it does not lie beside the config.

    Raises:
        UnknownModel: no such name or file; near names are listed.
        InvalidValue: a file or a text that is no config.json.
    """
    address = hub_id(source) if isinstance(source, str) else None
    if address is not None:
        found = _of_file(_fetched(address), address)
    elif isinstance(source, Mapping):
        found = _of_config(source, "uploaded model")
    elif isinstance(source, str) and source.lstrip().startswith("{"):
        found = _of_config(parsed(source), "pasted model")
    elif (path := _file(source)) is not None:
        found = _of_file(path)
    else:
        found = _of_name(str(source))
    return found if quant is None else replace(found, quant=parsed(quant))


def parsed(source: Source) -> Mapping[str, Any]:
    """A JSON object out of a file, a text or a mapping.  Raises `InvalidValue`."""
    if isinstance(source, Mapping):
        return source
    text = source if isinstance(source, str) and source.lstrip().startswith("{") else None
    label = "the pasted config" if text else str(source)
    try:
        if text is None:
            path = Path(source)
            if path.stat().st_size > _MAX_BYTES:
                raise InvalidValue(f"{label} is larger than a config.json can be")
            text = path.read_text(encoding="utf-8")
        found = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{label} cannot be read: {error}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidValue(f"{label} is no JSON ({error}); give the whole config.json") from None
    if not isinstance(found, Mapping):
        raise InvalidValue(f"{label} holds a {type(found).__name__}, not a JSON object")
    return found


def _of_config(raw: Mapping[str, Any], fallback: str) -> Checkpoint:
    """The registry's own keys (`_id`, `_source`) and ModelOpt's file taken out of a config."""
    given = raw.get("_id") or raw.get("_name_or_path")
    name = given if isinstance(given, str) and given else fallback
    config = {key: value for key, value in raw.items() if not str(key).startswith("_")}
    quant = config.pop("hf_quant_config", None)
    return Checkpoint(name, config, quant, origin=str(raw.get("_source", "")))


def _of_file(path: Path, name: str = "") -> Checkpoint:
    found = _of_config({**parsed(path), **({"_id": name} if name else {})}, path.stem)
    beside = path.with_name(_QUANT)
    return replace(found, quant=parsed(beside)) if beside.is_file() else found


def _of_name(name: str) -> Checkpoint:
    entry = resolve(name)
    found = _of_config(entry.config(), entry.id)
    said = {"weights": entry.weights, "kv": entry.kv, "activations": entry.activations}
    return replace(
        found,
        name=entry.id,
        notes=(entry.note,) if entry.note else (),
        formats={key: value for key, value in said.items() if value},
        origin=records()[entry.id].source,
    )


def _fetched(name: str) -> Path:
    """The downloaded config.json of a hub model, ModelOpt's file beside it where it has one."""
    path = fetch(name)
    if path is None:
        raise UnknownModel("hub model", name, hint="It has no config.json")
    fetch(name, _QUANT)
    return path


def _file(source: str | Path) -> Path | None:
    """The config.json that a path means; None for what is no path at all.

    Raises:
        UnknownModel: a path to nothing.
    """
    text = str(source)
    if "\n" in text or "{" in text or len(text) > 1024:
        return None
    path = Path(text)
    if found := _existing(path):
        return found
    if isinstance(source, Path) or path.suffix == ".json" or text.startswith(("/", "./", "~")):
        raise UnknownModel("model file", text, hint="Give the path of a config.json")
    return None


def _existing(path: Path) -> Path | None:
    """The file at `path` or the config.json in that folder; None for nothing there."""
    try:
        path = path.expanduser()
        inside = path / "config.json"
        return next((one for one in (inside, path) if one.is_file()), None)
    except (OSError, RuntimeError):  # longer than a file name can be, or the home of nobody
        return None
