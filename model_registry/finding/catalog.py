"""The configurations that ship with Ridgeline: one small JSON file per model.

Each holds the facts that shape the graph, under the keys of a Hugging Face config.json, and keys of
the registry's own: `_id`, `_source`, `_aliases`, `_bases`, `_published_parameters`, `_confirmed`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "configs"


@dataclass(frozen=True, slots=True)
class ShippedModel:
    """One shipped configuration: its current Hugging Face id, its file and its other names.

    source: who published the configuration.  bases: shipped models of which this one is a quantised
    copy.  published: exact parameter counts with their citation, None without one.
    confirmed: whether the shape was checked against a published count or transformers' model.
    """

    id: str
    path: Path
    source: str
    model_type: str
    aliases: tuple[str, ...] = ()
    bases: tuple[str, ...] = ()
    published: Mapping[str, Any] | None = None
    confirmed: bool = True
    quantized: bool = False

    def config(self) -> dict[str, Any]:
        """The parsed config.json, without the registry's own keys."""
        raw = json.loads(self.path.read_bytes())
        return {key: value for key, value in raw.items() if not key.startswith("_")}


def _shipped_model(path: Path) -> ShippedModel:
    raw = json.loads(path.read_bytes())
    text = raw.get("text_config") or {}
    return ShippedModel(
        id=raw["_id"],
        path=path,
        source=raw["_source"],
        model_type=raw["model_type"],
        aliases=tuple(raw.get("_aliases", ())),
        bases=tuple(raw.get("_bases", ())),
        published=raw.get("_published_parameters"),
        confirmed=raw.get("_confirmed", True),
        quantized=any(
            section.get(key)
            for section in (raw, text)
            for key in ("quantization_config", "hf_quant_config")
        ),
    )


@lru_cache(maxsize=1024)
def shipped_model(id: str) -> ShippedModel | None:
    """The shipped model with exactly this id, or None; reads only that model's file."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", id):
        return None
    path = FOLDER / f"{id.replace('/', '--')}.json"
    model = _shipped_model(path) if path.is_file() else None
    return model if model is not None and model.id == id else None


@cache
def shipped_models() -> Mapping[str, ShippedModel]:
    """Every shipped model by id, in alphabetical order."""
    models = (_shipped_model(path) for path in FOLDER.glob("*.json"))
    return {model.id: model for model in sorted(models, key=lambda model: model.id.casefold())}
