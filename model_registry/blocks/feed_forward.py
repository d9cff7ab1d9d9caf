"""Dense feed-forward, layer input, mixture of experts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.graphs import Op
from genz_core.models.degrees import stride_of
from genz_core.operators import (
    Experts,
    Routing,
    activation,
    all_gather,
    all_to_all,
    gated_activation,
    gemm,
    moe,
    places_reached,
    pointwise,
    reduce_scatter,
    route,
)
from genz_core.symbolic.symbols import number
from genz_core.types import Mask, Num
from model_registry.blocks.frame import (
    MESSAGE_BYTES,
    DeviceFrame,
    Ops,
    block_ops,
    message_bytes,
    with_small_weights,
)
from model_registry.spec import AlternatingUpdate, FeedForward, LayerInput, Mixture, ShortcutMixture

#: Bytes per element that is dispatched to experts, with its block scales, by the experts'
#: arithmetic.
_SENT_BYTES = {"fp8": 1.0 + 4.0 / 128.0, "int8": 1.0 + 4.0 / 128.0, "fp4": 0.5 + 1.0 / 16.0}


@block_ops.register
def feed_forward_block(block: FeedForward, frame: DeviceFrame) -> Ops:
    """Operators: up (and gate), activation, down; split over tp, replicated on every attention
    rank.
    """
    return _dense("mlp", "mlp", block, frame)


def _dense(module: str, role: str, block: FeedForward, frame: DeviceFrame, prefix: str = "") -> Ops:
    width = frame.part(block.intermediate)
    hidden, bias = frame.spec.hidden, block.bias
    gated = 2.0 if block.gated else 1.0
    up_name = "gate_up_proj" if block.gated else "up_proj"
    act = gated_activation if block.gated else activation
    name = "act_mul" if block.gated else "act"
    acted = act(f"{prefix}{name}", frame.tokens, width, frame.plain, **frame.at(module))
    normed: Ops = ()
    if block.inner_norm:
        normed = (frame.small_norm(f"{prefix}inner_norm", frame.tokens, width, module),)
    if block.activation_weights:
        acted = with_small_weights(acted, float(block.activation_weights))
    return (
        frame.linear(
            f"{prefix}{up_name}", f"{role}.up", gated * width, hidden, module=module, bias=bias
        ),
        acted,
        *normed,
        frame.linear(f"{prefix}down_proj", f"{role}.down", hidden, width, module=module, bias=bias),
    )


@block_ops.register
def layer_input_block(block: LayerInput, frame: DeviceFrame) -> Ops:
    """Operators: a gate of the stream on the layer's input, back to the stream's width, norm."""
    module, hidden = "layer_input", frame.spec.hidden
    gate = frame.linear("layer_input_gate", "mlp.up", block.width, hidden, module=module)
    act = gated_activation(
        "layer_input_mul", frame.tokens, block.width, frame.plain, **frame.at(module)
    )
    back = frame.linear("layer_input_proj", "mlp.down", hidden, block.width, module=module)
    return (gate, act, back, frame.norm("layer_input_norm", module))


@block_ops.register
def alternating_block(block: AlternatingUpdate, frame: DeviceFrame) -> Ops:
    """Operators: router of the copies with its norm, prediction, low-rank addition, correction."""
    module, hidden = "streams", frame.spec.hidden
    count, rank = block.streams, block.rank

    def linear(name: str, n: float, k: float) -> Op:
        return frame.linear(name, "router", n, k, module=module)

    mixed = pointwise(
        "stream_mix",
        "residual",
        frame.stream_tokens * hidden * count,
        2.0 * (count + 1),
        frame.plain,
        reads=2.0 + 1.0 / count,
        writes=2.0,
        **frame.at(module),
    )
    return (
        frame.norm("stream_norm", module, first=True),
        linear("stream_router", count, hidden),
        linear("stream_prediction", count * count, count),
        linear("stream_correction", count, count),
        linear("laurel_down_proj", rank, hidden),
        linear("laurel_up_proj", hidden, rank),
        frame.norm("laurel_norm", module, first=True),
        with_small_weights(mixed, float(hidden)),
    )


@block_ops.register
def shortcut_block(block: ShortcutMixture, frame: DeviceFrame) -> Ops:
    """The operators of the mixture, and their own sum over tp."""
    return (*mixture_block(block.mixture, frame), *frame.summed("shortcut_all_reduce", "moe"))


@block_ops.register
def mixture_block(block: Mixture, frame: DeviceFrame) -> Ops:
    """Operators: router, route, dispatch, experts, combine, shared experts.

    The experts span all dp ranks: expert parallelism splits them by number, moe_tp by width.
    Tokens reach them by an all-gather over dp or an all-to-all over ep, whichever moves fewer
    bytes; sums over tp are part of the layer's all-reduce.
    """
    return (
        *_router(block, frame),
        *_latent(block, frame, "latent_down_proj"),
        *_dispatch(block, frame),
        _experts(block, frame),
        *_combine(block, frame),
        *_latent(block, frame, "latent_up_proj"),
        *_shared(block, frame),
    )


def _router(block: Mixture, frame: DeviceFrame) -> Ops:
    """Router and choice of experts for the rank's tokens; replicated on every device."""
    where, hidden = frame.at("moe"), frame.spec.hidden
    choices = block.experts + block.idle_choices
    logits = frame.linear("router", "router", choices, hidden, module="moe")
    small = block.router_bias * block.experts + block.router_norm * hidden
    small += block.expert_scale * block.experts
    choice = route("route", frame.tokens, choices, frame.plain, **where)
    return (with_small_weights(logits, float(small)) if small else logits, choice)


