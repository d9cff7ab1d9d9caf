"""Draft heads of a model: its multi-token-prediction module, and EAGLE heads.

speculation(model, method, acceptance)   the drafting of a model, by a method's name
prediction_module(model)                 the module in the checkpoint
eagle(model)                             an EAGLE head of the model's width, version 1, 2 or 3

A draft is a model of its own.  Its graph starts from hidden states of its target, and it uses the
target's token table (and usually its head), so it holds neither.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from genz_core.errors import UnsupportedModel
from genz_core.graphs import Model
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Method, Speculation
from genz_core.types import Precision
from model_registry.graph.model import DescribedModel
from model_registry.quantization.roles import KEPT
from model_registry.spec import (
    Attention,
    Block,
    DraftInput,
    FeedForward,
    LatentAttention,
    Layer,
    Mixture,
    ModelSpec,
)

EagleVersion = Literal[1, 2, 3]
#: Size of the vocabulary of an EAGLE-3 head, as in published ones.
EAGLE3_VOCABULARY = 32_000
_HEAD_DIM, _GROUP = 128, 8  # head size for an EAGLE head whose target has no plain attention


def speculation(
    model: Model,
    method: Method,
    acceptance: Acceptance,
    draft: Model | None = None,
    *,
    version: EagleVersion = 3,
) -> Speculation:
    """The speculation of a model.

    Args:
        method: "mtp" (the model's own module), "eagle", "draft_model", or "ngram".
        acceptance: of its drafts; as many tokens are drafted as it has positions.
        draft: the model of "draft_model", or a head instead of the derived one.
        version: of a derived EAGLE head.

    Raises:
        UnsupportedModel: a head that cannot be derived from the model.
        InvalidValue: a draft model that is missing, or that n-grams do not need.
    """
    if method == "mtp":
        module = draft or prediction_module(model)
        return Speculation(method, acceptance, module, max(modules(model), 1))
    if method == "eagle":
        return Speculation(method, acceptance, draft or eagle(model, version))
    return Speculation(method, acceptance, draft)


def prediction_module(model: Model) -> DescribedModel:
    """The multi-token-prediction module of a model; it has `modules(model)` equal ones.

    It holds its norms, the projection of state and embedding, and its layers.
    Source: DeepSeek-V3, arXiv:2412.19437, section 2.2.

    Raises:
        UnsupportedModel: the config announces none, or its architecture is not described.
    """
    spec = _described(model).spec
    if not spec.mtp_layers:
        raise UnsupportedModel(
            f"{spec.name} has no multi-token-prediction layers in its config; choose an EAGLE "
            "head, a draft model or n-grams"
        )
    head = _headed(spec, "prediction module", spec.prediction, DraftInput())
    return DescribedModel(head, _module_precision(model.precision), source=model.source)


def modules(model: Model) -> int:
    """Multi-token-prediction modules that a model has, 0 for none."""
    return model.spec.mtp_layers if isinstance(model, DescribedModel) else 0


def mtp_parameters(model: Model) -> float:
    """Parameters of all multi-token-prediction modules of a model, without those that
    they share.
    """
    return modules(model) * prediction_module(model).parameters if modules(model) else 0.0


def eagle(model: Model, version: EagleVersion = 3) -> DescribedModel:
    """An EAGLE head for a model: one dense layer of its width, 16 bit.

    Versions 1 and 2 have the same head (2 drafts a tree): the last hidden state and the embedding
    are projected to one vector, and the target's LM head is used.  Version 3 fuses three hidden
    states, reads state and embedding side by side, and has a head of 32,000 tokens.
    The attention is as in the target; the feed-forward is as wide as the target's dense ones, or as
    the experts of a token.
    Source: arXiv:2401.15077; arXiv:2406.16858; arXiv:2503.01840.

    Raises:
        UnsupportedModel: the model is traced, so its layers are not known.
    """
    spec = _described(model).spec
    mixer, width = _plain_attention(spec), _dense_width(spec)
    assumed = f"EAGLE-{version} head: one layer with {mixer.heads} heads and {width} columns"
    if version == 3:
        mixer = replace(mixer, inputs=2 * spec.hidden)
        taken = DraftInput(states=3, projected=False, own_head=True)
        spec = replace(spec, vocabulary=min(spec.vocabulary, EAGLE3_VOCABULARY))
    else:
        taken = DraftInput(norms=False)
        spec = replace(spec, final_norm=False)
    head = _headed(spec, f"EAGLE-{version}", (Layer((mixer, FeedForward(width))),), taken)
    cache = model.precision
    precision = Precision(kv=cache.kv, kv_source=cache.kv_source, source="16 bit, as heads are")
    return DescribedModel(head, precision, (assumed,))


# ------------------------------------------------------------------------------- shapes


def _described(model: Model) -> DescribedModel:
    if isinstance(model, DescribedModel):
        return model
    raise UnsupportedModel(
        f"{model.name} is traced, so its layers are not described and no head can be derived "
        "from them; choose a draft model or n-grams"
    )


def _headed(spec: ModelSpec, kind: str, layers: tuple[Layer, ...], taken: DraftInput) -> ModelSpec:
    """The spec of a draft head of `layers` for the model of `spec`."""
    return replace(
        spec,
        name=f"{kind} of {spec.name}",
        layers=layers,
        draft=taken,
        tied=False,
        mtp_layers=0,
        prediction=(),
        positions=0,
        layer_input_rows=0,
        vision=None,
        notes=(),
    )


def _blocks(spec: ModelSpec) -> list[Block]:
    return [block for layer in spec.layers for block in layer.blocks]


def _plain_attention(spec: ModelSpec) -> Attention:
    """The heads of the target's full attention; assumed ones where it has another kind."""
    plain = [block for block in _blocks(spec) if isinstance(block, Attention)]
    if plain:
        first = next((mixer for mixer in plain if not mixer.window), plain[0])
        return Attention(first.heads, first.kv_heads, first.head_dim)
    latent = next((block for block in _blocks(spec) if isinstance(block, LatentAttention)), None)
    heads = latent.heads if latent else max(spec.hidden // _HEAD_DIM, 1)
    shared = heads // _GROUP if heads % _GROUP == 0 else heads
    return Attention(heads, shared, _HEAD_DIM)


def _dense_width(spec: ModelSpec) -> int:
    """Columns of the target's dense feed-forward, or of the experts that a token reaches."""
    dense = [block.intermediate for block in _blocks(spec) if isinstance(block, FeedForward)]
    experts = [b.top_k * b.intermediate for b in _blocks(spec) if isinstance(b, Mixture)]
    return max(dense, default=max(experts, default=4 * spec.hidden))


def _module_precision(precision: Precision) -> Precision:
    """Formats of a prediction module: its target's by role, or 16 bit where the checkpoint's
    quantisation leaves the module out."""
    if precision.weight("mtp") != precision.weights["default"]:
        return replace(precision, by_layer={})
    kept = {role: name for role, name in precision.weights.items() if role in KEPT}
    return replace(
        precision, weights={"default": precision.weights["default"], **kept}, by_layer={}
    )
