"""The graph of an encoder-decoder: the encoder on the first stage, then the decoder's step.

The groups of a step are those of any engine: a prompt's tokens, or one token after a context.  The
prompt is the encoder's input; the decoder starts from its own `start_tokens`, and the tokens of the
context beyond the prompt were generated.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Graph, Op
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num, Parallelism, Precision, Step
from model_registry.blocks.ends import entry_ops, exit_ops, pipeline_op
from model_registry.blocks.frame import DeviceFrame, EncodedInput, Ops, flatten
from model_registry.graph.decoder import layer_ops
from model_registry.spec import Layer, ModelSpec

Layers = list[tuple[Layer, tuple[int, ...]]]
#: Path of an encoder's operators in the module tree.
ENCODER = "encoder"


def encoder_decoder_graph(
    spec: ModelSpec,
    precision: Precision,
    layers: tuple[Layers, Layers],
    step: Step,
    par: Parallelism,
) -> Graph:
    """The operators of one step on one device.

    layers: `equal_layers` of the encoder and of the decoder.
    """
    assert spec.encoder is not None
    inputs = [encoded_input(group) for group in step.groups]
    own = Step(
        tuple(_decoders_own(group, spec.start_tokens) for group in step.groups),
    )
    frame = DeviceFrame.for_step(spec, precision, own, par)
    frame = replace(frame, encoded=tuple(inputs))
    later = flatten([layer_ops(layer, replace(frame, layers=at)) for layer, at in layers[1]])
    ops = (
        *encoder_stage(spec, precision, layers[0], step, par),
        *entry_ops(frame),
        *later,
        pipeline_op(frame),
        *exit_ops(frame),
    )
    return Graph(ops, len(spec.layers), spec.notes)


def encoder_stage(
    spec: ModelSpec, precision: Precision, layers: Layers, step: Step, par: Parallelism
) -> Ops:
    """The encoder's pass over the prompts of a step; sequences that generate do not run it."""
    inner = spec.encoder
    assert inner is not None
    groups = tuple(replace(g, new_tokens=encoded_input(g).fresh) for g in step.groups)
    frame = DeviceFrame.for_step(inner, replace(precision, by_layer={}), Step(groups), par)
    made = flatten([layer_ops(layer, replace(frame, layers=at)) for layer, at in layers])
    entry = entry_ops(frame)
    if spec.shared_table:
        entry = (replace(entry[0], held_weight_bytes=0.0), *entry[1:])
    return tuple(on_first_stage(op, ENCODER) for op in (*entry, *made, *exit_ops(frame)))


def on_first_stage(op: Op, module: str) -> Op:
    """An operator that runs before a decoder, with its name and path."""
    return replace(
        op,
        name=f"{module}_{op.name}",
        module=f"{module}.{op.module}",
        layers=(),
        repeat=op.count,
        stage="first",
    )


def encoded_input(group: Group) -> EncodedInput:
    """The encoder output that a group's decoder attends to, and the part that this step encodes."""
    context = number(group.cached_tokens)
    whole = np.where(group.generates, context, group.new_tokens + context)
    prompt = number(group.prompt)
    tokens = np.where(prompt > 0, prompt, whole)
    return EncodedInput(tokens, np.where(group.generates, 0.0, group.new_tokens))


def _decoders_own(group: Group, start: float) -> Group:
    """The decoder's part of a group: start or generated tokens, and their cache."""
    context = number(group.cached_tokens)
    tokens: Num = encoded_input(group).tokens
    generated = start + np.maximum(context - tokens, 0.0)
    return replace(
        group,
        new_tokens=np.where(group.generates, group.new_tokens, start),
        cached_tokens=np.where(group.generates, generated, 0.0),
    )