def _width(block: Mixture, frame: DeviceFrame) -> int:
    """Width of the tokens that enter the routed experts."""
    return block.latent or frame.spec.hidden


def _latent(block: Mixture, frame: DeviceFrame, name: str) -> Ops:
    """Projections into and out of the experts' narrower space."""
    if not block.latent:
        return ()
    hidden, down = frame.spec.hidden, name == "latent_down_proj"
    n, k = (block.latent, hidden) if down else (hidden, block.latent)
    op = frame.linear(
        name, "shared_experts.up" if down else "shared_experts.down", n, k, module="moe"
    )
    normed = not down and block.latent_norm
    return (
        (frame.small_norm("latent_norm", frame.tokens, block.latent, "moe"), op)
        if normed
        else (op,)
    )


def _experts(block: Mixture, frame: DeviceFrame) -> Op:
    """The device's part of the routed experts, for the tokens of all ranks."""
    par = frame.par
    ranks = number(par.ep)
    local = np.ceil((block.experts + number(par.redundant_experts)) / ranks)
    bank = Experts(
        total=local * ranks,
        local=local,
        top_k=block.reached,
        hidden=_width(block, frame),
        intermediate=block.intermediate / number(par.expert_tp),
        gated=block.gated,
        bias=block.bias,
    )
    up, down = frame.types("experts.up"), frame.types("experts.down")
    op = moe("experts", frame.of_all_ranks, bank, up, **frame.at("moe"))
    return op if up == down else _with_other_down(op, bank, up.w, down.w)


def _with_other_down(op: Op, bank: Experts, up: float, down: float) -> Op:
    """The operator with its weight bytes, if down projections have their own format."""
    average = ((bank.matrices - 1) * up + down) / bank.matrices
    return replace(
        op,
        weight_bytes=op.weight_bytes * average / up,
        held_weight_bytes=op.held_weight_bytes * average / up,
        dims={**op.dims, "weight_bytes": average},
    )


