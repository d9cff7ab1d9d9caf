"""The facts of a spec that determine the formats of its tensors in llama.cpp's mixtures."""

from __future__ import annotations

from collections.abc import Iterator

from model_registry.quantization.gguf_mixtures import Tensor, TensorLayout
from model_registry.spec import Attention, FeedForward, Layer, Mixture, ModelSpec, SideBySide

#: Types whose queries, keys and values are one tensor in their GGUF files
#: (gguf-py/gguf/constants.py, ATTN_QKV among the tensors of the architecture).
_ONE_PRODUCT = frozenset(
    {"falcon", "gpt2", "gpt_neox", "bloom", "dbrx", "phi", "phi3", "chatglm", "qwen", "mpt"}
)
_SEVENTY_LAYERS = 80
#: Architectures whose models of 80 layers llama.cpp treats as its 70B (llama-model.cpp).
_SEVENTY = frozenset({"llama", "qwen2"})


def tensor_layout(spec: ModelSpec) -> TensorLayout:
    """The matrices of a model's layers, the length of their rows, and how its heads share keys."""
    mixers = [next(_attentions(layer), None) for layer in spec.layers]
    first = next((mixer for mixer in mixers if mixer), None)
    mixtures = (block for layer in spec.layers for block in layer.blocks)
    experts = [block.experts for block in mixtures if isinstance(block, Mixture)]
    return TensorLayout(
        tensors=tuple(_tensors(spec, mixers)),
        hidden=spec.hidden,
        tied=spec.tied,
        shared_by=first.heads / first.kv_heads if first else 1.0,
        experts=max(experts, default=0),
        seventy=len(spec.layers) == _SEVENTY_LAYERS and spec.model_type in _SEVENTY,
        one_product=spec.model_type in _ONE_PRODUCT,
    )


def _attentions(layer: Layer) -> Iterator[Attention]:
    for block in layer.blocks:
        inside = block.mixers if isinstance(block, SideBySide) else (block,)
        yield from (mixer for mixer in inside if isinstance(mixer, Attention))


def _tensors(spec: ModelSpec, mixers: list[Attention | None]) -> Iterator[Tensor]:
    """The matrices of attention, indexed among layers with attention, and other matrices
    by layer.
    """
    having = [layer for layer, mixer in enumerate(mixers) if mixer]
    for at, layer in enumerate(having):
        mixer = mixers[layer]
        if mixer is None:
            continue
        rows = dict.fromkeys(("q", "k", "v"), mixer.inputs or spec.hidden)
        for name, row in {**rows, "o": mixer.heads * mixer.values}.items():
            yield Tensor(f"attention.{name}", layer, at, len(having), row)
    for layer, plan in enumerate(spec.layers):
        for role, row in _feed_forwards(plan, spec.hidden):
            yield Tensor(role, layer, layer, len(spec.layers), row)


def _feed_forwards(plan: Layer, hidden: int) -> Iterator[tuple[str, int]]:
    """(role, length of rows) of a layer's feed-forwards."""
    for block in plan.blocks:
        if isinstance(block, FeedForward):
            yield from (("mlp.up", hidden), ("mlp.down", block.intermediate))
        if isinstance(block, Mixture):
            yield "experts.up", block.latent or hidden
            yield "experts.down", block.intermediate
            if block.shared:
                yield from (("shared_experts.up", hidden), ("shared_experts.down", block.shared))
