"""Decoders' layers under another use: scores in place of a next token, sight on both sides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from model_registry.graph.encoder_heads import labels, task_of
from model_registry.graph.keys import Config
from model_registry.kinds import Kind, not_a_decoder
from model_registry.spec import Attention, Block, HeadProjection, ModelSpec

#: Seen on both sides, nothing is predicted: the note that an embedding model carries.
_POOLED = "the last layer's output is pooled; dense layers that a pipeline adds are not counted"


def as_kind(spec: ModelSpec, kind: Kind, mark: str, config: Config) -> ModelSpec:
    """A decoder's spec as what its checkpoint is.

    kind, mark: see `model_registry.kinds.other_kind`.

    Raises:
        NotADecoder: layers of a decoder do not make a model of that kind.
    """
    if spec.kind != "decoder":
        return spec
    makers: dict[Kind, Callable[[ModelSpec, Config], ModelSpec]] = {
        "classifier": _classifier,
        "encoder-only": _encoder,
        "diffusion language model": _diffusion,
    }
    if kind not in makers:
        raise not_a_decoder(kind, mark, spec.name)
    return makers[kind](spec, config)


def _classifier(spec: ModelSpec, config: Config) -> ModelSpec:
    """Scores of the last token, or of each, under the decoder's causal mask."""
    each = task_of(config) in ("TokenClassification", "QuestionAnswering")
    count = 2 if task_of(config) == "QuestionAnswering" else 0
    score = labels(config, spec.hidden, count, each="token" if each else "sequence", bias=each)
    return _reading(spec, (score,))


def _encoder(spec: ModelSpec, config: Config) -> ModelSpec:
    """Layers whose tokens see both sides, pooled."""
    seen = _seen_from_both_sides(spec)
    return replace(_reading(seen, ()), notes=(*seen.notes, _POOLED))


def _reading(spec: ModelSpec, heads: tuple[HeadProjection, ...]) -> ModelSpec:
    return replace(
        spec, kind="encoder", heads=heads, mtp_layers=0, prediction=(), tied=True, draft=None
    )


def _diffusion(spec: ModelSpec, config: Config) -> ModelSpec:
    return replace(_seen_from_both_sides(spec), kind="diffusion", mtp_layers=0, prediction=())


def _seen_from_both_sides(spec: ModelSpec) -> ModelSpec:
    layers = tuple(
        replace(layer, blocks=tuple(_mutual(block) for block in layer.blocks))
        for layer in spec.layers
    )
    return replace(spec, layers=layers)


def _mutual(block: Block) -> Block:
    """A block whose attention, if it is one, sees both sides; half of a window on each."""
    if not isinstance(block, Attention):
        return block
    window = block.window // 2 * 2 + 1 if block.window else 0
    return replace(block, causal=False, window=window)