def _gathers(block: Mixture, frame: DeviceFrame) -> Mask:
    """Whether all ranks' tokens are gathered over dp, instead of an all-to-all over ep.

    The choice is whichever moves fewer bytes where ranks hold equally many tokens, since engines
    make it at their launch: a gather brings dp ranks' tokens everywhere; an all-to-all, for which a
    rank's tokens are split over its tp devices, sends them to at most top_k devices.
    """
    par = frame.par
    sent = np.minimum(block.reached, par.ep) / number(par.tp)
    return ~((number(par.ep) > 1) & (sent < number(par.dp)))


def _gathered(block: Mixture, frame: DeviceFrame) -> Num:
    """Messages of the all-gather over dp and of the reduce-scatter back [bytes]."""
    message = message_bytes(frame.of_all_ranks, _width(block, frame))
    return np.where((number(frame.par.dp) > 1) & _gathers(block, frame), message, 0.0)


def _exchange(name: str, element_bytes: float, block: Mixture, frame: DeviceFrame) -> Op:
    """The all-to-all to the experts' devices, or back from them.

    Tokens of prompts are sent once to each node that they are routed to, and once to each device
    there; generated tokens are sent directly to each of their experts, which is faster for few
    tokens.

    element_bytes: of a transferred element.
    Source: DeepEP's normal and low-latency kernels (docs/legacy.md of
    https://github.com/deepseek-ai/DeepEP).
    """
    par, groups = frame.par, (block.groups, block.chosen_groups)
    sends = (number(par.dp) > 1) & ~_gathers(block, frame)
    row = np.where(sends, _width(block, frame) * element_bytes / par.tp, 0.0)
    merged = row * (frame.tokens - frame.query_tokens)
    merged = merged * places_reached(block.reached, par.ep, *groups)
    direct = row * frame.query_tokens * np.minimum(block.reached, par.ep)
    where = {"stride": stride_of("ep", par), **frame.at("moe")}
    routing = Routing(merged, block.reached, *groups)
    return all_to_all(name, merged + direct, par.ep, routing, **where)


def _dispatch(block: Mixture, frame: DeviceFrame) -> Ops:
    """Send tokens to their experts; an all-to-all sends them in the format of the experts'
    products.

    A gather sends them in 16 bits, except for four-bit products: engines quantise before it.
    Source: TensorRT-LLM, tensorrt_llm/_torch/modules/fused_moe/fused_moe_cutlass.py, post-quant
    all-gather; vLLM, fused_moe/flashinfer_cutlass_prepare_finalize.py.
    """
    arithmetic = frame.types("experts.up").arithmetic
    sent = _SENT_BYTES.get(arithmetic, MESSAGE_BYTES)
    gathered = _gathered(block, frame) * (sent / MESSAGE_BYTES if arithmetic == "fp4" else 1.0)
    where = {"stride": frame.dp_stride, **frame.at("moe")}
    return (
        all_gather("moe_all_gather", gathered, frame.par.dp, **where),
        _exchange("moe_dispatch", sent, block, frame),
    )


def _combine(block: Mixture, frame: DeviceFrame) -> Ops:
    """Send the experts' results back to the tokens' devices, in 16 bits."""
    where = {"stride": frame.dp_stride, **frame.at("moe")}
    return (
        _exchange("moe_combine", MESSAGE_BYTES, block, frame),
        reduce_scatter("moe_reduce_scatter", _gathered(block, frame), frame.par.dp, **where),
    )


def _shared(block: Mixture, frame: DeviceFrame) -> Ops:
    """The shared experts as a dense feed-forward over every token, split over tp."""
    if not block.shared:
        return ()
    dense = FeedForward(block.shared, gated=block.shared_gated, bias=False)
    ops = _dense("moe.shared", "shared_experts", dense, frame, prefix="shared_experts_")
    if not block.shared_gate:
        return ops
    where = frame.at("moe.shared")
    score = gemm(
        "shared_experts_gate", frame.tokens, 1.0, frame.spec.hidden, frame.types("router"), **where
    )
    gate = pointwise(
        "shared_experts_scale",
        "activation",
        frame.tokens * frame.spec.hidden,
        1.0,
        frame.plain,
        **where,
    )
    return (*ops, score, gate)
