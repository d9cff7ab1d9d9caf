"""A new file of `model_registry/configs` from a config.json: the keys that shape the graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from model_registry.architectures.registry import read_spec
from model_registry.finding.catalog import shipped_models
from model_registry.finding.sources import Checkpoint, ModelSource, find_checkpoint
from model_registry.graph.keys import NESTED, Config
from model_registry.graph.model import DescribedModel
from model_registry.graph.other_kinds import as_kind
from model_registry.kinds import other_kind

#: Keys that are kept though no builder of layers reads them: formats, kind, other modalities.
_KEPT = (
    *("model_type", "architectures", "torch_dtype", "dtype", "quantization_config"),
    *("hf_quant_config", "vision_config", "audio_config", "hidden_act", "is_encoder_decoder"),
    *("num_labels", "tie_word_embeddings"),
)


@dataclass(frozen=True, slots=True)
class Contribution:
    """A file for the registry: its name and text, the model's sizes, and what is still to be added.

    remarks: sentences for the contributor.
    """

    file: str
    text: str
    parameters: float
    active_parameters: float
    remarks: tuple[str, ...]


def contribution(source: ModelSource) -> Contribution:
    """The file that would ship the model of `source`, checked by its builder.

    Raises:
        UnsupportedModel: no builder describes the type, or a key is not understood.
        RidgelineError: as `find_checkpoint`.
    """
    checkpoint = find_checkpoint(source)
    keys = checkpoint.keys
    spec, found = read_spec(keys), other_kind(checkpoint.config)
    model = DescribedModel(as_kind(spec, *found, keys) if found else spec)
    facts = _kept(checkpoint.config, keys)
    if checkpoint.quant is not None:
        facts["hf_quant_config"] = checkpoint.quant
    head = {"_id": checkpoint.name, "_source": _origin(checkpoint), "_confirmed": False}
    rows = (
        f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in {**head, **facts}.items()
    )
    return Contribution(
        file=checkpoint.name.replace("/", "--") + ".json",
        text="{\n" + ",\n".join(rows) + "\n}\n",
        parameters=model.parameters,
        active_parameters=model.active_parameters,
        remarks=_remarks(checkpoint),
    )


def _origin(checkpoint: Checkpoint) -> str:
    return (
        checkpoint.origin or f"config.json of {checkpoint.name}, published on the Hugging Face hub"
    )


def _kept(config: Mapping[str, Any], keys: Config) -> dict[str, Any]:
    """The entries that the builder read or that identify the checkpoint, nested ones included."""
    kept: dict[str, Any] = {}
    for key, value in config.items():
        if key in NESTED and isinstance(value, Mapping):
            kept[key] = _kept(value, keys)
        elif value is not None and (key in _KEPT or keys.was_read(key)):
            kept[key] = value
    return kept


def _remarks(checkpoint: Checkpoint) -> tuple[str, ...]:
    remarks = [
        "give the published count under _published_parameters, or let "
        "tests/model_registry/count_on_meta.py count it, and take _confirmed out"
    ]
    if "/" not in checkpoint.name:
        remarks.append("name the model as the hub does, OWNER/NAME, under _id")
    shipped = shipped_models().values()
    known = {name.casefold() for record in shipped for name in (record.id, *record.aliases)}
    if checkpoint.name.casefold() in known:
        remarks.append(f"{checkpoint.name} is already shipped")
    return tuple(remarks)
