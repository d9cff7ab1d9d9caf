"""From a name, a path, a hub address or a config to the configuration of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue, UnknownModel
from model_registry.finding.catalog import shipped_models
from model_registry.finding.hub import cached, fetch, hub_id
from model_registry.finding.lookup import resolve_name
from model_registry.graph.keys import Config

_MAX_BYTES = 8 * 2**20  # a config.json is some kilobytes
_CONFIG, _QUANT = "config.json", "hf_quant_config.json"
ModelSource = str | Path | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The configuration of a checkpoint, and notes on its look-up.

    config: as Hugging Face has it, without the registry's own keys.  quant: ModelOpt's
    hf_quant_config.json, None without one.  notes: how a name was understood.  formats: number
    formats that a name announces, by the names that `load` takes.  origin: who published it.
    """

    name: str
    config: Mapping[str, Any]
    quant: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    origin: str = ""

    @property
    def keys(self) -> Config:
        """A fresh reader of the config by canonical key."""
        return Config(self.config, self.name)


def find_checkpoint(source: ModelSource, quant: ModelSource | None = None) -> Checkpoint:
    """The checkpoint of a name, a path, a hub address, or a pasted or parsed config.json.

    quant: its hf_quant_config.json, where it does not lie beside the config.

    Raises:
        UnknownModel: no such name or file; near names are listed.
        InvalidValue: a file or a text that is no config.json.
    """
    address = hub_id(source) if isinstance(source, str) else None
    if address is not None:
        checkpoint = _of_file(_fetched(address), address)
    elif isinstance(source, Mapping):
        checkpoint = _of_config(source, "uploaded model")
    elif isinstance(source, str) and source.lstrip().startswith("{"):
        checkpoint = _of_config(json_object(source), "pasted model")
    elif (path := _file(source)) is not None:
        checkpoint = _of_file(path)
    else:
        checkpoint = _of_name(str(source))
    return checkpoint if quant is None else replace(checkpoint, quant=json_object(quant))


def json_object(source: ModelSource) -> Mapping[str, Any]:
    """The JSON object in a file or a text; a mapping as it is.

    Raises:
        InvalidValue: it cannot be read, is larger than a config, or is no JSON object.
    """
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
        value = json.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{label} cannot be read: {error}") from None
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidValue(f"{label} is no JSON ({error}); give the whole config.json") from None
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{label} holds a {type(value).__name__}, not a JSON object")
    return value


def _of_config(raw: Mapping[str, Any], fallback: str) -> Checkpoint:
    """The checkpoint of a parsed config; `_id`, `_source` and ModelOpt's map are taken out of it.

    fallback: its name where the config has none.
    """
    label = raw.get("_id") or raw.get("_name_or_path")
    name = label if isinstance(label, str) and label else fallback
    config = {key: value for key, value in raw.items() if not str(key).startswith("_")}
    quant = config.pop("hf_quant_config", None)
    return Checkpoint(name, config, quant, origin=str(raw.get("_source", "")))


def _of_file(path: Path, name: str = "") -> Checkpoint:
    """The checkpoint of a config.json, with the hf_quant_config.json in the same folder."""
    label = {"_id": name} if name else {}
    checkpoint = _of_config({**json_object(path), **label}, path.stem)
    beside = path.with_name(_QUANT)
    return replace(checkpoint, quant=json_object(beside)) if beside.is_file() else checkpoint


def _of_name(name: str) -> Checkpoint:
    match = resolve_name(name)
    formats = {"weights": match.weights, "kv": match.kv, "activations": match.activations}
    return replace(
        _of_config(match.config(), match.id),
        name=match.id,
        notes=(match.note,) if match.note else (),
        formats={key: value for key, value in formats.items() if value},
        origin=shipped_models()[match.id].source,
    )


def _fetched(name: str) -> Path:
    """The downloaded config.json of a hub model, ModelOpt's file beside it where it has one."""
    config, _ = fetch(name, _CONFIG, _QUANT)
    assert config is not None  # else `fetch` has raised
    return config


def hub_config(name: str, *, ask: bool) -> dict[str, Any] | None:
    """The config.json of a hub model, with ModelOpt's map in it where the model has one.

    name: "owner/name".  ask: whether to ask the hub for what its cache does not hold; else the
    answer is None where the cache holds no config.

    Raises:
        UnknownModel: the hub was asked and has none, or cannot be reached.
        InvalidValue: a file that is no JSON object.
    """
    paths = fetch(name, _CONFIG, _QUANT) if ask else (cached(name, _CONFIG), cached(name, _QUANT))
    config, quant = paths
    if not config:
        return None
    maps = {"hf_quant_config": json_object(quant)} if quant else {}
    return {**json_object(config), **maps, "_id": name}


def _file(source: str | Path) -> Path | None:
    """The config.json that a path leads to; None for a text that is no path.

    Raises:
        UnknownModel: a path to nothing.
    """
    text = str(source)
    if "\n" in text or "{" in text or len(text) > 1024:
        return None
    path = Path(text)
    if file := _existing(path):
        return file
    if isinstance(source, Path) or path.suffix == ".json" or text.startswith(("/", "./", "~")):
        raise UnknownModel("model file", text, hint="Give the path of a config.json")
    return None


def _existing(path: Path) -> Path | None:
    """The file at `path`, or the config.json in the folder there; None for neither."""
    try:
        path = path.expanduser()
        inside = path / "config.json"
        return next((file for file in (inside, path) if file.is_file()), None)
    except (OSError, RuntimeError):  # too long for a file name, or the home of an unknown user
        return None
