"""`load`, `traced`, `names`, `describe`: from a user's source to a `Model`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from genz_core.errors import MissingSpec, UnsupportedModel
from genz_core.graphs import Model
from genz_core.precision import canonical
from genz_core.types import Precision
from model_registry.architectures.registry import is_described, read_spec
from model_registry.drafts import mtp_parameters
from model_registry.finding.catalog import shipped_models
from model_registry.finding.lookup import resolve_name
from model_registry.finding.sources import Checkpoint, ModelSource, find_checkpoint
from model_registry.graph.model import DescribedModel
from model_registry.graph.other_kinds import as_kind
from model_registry.kinds import other_kind, refuse_other_kinds, runs_as_decoder
from model_registry.quantization.gguf_mixtures import is_mixture
from model_registry.quantization.overrides import override_formats, quantised_formats
from model_registry.quantization.published_tensors import published_precision
from model_registry.quantization.resolve import resolve_precision
from model_registry.quantization.tensor_layout import tensor_layout
from model_registry.spec import ModelSpec


def load(
    source: ModelSource,
    *,
    weights: str | None = None,
    moe_weights: str | None = None,
    kv: str | None = None,
    activations: str | None = None,
    compute: str | None = None,
    quant_config: str | Path | Mapping[str, Any] | None = None,
) -> Model:
    """A model in its checkpoint's number formats, or in the formats given here.

    It is built from a description where `architectures` has its `model_type`; any other type that
    transformers has is traced.

    source: a name (such as "meta-llama/Llama-3.1-8B", spelling is flexible), the `Path` of a
    config.json (or of its folder), a `HubModel`, or the parsed config itself.  A name opens neither
    files nor the network.
    quant_config: the checkpoint's hf_quant_config.json: its path, text or content.
    weights, moe_weights, kv, activations, compute: formats that replace the checkpoint's.

    Raises:
        UnknownModel: no such name; near names are listed.
        NotADecoder: an encoder, an encoder-decoder, a front end or a diffusion language model.
        UnsupportedModel: a type that is neither described nor in transformers, or a key that may
            change the shape and is not understood.
        UnknownPrecision, InvalidValue: bad formats or sizes.
        MissingSpec: only a trace is possible, and torch or transformers is not installed.
    """
    checkpoint = _priced(source, quant_config)
    precision, notes = _in_formats(
        checkpoint,
        weights=weights,
        moe_weights=moe_weights,
        kv=kv,
        activations=activations,
        compute=compute,
    )
    if _is_described(checkpoint):
        model = DescribedModel(_spec_of(checkpoint), precision, notes, checkpoint.origin)
        return replace(model, notes=(*notes, *_of_encoder(model)))
    return _traced_instead(checkpoint, precision, notes)


def _of_encoder(model: DescribedModel) -> tuple[str, ...]:
    """A note on an image encoder among the weights."""
    if model.spec.vision is None or model.precision.mixture:
        return ()
    return (f"weights hold its image encoder, {model.vision_parameters / 1e9:.2g}B parameters",)


def in_formats(model: Model, **formats: str | None) -> Model:
    """A model in other number formats; formats: as in `load`.

    Raises:
        UnknownPrecision: a format that is not described.
    """
    layout = tensor_layout(model.spec) if isinstance(model, DescribedModel) else None
    precision, _ = override_formats(model.precision, layout=layout, **formats)
    return model.with_precision(precision)


def traced(
    source: ModelSource,
    quant_config: str | Path | Mapping[str, Any] | None = None,
    without: Collection[str] = (),
    **formats: str | None,
) -> Model:
    """The same model from a trace of transformers' own code, even if a builder describes it.

    without: names of `tracing.REWRITES` to leave out.  formats: by the names that `load` takes.

    Raises:
        RidgelineError: as `load`, or an unknown rewrite.
    """
    checkpoint = _decoder(source, quant_config)
    return _trace(checkpoint, *_in_formats(checkpoint, **formats), without)


def is_trace_missing(source: ModelSource, *, described: bool = True) -> bool:
    """Whether the trace of a model is still missing; making it takes seconds, and PyTorch.

    described: also for a type that a builder describes, which `load` would not trace.

    Raises:
        RidgelineError: as `load`.
    """
    checkpoint = _priced(source)
    if not described and _is_described(checkpoint):
        return False
    refuse_other_kinds(checkpoint.config, checkpoint.name)
    from model_registry.tracing import is_kept

    return not is_kept(checkpoint.config)


def _is_described(checkpoint: Checkpoint) -> bool:
    """Whether a builder describes a checkpoint; encoder layers configured to generate are traced.

    An encoder or encoder-decoder inside a model of another type is not a model of its own.
    """
    model_type, whole = checkpoint.keys.model_type, checkpoint.config.get("model_type")
    if not is_described(model_type) or runs_as_decoder(checkpoint.config):
        return False
    return model_type == whole or not other_kind(checkpoint.config)


def _spec_of(checkpoint: Checkpoint) -> ModelSpec:
    """The spec of a described checkpoint, adapted to the kind of model that its config states.

    Raises:
        RidgelineError: as `read_spec` and `as_kind`.
    """
    keys = checkpoint.keys
    spec, found = read_spec(keys), other_kind(checkpoint.config)
    return as_kind(spec, *found, keys) if found else spec


def _priced(source: ModelSource, quant: str | Path | Mapping[str, Any] | None = None) -> Checkpoint:
    """The checkpoint of a source: of any kind that a builder describes, otherwise of a decoder.

    Raises:
        RidgelineError: as `find_checkpoint`.
        NotADecoder: neither a builder describes it nor is it a decoder.
    """
    checkpoint = find_checkpoint(source, quant)
    if not _is_described(checkpoint):
        refuse_other_kinds(checkpoint.config, checkpoint.name)
    return checkpoint


def _decoder(
    source: ModelSource, quant: str | Path | Mapping[str, Any] | None = None
) -> Checkpoint:
    """The checkpoint of a source.

    Raises:
        RidgelineError: as `find_checkpoint`.
        NotADecoder: it is of another kind.
    """
    checkpoint = find_checkpoint(source, quant)
    refuse_other_kinds(checkpoint.config, checkpoint.name)
    return checkpoint


def _in_formats(checkpoint: Checkpoint, **wishes: str | None) -> tuple[Precision, tuple[str, ...]]:
    """The precision of a checkpoint with the formats requested by name and by the user, and notes
    on them.

    A user's format takes precedence over one in the name.
    """
    wishes = {**checkpoint.formats, **{name: wish for name, wish in wishes.items() if wish}}
    precision = resolve_precision(checkpoint.config, checkpoint.quant)
    if weights := wishes.get("weights"):
        precision = _as_published(checkpoint.name, weights, precision)
    layout = None
    if is_mixture(wishes.get("weights") or "") and _is_described(checkpoint):
        layout = tensor_layout(_spec_of(checkpoint))
    precision, notes = override_formats(precision, layout=layout, **wishes)
    return precision, (*checkpoint.notes, *notes)


def _trace(
    checkpoint: Checkpoint,
    precision: Precision,
    notes: tuple[str, ...],
    without: Collection[str] = (),
) -> Model:
    from model_registry.tracing import trace

    model = trace(checkpoint.config, name=checkpoint.name, without=without)
    return replace(model, precision=precision, remarks=notes)


def _traced_instead(checkpoint: Checkpoint, precision: Precision, notes: tuple[str, ...]) -> Model:
    """The trace of a type that no builder describes.

    Raises:
        UnsupportedModel: it cannot be traced either; the message gives both reasons.
    """
    try:
        return _trace(checkpoint, precision, notes)
    except (UnsupportedModel, MissingSpec) as refusal:
        try:
            read_spec(checkpoint.keys)
        except UnsupportedModel as unknown:
            raise UnsupportedModel(f"{unknown}; nor can it be traced: {refusal}") from None
        raise


def _as_published(name: str, weights: str, precision: Precision) -> Precision:
    """The number formats of a published quantisation of the shipped model `name`; otherwise
    `precision`.
    """
    models = shipped_models()
    if name not in models or canonical(weights) in quantised_formats(precision):
        return precision
    quantised = {model.id: model.config() for model in models.values() if name in model.bases}
    return published_precision(quantised, weights) or precision


def names() -> list[str]:
    """Every model that ships, in the current spelling of the Hugging Face hub."""
    return sorted(shipped_models(), key=str.casefold)


@lru_cache(maxsize=1024)
def listed(find: str = "") -> list[dict[str, Any]]:
    """Name, type, parameters and source of the shipped models whose names contain a text."""
    columns = ("name", "model_type", "parameters", "active_parameters", "source")
    described = (describe(name) for name in names() if find.casefold() in name.casefold())
    return [{key: facts[key] for key in columns} for facts in described]


def describe(name: str) -> Mapping[str, Any]:
    """Facts of a shipped model, whatever its number formats; parameters as in `Model`.

    published: exact counts with their citation, None where there are none.  confirmed: whether
    the shape agrees with a published count or with the count of transformers' own model.

    Raises:
        UnknownModel: no such name; near names are listed.
    """
    shipped = resolve_name(name).model
    model = DescribedModel(_spec_of(find_checkpoint(shipped.id)))
    return {
        "name": shipped.id,
        "model_type": shipped.model_type,
        "parameters": int(model.parameters),
        "active_parameters": int(model.active_parameters),
        "vision_parameters": int(model.vision_parameters),
        "mtp_layers": model.spec.mtp_layers,
        "mtp_parameters": int(mtp_parameters(model)),
        "layers": len(model.spec.layers),
        "hidden_size": model.spec.hidden,
        "vocabulary": model.spec.vocabulary,
        "max_context": model.max_context,
        "quantized": shipped.quantized,
        "published": shipped.published,
        "confirmed": shipped.confirmed,
        "aliases": shipped.aliases,
        "source": shipped.source,
    }
