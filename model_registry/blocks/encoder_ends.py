"""Input and output of encoders: convolutions over sound, and heads."""

from __future__ import annotations

from dataclasses import replace

from genz_core.graphs import Op
from genz_core.operators import activation, convolution, embedding, gemm
from model_registry.blocks.frame import DeviceFrame, Ops, with_small_weights
from model_registry.spec import HeadProjection, SoundInput


def sound_ops(frame: DeviceFrame, sound: SoundInput) -> Ops:
    """Operators from a spectrogram to vectors, replicated on every device, positions included.

    The first convolution keeps the spectrogram's frames, two per token; the second halves their
    number.
    """
    hidden, frames, where = frame.spec.hidden, 2.0 * frame.tokens, frame.at("embedding")
    types = frame.types("embedding")
    shapes = (("sound_conv_1", frames, sound.bands), ("sound_conv_2", frame.tokens, hidden))
    ops: list[Op] = []
    for name, positions, inputs in shapes:
        made = convolution(name, positions, hidden, inputs, sound.kernel, types, **where)
        ops.append(with_small_weights(made, hidden))
        ops.append(activation(f"{name}_act", positions, hidden, frame.plain, **where))
    rows = frame.spec.positions
    return (
        *ops,
        embedding("position_embedding", frame.tokens, rows, hidden, frame.plain, **where),
    )


def encoder_head_ops(frame: DeviceFrame) -> Ops:
    """The final norm and the projections that an encoder's class names, on every device."""
    ops: list[Op] = []
    if frame.spec.final_norm:
        ops.append(frame.norm("final_norm", "head"))
    for head in frame.spec.heads:
        ops += _projection(head, frame)
    return tuple(ops)


def _projection(head: HeadProjection, frame: DeviceFrame) -> Ops:
    rows = frame.tokens if head.each == "token" else frame.sequences
    types, where = frame.types("lm_head"), frame.at("head")
    made = gemm(head.name, rows, head.outputs, head.inputs, types, bias=head.bias, **where)
    if head.tied:
        kept = head.outputs * types.a if head.bias else 0.0
        made = replace(made, held_weight_bytes=kept)
    ops = [made]
    if head.activation:
        ops.append(
            activation(f"{head.name}_act", rows, head.outputs, frame.plain, **frame.at("head"))
        )
    if head.norm:
        twice = 2.0 if frame.spec.norm == "layer" else 1.0
        ops.append(
            frame.small_norm(
                f"{head.name}_norm", rows, head.outputs, "head", weights=twice * head.outputs
            )
        )
    return tuple(ops)
