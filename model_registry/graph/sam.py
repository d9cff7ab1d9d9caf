"""The first half of DeepSeek-OCR's encoder: SAM's layers over windows, then two convolutions.

Source: DeepSeek-OCR, arXiv:2510.18234, section 3.2; Segment Anything, arXiv:2304.02643, appendix A
"""

from __future__ import annotations

import math
from dataclasses import replace

from genz_core.graphs import Op
from genz_core.operators import Heads, activation, convolution, gemm, pointwise
from genz_core.operators import attention as attention_op
from genz_core.symbolic.symbols import number
from genz_core.types import Num
from model_registry.blocks.frame import DeviceFrame, Ops, with_small_weights
from model_registry.spec import SamStage


def sam_ops(stage: SamStage, frame: DeviceFrame, patches: float) -> Ops:
    """Operators of views of `patches` patches each, complete on every device of tp."""
    body = replace(frame.spec, hidden=stage.hidden)
    views = frame.sequences
    frame = replace(frame, spec=body, tokens=views * patches)
    side = round(math.sqrt(patches))
    wide = replace(frame, layers=tuple(range(stage.global_layers)))
    near = replace(frame, layers=tuple(range(stage.global_layers, stage.layers)))
    windows = math.ceil(side / stage.window) ** 2
    return (
        *_patches(stage, frame),
        *_layer(stage, wide, views, side),
        *_layer(stage, near, views * windows, stage.window),
        *_neck(stage, frame, views, side),
    )


def _patches(stage: SamStage, frame: DeviceFrame) -> Ops:
    where = frame.at("vision.patches")
    types, hidden = frame.types("vision"), stage.hidden
    patch = gemm("sam_patch_embed", frame.tokens, hidden, stage.patch, types, bias=True, **where)
    added = pointwise(
        "sam_position_embedding", "residual", frame.tokens * hidden, 1.0, frame.plain, reads=2.0,
        **where,
    )  # fmt: skip
    positions = stage.side**2 * hidden
    return replace(patch, kind="convolution"), with_small_weights(added, positions)


def _layer(stage: SamStage, frame: DeviceFrame, squares: Num, side: int) -> Ops:
    """Equal layers whose tokens attend within `squares` windows of side x side patches.

    Sides that windows do not divide are padded; attention and its projections process the padding.
    """
    if not frame.layers:
        return ()
    module, width = "vision.sam", stage.hidden
    inside = replace(frame, tokens=squares * side * side)
    rows = inside.tokens * stage.heads
    head = width // stage.heads
    table = (2 * (side if side == stage.window else stage.side) - 1) * head
    shape = Heads(stage.heads, stage.heads, head, causal=False)
    where, types = frame.at(module), frame.types("vision")
    distances = [
        with_small_weights(
            replace(
                gemm(f"sam_distance_{axis}", rows, side, head, frame.plain, **where),
                held_weight_bytes=0.0,
            ),
            table,
        )
        for axis in ("rows", "columns")
    ]
    return (
        frame.norm("sam_input_norm", module, first=True),
        inside.linear("sam_qkv_proj", "vision", 3.0 * width, width, module=module, bias=True),
        *distances,
        attention_op(
            "sam_attention", squares, float(side * side), 0.0, shape, frame.plain, cached=False,
            **where,
        ),
        inside.linear("sam_o_proj", "vision", width, width, module=module, bias=True),
        frame.norm("sam_mlp_norm", module),
        gemm("sam_up_proj", frame.tokens, stage.intermediate, width, types, bias=True, **where),
        activation("sam_act", frame.tokens, stage.intermediate, frame.plain, **where),
        gemm("sam_down_proj", frame.tokens, width, stage.intermediate, types, bias=True, **where),
    )  # fmt: skip


def _neck(stage: SamStage, frame: DeviceFrame, views: Num, side: int) -> Ops:
    """Convolutions to a narrower width, then with strides of two, each side halved twice."""
    where, types = frame.at("vision.neck"), frame.types("vision")
    first, second = stage.downsample
    steps = (
        ("neck_1", side, stage.neck, stage.hidden, 1, True),
        ("neck_2", side, stage.neck, stage.neck, 9, True),
        ("compress_1", math.ceil(side / 2), first, stage.neck, 9, False),
        ("compress_2", math.ceil(side / 4), second, first, 9, False),
    )
    ops: list[Op] = []
    for name, across, outputs, inputs, taps, normed in steps:
        places = number(views) * across * across
        ops.append(convolution(f"sam_{name}", places, outputs, inputs, taps, types, **where))
        if normed:
            ops.append(
                frame.small_norm(
                    f"sam_{name}_norm", places, outputs, "vision.neck", weights=2.0 * outputs
                )
            )
    return tuple(ops)
