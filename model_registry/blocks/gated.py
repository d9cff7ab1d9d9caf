"""Short convolutions, lightning attention, gated recurrences, and parallel mixers.

Their cache is a state of fixed size per sequence; heads and channels are split over tp.
"""

from __future__ import annotations

from genz_core.graphs import Op
from genz_core.operators import linear_attention, pointwise, rope, ssm_scan
from genz_core.symbolic.symbols import number
from genz_core.types import Num
from model_registry.blocks.frame import (
    DeviceFrame,
    Ops,
    block_ops,
    flatten,
    with_small_weights,
)
from model_registry.blocks.recurrence import causal_convolution
from model_registry.spec import (
    GatedRecurrence,
    LightningAttention,
    ShortConvolution,
    SideBySide,
)


@block_ops.register
def side_by_side_block(block: SideBySide, frame: DeviceFrame) -> Ops:
    """The operators of each mixer, one after another."""
    return flatten([block_ops(mixer, frame) for mixer in block.mixers])


def _gating(frame: DeviceFrame, name: str, width: Num, module: str, flops: float = 1.0) -> Op:
    """A factor on each channel of the device's tokens; flops: per element."""
    return pointwise(
        name, "activation", frame.tokens * width, flops, frame.plain, reads=2.0, **frame.at(module)
    )


@block_ops.register
def short_convolution_block(mixer: ShortConvolution, frame: DeviceFrame) -> Ops:
    """Operators: in_proj (two gates and the input), gate, conv1d, gate, out_proj."""
    channels, hidden = mixer.channels / number(frame.par.tp), frame.spec.hidden
    bias = mixer.bias
    return (
        frame.linear("in_proj", "ssm.in", 3.0 * channels, hidden, module="ssm", bias=bias),
        _gating(frame, "conv_gate", channels, "ssm"),
        causal_convolution(frame, channels, mixer.kernel, "ssm", bias=bias),
        _gating(frame, "conv_output_gate", channels, "ssm"),
        frame.linear("out_proj", "ssm.out", hidden, channels, module="ssm", bias=bias),
    )


@block_ops.register
def lightning_block(mixer: LightningAttention, frame: DeviceFrame) -> Ops:
    """Operators: qkv_proj and gate, norms, rope, recurrence, gated norm, out_proj."""
    module, hidden = "linear_attention", frame.spec.hidden
    heads = mixer.heads / number(frame.par.tp)
    width, dim = heads * mixer.head_dim, mixer.head_dim
    rules = [
        linear_attention(
            name,
            group.sequences,
            frame.local(group),
            heads,
            dim,
            dim,
            frame.plain,
            drafted=group.drafted,
            **frame.at(module),
        )
        for name, group in frame.numbered("linear_attention")
    ]
    turned = (rope("rope", frame.tokens, heads, heads, dim, frame.plain, **frame.at(module)),)
    sides = ("q_norm", "k_norm") if mixer.norm else ()
    bias = mixer.qkv_bias
    role = "linear_attention.in"
    return (
        frame.linear("qkv_proj", role, 3.0 * width, hidden, module=module, bias=bias),
        frame.linear("gate_proj", role, width, hidden, module=module),
        *(frame.small_norm(s, frame.tokens * heads, dim, module, weights=dim) for s in sides),
        *(turned if mixer.rope else ()),
        *rules,
        frame.small_norm("linear_attention_norm", frame.tokens, width, module),
        _gating(frame, "output_gate", width, module, 5.0),
        frame.linear("out_proj", "linear_attention.out", hidden, width, module=module),
    )


@block_ops.register
def gated_recurrence_block(mixer: GatedRecurrence, frame: DeviceFrame) -> Ops:
    """Operators: two inputs, conv1d, the gates, the recurrence, gate, out_proj; all with biases.

    The gates' weights are two block-diagonal matrices, with `heads` blocks of (width / heads)
    squared.
    """
    width, hidden = mixer.width / number(frame.par.tp), frame.spec.hidden
    block = mixer.width / mixer.heads
    scans = [
        ssm_scan(
            name,
            group.sequences,
            frame.local(group),
            width,
            1.0,
            frame.plain,
            drafted=group.drafted,
            **frame.at("ssm"),
        )
        for name, group in frame.numbered("ssm_scan")
    ]
    return (
        frame.linear("linear_y", "ssm.in", width, hidden, module="ssm", bias=True),
        frame.linear("linear_x", "ssm.in", width, hidden, module="ssm", bias=True),
        causal_convolution(frame, width, mixer.kernel, "ssm", bias=True),
        frame.linear("recurrence_gates", "ssm.in", 2.0 * width, block, module="ssm", bias=True),
        with_small_weights(scans[0], width),
        *scans[1:],
        _gating(frame, "recurrence_gate", width, "ssm", 5.0),
        frame.linear("out_proj", "ssm.out", hidden, width, module="ssm", bias=True),
    )
