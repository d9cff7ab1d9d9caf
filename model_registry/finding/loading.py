"""`load`, `names`, `describe`: from what a user has in hand to a `Model`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from genz_core.errors import MissingSpec, UnsupportedModel
from genz_core.precision import canonical
from genz_core.types import Model, Precision
from model_registry.finding.catalog import records
from model_registry.finding.lookup import resolve
from model_registry.finding.registry import model_types, read
from model_registry.finding.sources import Checkpoint, Source, checkpoint
from model_registry.graph.model import DecoderModel
from model_registry.quantization.overrides import override, schemes
from model_registry.quantization.published import published
from model_registry.quantization.resolve import resolve_precision


def load(
    source: Source,
    *,
    weights: str | None = None,
    moe_weights: str | None = None,
    kv: str | None = None,
    activations: str | None = None,
    compute: str | None = None,
    quant_config: Source | None = None,
) -> Model:
    """A model in its checkpoint's number formats, or in those asked for.

    Built by hand where its `model_type` is described in `architectures`; any other type that
    transformers has is traced.

    source: a name ("meta-llama/Llama-3.1-8B", forgiving), a path to a config.json (or to its
    folder), a hub address ("hf:owner/name"), a pasted config.json, or the parsed config itself.
    quant_config: the checkpoint's hf_quant_config.json.
    weights, moe_weights, kv, activations, compute: formats that replace the checkpoint's.

    Raises:
        UnknownModel: no such name; near names are listed.
        UnsupportedModel: a type that nobody knows, or a key that changes the shape, not described.
        UnknownPrecision, InvalidValue: bad formats or sizes.
        MissingSpec: only a trace would do, and torch or transformers is not installed.
    """
    found = checkpoint(source, quant_config)
    precision, notes = _in_formats(
        found,
        weights=weights,
        moe_weights=moe_weights,
        kv=kv,
        activations=activations,
        compute=compute,
    )
    if found.keys.model_type in model_types():
        return DecoderModel(read(found.keys), precision, notes, found.origin)
    return _traced_instead(found, precision, notes)


def in_formats(model: Model, **formats: str | None) -> Model:
    """A model in other number formats: weights, moe_weights, kv, activations, compute as `load`.

    Raises:
        UnknownPrecision: a format that nobody has described.
    """
    precision, _ = override(model.precision, **formats)
    return model.with_precision(precision)


def traced(
    source: Source,
    quant_config: Source | None = None,
    without: Collection[str] = (),
    **formats: str | None,
) -> Model:
    """The same model as transformers' own code runs it, whether or not a builder describes it.

    without: names of `tracing.REWRITES` to leave out.  formats: as `load` names them.

    Raises:
        RidgelineError: as `load`; no rewrite of that name.
    """
    found = checkpoint(source, quant_config)
    return _traced(found, *_in_formats(found, **formats), without)


def _in_formats(found: Checkpoint, **wishes: str | None) -> tuple[Precision, tuple[str, ...]]:
    """The formats of a checkpoint with the wishes of its name and its user, and what was done."""
    wishes = {**found.formats, **{name: wish for name, wish in wishes.items() if wish}}
    held = resolve_precision(found.config, found.quant)
    if weights := wishes.get("weights"):
        held = _as_published(found.name, weights, held)
    precision, said = override(held, **wishes)
    return precision, (*found.notes, *said)


def _traced(
    found: Checkpoint,
    precision: Precision,
    notes: tuple[str, ...],
    without: Collection[str] = (),
) -> Model:
    from model_registry.tracing import trace

    model = trace(found.config, name=found.name, without=without)
    return replace(model, precision=precision, remarks=notes)


def _traced_instead(found: Checkpoint, precision: Precision, notes: tuple[str, ...]) -> Model:
    """The trace of a type that no builder describes; where there is none, both reasons why."""
    try:
        return _traced(found, precision, notes)
    except (UnsupportedModel, MissingSpec) as refusal:
        try:
            read(found.keys)
        except UnsupportedModel as unknown:
            raise UnsupportedModel(f"{unknown}; nor can it be traced: {refusal}") from None
        raise


def _as_published(name: str, weights: str, checkpoint: Precision) -> Precision:
    """The map of a published quantisation of a shipped model; else the checkpoint's own."""
    if name not in records() or canonical(weights) in schemes(checkpoint):
        return checkpoint
    return published(name, weights) or checkpoint


def names() -> list[str]:
    """Every model that ships, in the current spelling of the Hugging Face hub."""
    return sorted(records(), key=str.casefold)


@lru_cache(maxsize=1024)
def describe(name: str) -> Mapping[str, Any]:
    """Facts of a shipped model, whatever its number formats; parameters as in `Model`.

    published: exact counts with their citation, None where there are none.  confirmed: whether
    the shape agrees with a published count or with the count of transformers' own model.

    Raises:
        UnknownModel: no such name; near names are listed.
    """
    record = records()[resolve(name).id]
    model = DecoderModel(read(checkpoint(record.id).keys))
    return {
        "name": record.id,
        "model_type": record.model_type,
        "parameters": int(model.parameters),
        "active_parameters": int(model.active_parameters),
        "vision_parameters": int(model.vision_parameters),
        "mtp_layers": model.spec.mtp_layers,
        "layers": len(model.spec.layers),
        "hidden_size": model.spec.hidden,
        "vocabulary": model.spec.vocabulary,
        "max_context": model.max_context,
        "quantized": record.quantized,
        "published": record.published,
        "confirmed": record.confirmed,
        "aliases": record.aliases,
        "source": record.source,
    }
