"""Decoder layers used for another kind of model: scores instead of a next token, or mutual
attention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from model_registry.graph.encoder_heads import labels, task_of
from model_registry.graph.keys import Config
from model_registry.kinds import Kind, not_a_decoder
from model_registry.spec import Attention, Block, HeadProjection, ModelSpec

#: The note of an embedding model: attention in both directions, no prediction.
_POOLED = "the last layer's output is pooled; dense layers that a pipeline adds are not counted"


def as_kind(spec: ModelSpec, kind: Kind, mark: str, config: Config) -> ModelSpec:
    """A decoder's spec adapted to the kind of its checkpoint.

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
    """Scores of the last token, or of each token, under the decoder's causal mask."""
    each = task_of(config) in ("TokenClassification", "QuestionAnswering")
    count = 2 if task_of(config) == "QuestionAnswering" else 0
    score = labels(config, spec.hidden, count, each="token" if each else "sequence", bias=each)
    return _reading(spec, (score,))


def _encoder(spec: ModelSpec, config: Config) -> ModelSpec:
    """Layers with attention in both directions, pooled."""
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
    """A block with attention, if it has any, in both directions; half of a window on each side."""
    if not isinstance(block, Attention):
        return block
    window = block.window // 2 * 2 + 1 if block.window else 0
    return replace(block, causal=False, window=window)
