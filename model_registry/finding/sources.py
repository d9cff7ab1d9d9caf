"""The configuration of a checkpoint, from a name, a file, a repository of the hub or a config.

The type of a source limits what may be accessed: a `str` is a name of the registry and opens
neither files nor the network, a `Path` is a file of this machine, a `HubModel` is requested from
the hub.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from genz_core.errors import InvalidValue, UnknownModel, file_problem
from genz_core.limits import brief
from model_registry.finding.catalog import shipped_model, shipped_models
from model_registry.finding.gguf import MAGIC
from model_registry.finding.gguf_config import gguf_config
from model_registry.finding.hub import HubModel, cached, fetch, hub_id
from model_registry.finding.lookup import resolve_name
from model_registry.graph.keys import Config

_MAX_BYTES = 8 * 2**20  # a config.json has a few kilobytes
_CONFIG, _QUANT = "config.json", "hf_quant_config.json"
#: Advice for a model that does not ship.
_FROM_HUB = "Give its config.json, or name it to `ridgeline estimate`, which asks"
ModelSource = str | Path | HubModel | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The configuration of a checkpoint, and notes on its look-up.

    config: as on Hugging Face, without the registry's own keys.  quant: ModelOpt's
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


def find_checkpoint(
    source: ModelSource, quant: str | Path | Mapping[str, Any] | None = None
) -> Checkpoint:
    """The checkpoint of a name, a file or its folder, a hub model, or a parsed config.json.

    quant: its hf_quant_config.json, if that is not in the config's folder.

    Raises:
        UnknownModel: no such name or file; near names are listed.
        InvalidValue: a file that is not a config.json, or an object of another type.
    """
    if isinstance(source, HubModel):
        checkpoint = _of_file(_fetched(source.id), source.id)
    elif isinstance(source, Mapping):
        checkpoint = _of_config(source, "uploaded model")
    elif isinstance(source, Path):
        checkpoint = _of_file(_config_file(source))
    elif isinstance(source, str):
        checkpoint = _of_name(source)
    else:
        raise InvalidValue(
            f"model = {brief(source)}: give a name, a path or the content of a config.json"
        )
    return checkpoint if quant is None else replace(checkpoint, quant=json_object(quant))


def json_object(source: str | Path | Mapping[str, Any]) -> Mapping[str, Any]:
    """The JSON object in a file or a text; a mapping is returned unchanged.

    Raises:
        InvalidValue: it cannot be read, is larger than a config, or is not a JSON object.
    """
    if isinstance(source, Mapping):
        return source
    label = str(source) if isinstance(source, Path) else "the config"
    try:
        value = json.loads(_text(source) if isinstance(source, Path) else source)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidValue(f"{label}: {file_problem(error)}") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue(
            f"{label} is not valid JSON ({error}); give the whole config.json"
        ) from None
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{label} holds a {type(value).__name__}, not a JSON object")
    return value


def _text(path: Path) -> str:
    if path.stat().st_size > _MAX_BYTES:
        raise InvalidValue(f"{path} is larger than a config.json can be")
    return path.read_text(encoding="utf-8")


def _of_config(raw: Mapping[str, Any], fallback: str) -> Checkpoint:
    """The checkpoint of a parsed config; `_id`, `_source` and ModelOpt's quantisation are extracted
    from it.

    fallback: its name where the config has none.
    """
    label = raw.get("_id") or raw.get("_name_or_path")
    name = label if isinstance(label, str) and label else fallback
    config = {key: value for key, value in raw.items() if not str(key).startswith("_")}
    quant = config.pop("hf_quant_config", None)
    return Checkpoint(name, config, quant, origin=str(raw.get("_source", "")))


def _of_file(path: Path, name: str = "") -> Checkpoint:
    """The checkpoint of a config.json, with the hf_quant_config.json in the same folder, or of a
    GGUF file."""
    if _is_gguf(path):
        with path.open("rb") as stream:
            return _of_config(gguf_config(stream), path.stem)
    label = {"_id": name} if name else {}
    checkpoint = _of_config({**json_object(path), **label}, path.stem)
    beside = path.with_name(_QUANT)
    return replace(checkpoint, quant=json_object(beside)) if beside.is_file() else checkpoint


def _is_gguf(path: Path) -> bool:
    """Whether a file starts as GGUF files do, whatever its name."""
    try:
        with path.open("rb") as stream:
            return stream.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def _of_name(name: str) -> Checkpoint:
    """The shipped configuration that a name stands for.

    Raises:
        UnknownModel: no such name, or the address of a model that only the hub has.
    """
    address = hub_id(name)
    if address and shipped_page(name):
        name = address
    elif address:
        hint = f"{address} is on the hub, which is not contacted for a plain name"
        raise UnknownModel("model", name, hint=hint, instead=_FROM_HUB)
    match = resolve_name(name)
    formats = {"weights": match.weights, "kv": match.kv, "activations": match.activations}
    return replace(
        _of_config(match.model.config(), match.id),
        name=match.id,
        notes=(match.note,) if match.note else (),
        formats={key: value for key, value in formats.items() if value},
        origin=match.model.source,
    )


def shipped_page(text: str) -> str:
    """The name of the shipped model if `text` is the address of its page on the hub, otherwise "".

    Such an address causes no request to the hub if the model ships; "hf:" always does.

    Raises:
        InvalidValue: an address without an owner and a name.
    """
    name = None if text.strip().startswith("hf:") else hub_id(text)
    if not name:
        return ""
    known = shipped_model(name) or any(name in m.aliases for m in shipped_models().values())
    return name if known else ""


def _fetched(name: str) -> Path:
    """The downloaded config.json of a hub model, ModelOpt's file beside it where it has one."""
    config, _ = fetch(name, _CONFIG, _QUANT)
    assert config is not None  # else `fetch` has raised
    return config


def hub_config(name: str) -> dict[str, Any]:
    """The config.json of a hub model, with ModelOpt's quantisation in it where the model has one.

    Files that the cache lacks are requested from the hub.  name: "owner/name".

    Raises:
        UnknownModel: the hub has none, or cannot be reached.
        InvalidValue: a file that is no JSON object.
    """
    config = _fetched(name)
    return _with_map(name, config, cached(name, _QUANT))


def cached_config(name: str) -> dict[str, Any] | None:
    """As `hub_config` without any request: None where the cache holds no config."""
    config = cached(name, _CONFIG)
    return _with_map(name, config, cached(name, _QUANT)) if config else None


def _with_map(name: str, config: Path, quant: Path | Literal[False] | None) -> dict[str, Any]:
    maps = {"hf_quant_config": json_object(quant)} if quant else {}
    return {**json_object(config), **maps, "_id": name}


def _config_file(path: Path) -> Path:
    """The config.json at a path, or in the folder there.

    Raises:
        UnknownModel: a path to nothing.
    """
    file = path / _CONFIG if path.is_dir() else path
    if not file.is_file():
        raise UnknownModel(
            "model file", str(path), hint="Give the path of a config.json or a GGUF file"
        )
    return file
