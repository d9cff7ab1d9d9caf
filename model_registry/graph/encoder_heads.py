"""The heads of an encoder, by the class that its config names, and the spec around them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder
from model_registry.spec import HeadProjection, Layer, ModelSpec

_TASK = re.compile(r"For([A-Z]\w+)$")


def task_of(config: Config) -> str:
    """The task that the config's class is made for: "MaskedLM" of BertForMaskedLM; "" for none."""
    classes = config.raw.get("architectures")
    name = classes[0] if isinstance(classes, list | tuple) and classes else ""
    found = _TASK.search(name) if isinstance(name, str) else None
    if found:
        return found[1]
    return "CausalLM" if isinstance(name, str) and name.endswith("LMHeadModel") else ""


def head(name: str, outputs: int, inputs: int, *, bias: bool = True) -> HeadProjection:
    """A dense layer with a function of its outputs, over one token of each sequence."""
    return HeadProjection(name, outputs, inputs, bias=bias)


def labels(
    config: Config,
    hidden: int,
    count: int = 0,
    *,
    each: Literal["token", "sequence"] = "sequence",
    bias: bool = True,
) -> HeadProjection:
    """A score for each label of the config, or for `count` of them."""
    return HeadProjection(
        "classifier", count or _labels(config), hidden, each, bias=bias, activation=False
    )


def _labels(config: Config) -> int:
    named = config.raw.get("id2label")
    if isinstance(named, Mapping) and named:
        return len(named)
    return config.integer("num_labels", 2) or 2


def encoder(
    config: Config, layers: Sequence[Layer], heads: Sequence[HeadProjection], **more: Any
) -> ModelSpec:
    """The spec of an encoder: layers that attend in both directions, and heads instead of a
    language head.

    more: fields of `ModelSpec` that the family fixes.
    """
    config.ignore("tie_word_embeddings")
    notes: tuple[str, ...] = ()
    if any(part.tied for part in heads):
        notes = (
            "ends in the head over every token that its class names; served for embeddings alone "
            "it has none",
        )
    fields = {"tied": True, "notes": notes, **more}
    return decoder(config, layers, kind="encoder", heads=tuple(heads), **fields)
