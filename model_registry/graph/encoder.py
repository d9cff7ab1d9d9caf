"""The graph of an image encoder: from patches to image tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Graph, Op
from genz_core.operators import (
    Heads,
    activation,
    attention,
    gated_activation,
    gemm,
    pointwise,
    rope,
)
from genz_core.types import Group, Num, Parallelism, Precision, Step
from model_registry.blocks.frame import DeviceFrame, Ops, flatten, with_small_weights
from model_registry.graph.sam import sam_ops
from model_registry.spec import ModelSpec, Projection, VisionTower

#: Patches that the preceding stage joins into one.
_JOINED = 16.0


def encoder_graph(
    tower: VisionTower, precision: Precision, images: Num, patches: Num, par: Parallelism
) -> Graph:
    """The operators of one pass over `images` of `patches` patches each, on one of tp devices.

    Layers are split over tp like the decoder's, images over dp; a patch attends to all patches of
    its image or of its window.
    """
    body = ModelSpec("vision", "vision", tower.hidden, 1, (), norm=tower.norm)
    step = Step((Group(images, patches, 0.0),))
    frame = DeviceFrame.for_step(body, precision, step, Parallelism(tp=par.tp, dp=par.dp))
    before: Ops = ()
    if tower.before:
        before = sam_ops(tower.before, frame, float(np.max(patches)))
        joined = patches / _JOINED + tower.class_tokens
        step = Step((Group(images, joined, 0.0),))
        frame = DeviceFrame.for_step(body, precision, step, Parallelism(tp=par.tp, dp=par.dp))
    full = tower.full_layers if tower.window else tower.layers
    stacks = [(replace(frame, layers=tuple(range(full))), 0)] if full else []
    if tower.window:
        stacks.append((replace(frame, layers=tuple(range(full, tower.layers))), tower.window))
    behind = _without(frame, tower.padding or tower.class_tokens)
    ops = (
        *before,
        *_patches(tower, frame),
        *flatten([_layer(tower, stack, window) for stack, window in stacks]),
        *_ends(tower, frame),
        *flatten([_projection(part, at, behind) for at, part in enumerate(tower.projections)]),
    )
    return Graph(ops, tower.layers)


def _without(frame: DeviceFrame, patches: int) -> DeviceFrame:
    """The frame without that many patches of each view."""
    return replace(frame, tokens=frame.tokens - frame.sequences * patches)


def _patches(tower: VisionTower, frame: DeviceFrame) -> Ops:
    """Patch embedding, a convolution whose kernels do not overlap, and learned positions."""
    tokens, where = frame.tokens, frame.at("vision.patches")
    patch = gemm(
        "patch_embed",
        _without(frame, tower.blank or tower.class_tokens).tokens,
        tower.hidden,
        tower.patch,
        frame.types("vision"),
        bias=tower.patch_bias,
        **where,
    )
    ops: list[Op] = [replace(patch, kind="convolution")] if tower.patch else []
    if tower.positions:
        added = pointwise(
            "position_embedding",
            "residual",
            tokens * tower.hidden,
            1.0,
            frame.plain,
            reads=2.0,
            **where,
        )
        small = tower.positions + tower.class_tokens * tower.hidden + tower.separators
        ops.append(with_small_weights(added, small))
    return tuple(ops)


def _ends(tower: VisionTower, frame: DeviceFrame) -> Ops:
    """Norms before and after the stack of layers."""
    return tuple(
        frame.norm(f"encoder_norm_{at}", "vision", first=True)
        for at in range(1, tower.extra_norms + 1)
    )


def _layer(tower: VisionTower, frame: DeviceFrame, window: int) -> Ops:
    """Equal layers; window: number of patches that attend to each other, 0 for all of an image."""
    after = tower.norms == "both"
    first = frame.norm("input_norm", "vision.attention")
    return (
        with_small_weights(first, tower.scales * tower.hidden) if tower.scales else first,
        *_attention(tower, frame, window),
        *frame.summed("attention_all_reduce", "vision.attention"),
        *((frame.norm("attention_output_norm", "vision.attention", first=True),) if after else ()),
        frame.norm("post_attention_norm", "vision.mlp"),
        *_feed_forward(tower, frame),
        *frame.summed("mlp_all_reduce", "vision.mlp"),
        *((frame.norm("mlp_output_norm", "vision.mlp", first=True),) if after else ()),
    )


def _attention(tower: VisionTower, frame: DeviceFrame, window: int) -> Ops:
    heads, module = tower.heads / np.asarray(frame.par.tp, float), "vision.attention"
    width, where = heads * tower.head_dim, frame.at(module)
    shape = Heads(heads, heads, tower.head_dim, causal=False)
    (group,) = frame.groups
    sequences, tokens = group.sequences, group.new_tokens
    if window:
        sequences, tokens = sequences * tokens / window, float(window)
    rows = frame.tokens * heads
    own = width if tower.wide_norms else tower.head_dim
    normed = [
        frame.small_norm(name, rows, tower.head_dim, module, weights=own)
        for name in ("q_norm", "k_norm")
    ]
    return (
        frame.linear(
            "qkv_proj",
            "vision",
            3.0 * width,
            tower.hidden,
            module=module,
            bias=tower.bias and tower.qkv_bias,
        ),
        *(normed if tower.head_norms else ()),
        *(
            (rope("rope", frame.tokens, heads, heads, tower.head_dim, frame.plain, **where),)
            if tower.rope
            else ()
        ),
        attention(
            "attention",
            sequences,
            tokens,
            0.0,
            shape,
            frame.plain,
            cached=False,
            **where,
        ),
        frame.linear(
            "o_proj",
            "vision",
            tower.hidden,
            width,
            module=module,
            bias=tower.bias and tower.output_bias,
        ),
    )


def _feed_forward(tower: VisionTower, frame: DeviceFrame) -> Ops:
    width, module = tower.intermediate / np.asarray(frame.par.tp, float), "vision.mlp"
    up, act = ("gate_up_proj", gated_activation) if tower.gated else ("up_proj", activation)
    columns = width * (2.0 if tower.gated else 1.0)
    return (
        frame.linear(up, "vision", columns, tower.hidden, module=module, bias=tower.bias),
        act("act", frame.tokens, width, frame.plain, **frame.at(module)),
        frame.linear("down_proj", "vision", tower.hidden, width, module=module, bias=tower.bias),
    )


def _projection(part: Projection, at: int, frame: DeviceFrame) -> Ops:
    """Rows of joined patches projected to the language model's width, on every device."""
    rows, name = frame.tokens / part.patches, f"projection_{at + 1}"
    where, types = frame.at("vision.projection"), frame.types("vision")
    ops: list[Op] = []
    if part.norm:
        ops.append(
            frame.small_norm(
                f"{name}_norm", rows, part.inputs, "vision.projection", weights=part.norm
            )
        )
    last = part.hidden or part.inputs
    if part.hidden:
        columns = part.hidden * (2.0 if part.gated else 1.0)
        ops.append(gemm(f"{name}_in", rows, columns, part.inputs, types, bias=part.bias, **where))
        ops.append(activation(f"{name}_act", rows, part.hidden, frame.plain, **where))
    ops.append(gemm(f"{name}_out", rows, part.outputs, last, types, bias=part.bias, **where))
    return tuple(ops)
