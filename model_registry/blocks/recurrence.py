"""Recurrences: Mamba, Mamba 2, Gated DeltaNet, Kimi delta attention.

Their cache is a state of fixed size per sequence.  Heads and channels are split over tp; inputs
that each head needs from all channels (Mamba's time step, B and C) are summed over tp.
"""

from __future__ import annotations

from genz_core.graphs import Op
from genz_core.operators import all_reduce, convolution, linear_attention, ssm_scan
from genz_core.symbolic.symbols import number
from genz_core.types import Num
from model_registry.blocks.frame import (
    DeviceFrame,
    Ops,
    block_ops,
    message_bytes,
    with_small_weights,
)
from model_registry.spec import DeltaNet, Mamba, Mamba2


def causal_convolution(
    frame: DeviceFrame, channels: Num, kernel: int, module: str, *, bias: bool = False
) -> Op:
    """A causal depthwise convolution; its last kernel - 1 inputs are part of the state."""
    op = convolution(
        "conv1d",
        frame.tokens,
        channels,
        channels,
        float(kernel),
        frame.plain,
        groups=channels,
        state_sequences=frame.sequences,
        **frame.at(module),
    )
    return with_small_weights(op, channels) if bias else op


def _scans(frame: DeviceFrame, channels: Num, state: int, weights: Num) -> Ops:
    """One scan for each group of the step; weights: of its decay rates, biases and skips."""
    ops = [
        ssm_scan(
            name,
            group.sequences,
            frame.local(group),
            channels,
            float(state),
            frame.plain,
            drafted=group.drafted,
            **frame.at("ssm"),
        )
        for name, group in frame.numbered("ssm_scan")
    ]
    return (with_small_weights(ops[0], weights), *ops[1:])


@block_ops.register
def mamba_block(mixer: Mamba, frame: DeviceFrame) -> Ops:
    """Operators: in_proj, conv1d, x_proj (time step, B, C), dt_proj, scan, out_proj."""
    inner = mixer.inner / number(frame.par.tp)
    hidden, small = frame.spec.hidden, mixer.rank + 2 * mixer.state
    step = frame.linear("dt_proj", "ssm.in", inner, mixer.rank, module="ssm", bias=True)
    parts = message_bytes(frame.tokens, small)
    return (
        frame.linear("in_proj", "ssm.in", 2.0 * inner, hidden, module="ssm", bias=mixer.bias),
        causal_convolution(frame, inner, mixer.kernel, "ssm", bias=mixer.conv_bias),
        frame.linear("x_proj", "ssm.in", small, inner, module="ssm"),
        all_reduce("ssm_input_all_reduce", parts, frame.par.tp, **frame.at("ssm")),
        *_step_norms(mixer, frame),
        step,
        *_scans(frame, inner, mixer.state, inner * (mixer.state + 1.0)),
        frame.linear("out_proj", "ssm.out", hidden, inner, module="ssm", bias=mixer.bias),
    )


def _step_norms(mixer: Mamba, frame: DeviceFrame) -> Ops:
    """Norms of the time step, B and C, in one kernel."""
    if not mixer.norms:
        return ()
    width = mixer.rank + 2 * mixer.state
    weights = width if mixer.norms == "rms" else 0
    return (frame.small_norm("ssm_norm", frame.tokens, width, "ssm", weights=weights),)


@block_ops.register
def mamba2_block(mixer: Mamba2, frame: DeviceFrame) -> Ops:
    """Operators: in_proj (gate, x, B, C, dt), conv1d, scan, gated norm, out_proj."""
    tp = number(frame.par.tp)
    inner, heads, hidden = mixer.inner / tp, mixer.heads / tp, frame.spec.hidden
    groups = frame.shared_heads(mixer.groups)
    convolved = inner + 2.0 * groups * mixer.state
    width = inner + convolved + heads
    return (
        frame.linear("in_proj", "ssm.in", width, hidden, module="ssm", bias=mixer.bias),
        causal_convolution(frame, convolved, mixer.kernel, "ssm", bias=mixer.conv_bias),
        *_scans(frame, inner, mixer.state, 3.0 * heads),
        *((frame.small_norm("ssm_norm", frame.tokens, inner, "ssm"),) if mixer.gated_norm else ()),
        frame.linear("out_proj", "ssm.out", hidden, inner, module="ssm", bias=mixer.bias),
    )


@block_ops.register
def delta_block(mixer: DeltaNet, frame: DeviceFrame) -> Ops:
    """Operators: projections, conv1d, delta rule, gated norm of each head, out_proj."""
    tp = number(frame.par.tp)
    values, heads, hidden = mixer.values / tp, mixer.value_heads / tp, frame.spec.hidden
    mixed = (2.0 * mixer.keys + mixer.values) / tp
    biases = mixer.keys / tp if mixer.gate_rank else heads
    norm = frame.small_norm(
        "linear_attention_norm",
        frame.tokens * heads,
        mixer.value_dim,
        "linear_attention",
        weights=mixer.value_dim,
    )
    return (
        *_delta_inputs(mixer, frame, mixed, values, heads),
        causal_convolution(frame, mixed, mixer.kernel, "linear_attention"),
        *matrix_states(frame, heads, mixer.key_dim, mixer.value_dim, heads + biases),
        norm,
        frame.linear("out_proj", "linear_attention.out", hidden, values, module="linear_attention"),
    )


def _delta_inputs(mixer: DeltaNet, frame: DeviceFrame, mixed: Num, values: Num, heads: Num) -> Ops:
    """Projections to queries, keys, values, output gate, write strength and decay of every head.

    A low-rank gate is projected down on every device, and up to the device's heads.
    """
    hidden, role, module = frame.spec.hidden, "linear_attention.in", "linear_attention"

    def linear(name: str, n: Num, k: Num) -> Op:
        return frame.linear(name, role, n, k, module=module)

    full_gate = 0.0 if mixer.output_rank else values
    decays = heads if mixer.gate_rank == 0 else 0.0
    ops = [
        linear("in_proj_qkvz", mixed + full_gate, hidden),
        linear("in_proj_ba", heads + decays, hidden),
    ]
    if mixer.gate_rank:
        ops.append(linear("decay_a_proj", mixer.gate_rank, hidden))
        ops.append(linear("decay_b_proj", mixer.keys / frame.par.tp, mixer.gate_rank))
    if mixer.output_rank:
        ops.append(linear("gate_a_proj", mixer.output_rank, hidden))
        ops.append(linear("gate_b_proj", values, mixer.output_rank))
    return tuple(ops)


def matrix_states(
    frame: DeviceFrame, heads: Num, key_dim: int, value_dim: int, weights: Num
) -> Ops:
    """One recurrence of matrix states for each group of the step; weights: of its learned vectors,
    such as decay rates and biases.
    """
    ops = [
        linear_attention(
            name,
            group.sequences,
            frame.local(group),
            heads,
            key_dim,
            value_dim,
            frame.plain,
            drafted=group.drafted,
            **frame.at("linear_attention"),
        )
        for name, group in frame.numbered("linear_attention")
    ]
    return (with_small_weights(ops[0], weights), *ops[1:])
