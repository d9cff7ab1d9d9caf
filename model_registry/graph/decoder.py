"""The graph of one device, from a layer plan, a step and a split.

Equal layers (same blocks, same number formats) are added once and carry the indices of all of them,
so the graph of a hundred equal layers is as small as that of a single one.
"""

from __future__ import annotations

from dataclasses import replace

from genz_core.graphs import Graph
from genz_core.operators import gemm, pointwise
from genz_core.types import Parallelism, Precision, Step
from model_registry.blocks.ends import entry_ops, exit_ops, pipeline_op
from model_registry.blocks.frame import (
    DeviceFrame,
    EncodedInput,
    Ops,
    block_ops,
    flatten,
    with_small_weights,
)
from model_registry.spec import CrossAttention, Layer, ModelSpec


def equal_layers(spec: ModelSpec, precision: Precision) -> list[tuple[Layer, tuple[int, ...]]]:
    """(plan, indices) of the layers that have equal operators, in the order of their
    first layer.
    """
    formats: dict[int, list[tuple[str, str]]] = {}
    for (layer, role), name in precision.by_layer.items():
        formats.setdefault(layer, []).append((role, name))
    groups: dict[object, list[int]] = {}
    for at, plan in enumerate(spec.layers):
        groups.setdefault((plan, tuple(sorted(formats.get(at, ())))), []).append(at)
    return [(spec.layers[indices[0]], tuple(indices)) for indices in groups.values()]


def decoder_graph(
    spec: ModelSpec,
    precision: Precision,
    groups: list[tuple[Layer, tuple[int, ...]]],
    step: Step,
    par: Parallelism,
    encoded: tuple[EncodedInput, ...] = (),
) -> Graph:
    """The operators of one step on one device.

    groups: `equal_layers` of the spec in this precision.  encoded: encoder output of each group of
    the step; without any, layers that attend only to it are skipped.
    """
    frame = DeviceFrame.for_step(spec, precision, step, par)
    frame = replace(frame, encoded=encoded)
    layers = flatten([layer_ops(layer, _of_layer(layer, frame, at)) for layer, at in groups])
    ops = (*entry_ops(frame), *layers, pipeline_op(frame), *exit_ops(frame))
    return Graph(ops, len(spec.layers), spec.notes)


def _of_layer(layer: Layer, frame: DeviceFrame, at: tuple[int, ...]) -> DeviceFrame:
    """The frame of equal layers; without tokens where they have nothing to attend to."""
    frame = replace(frame, layers=at)
    across = any(isinstance(block, CrossAttention) for block in layer.blocks)
    if frame.encoded or not across:
        return frame
    groups = tuple(replace(group, sequences=group.sequences * 0.0) for group in frame.groups)
    none = EncodedInput(0.0, 0.0)
    return replace(
        frame,
        groups=groups,
        tokens=frame.tokens * 0.0,
        sequences=frame.sequences * 0.0,
        encoded=(none,) * len(groups),
    )


# ------------------------------------------------------------------------------- a layer


def layer_ops(layer: Layer, frame: DeviceFrame) -> Ops:
    """The residual branches of equal layers, each with its norms and its sum over tp.

    frame: the device's part of the step, at the indices of these layers.
    """
    if layer.parallel:
        return _parallel(layer, frame)
    parts: list[Ops] = []
    for at, block in enumerate(layer.blocks):
        module = block.module
        if not module:  # the block brings its own norms and sums
            parts.append(block_ops(block, frame))
            continue
        parts.append(_streams(module, frame))
        if layer.norms != "after" and not (layer.bare and at == 0):
            parts.append(_norm("input_norm" if at == 0 else "post_attention_norm", module, frame))
        parts.append(block_ops(block, frame))
        parts.append(frame.summed(f"{module}_all_reduce", module))
        if layer.norms != "before":
            alone = layer.norms == "both"  # the norm of the next block adds the residual
            parts.append((frame.norm(f"{module}_output_norm", module, first=alone),))
    extra = tuple(frame.norm("extra_norm", "mlp", first=True) for _ in range(layer.extra_norms))
    return (*flatten(parts), *extra)


def _parallel(layer: Layer, frame: DeviceFrame) -> Ops:
    """All blocks that share one norm's output (or have a norm each), added and summed over
    tp once.
    """
    norms = [_norm("input_norm", "attention", frame)]
    norms += [(frame.norm("mlp_norm", "mlp", first=True),)] * (layer.parallel_norms - 1)
    blocks = [block_ops(block, frame) for block in layer.blocks]
    return (*flatten(norms), *flatten(blocks), *frame.summed("layer_all_reduce", "mlp"))


def _streams(module: str, frame: DeviceFrame) -> Ops:
    """Hyper-connections: residual streams mixed into a block's input and back out of it.

    A small product of all streams gives the mixing weights of this token; then every stream is
    read and written once, with the block's input and output.
    """
    streams, hidden, tokens = frame.spec.streams, frame.spec.hidden, frame.stream_tokens
    if not streams:
        return ()
    where, weights = frame.at(module), streams * (streams + 2)
    mixing = gemm("stream_weights", tokens, weights, streams * hidden, frame.plain, **where)
    mixed = pointwise(
        "stream_mix",
        "residual",
        tokens * hidden * streams,
        2.0 * (streams + 2),
        frame.plain,
        reads=2.0 + 1.0 / streams,
        writes=1.0 + 1.0 / streams,
        **where,
    )
    return (with_small_weights(mixing, weights + 3.0), mixed)


def _norm(name: str, module: str, frame: DeviceFrame) -> Ops:
    """The norm before a block: fused with the residual sum, except in the very first layer."""
    if name != "input_norm" or 0 not in frame.layers:
        return (frame.norm(name, module),)
    first = replace(frame, layers=(0,)).norm(name, module, first=True)
    rest = tuple(at for at in frame.layers if at)
    return (first, replace(frame, layers=rest).norm(name, module)) if rest else (first,)
