"""A transformer block whose weights several layers share (Zamba2, arXiv:2411.15242)."""

from __future__ import annotations

from dataclasses import replace

from genz_core.graphs import Op
from genz_core.operators import gated_activation, residual, rope
from genz_core.symbolic.symbols import number
from model_registry.blocks.attention import attention_over_groups, device_heads
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops
from model_registry.spec import Attention, SharedTransformer


@block_ops.register
def shared_block(block: SharedTransformer, frame: DeviceFrame) -> Ops:
    """Operators: norm, attention and feed-forward with the layer's adapters, projection back."""
    mixer = Attention(block.heads, block.kv_heads, block.head_dim, rope=block.rope)
    hidden, width = frame.spec.hidden, 2 * frame.spec.hidden
    heads = device_heads(mixer, frame)
    qkv = (heads.query + 2.0 * heads.kv) * block.head_dim
    where = frame.at("attention")
    turned = rope("rope", frame.tokens, heads.query, heads.kv, block.head_dim, frame.plain, **where)
    shared = (
        frame.small_norm("input_norm", frame.tokens, width, "attention"),
        frame.linear("qkv_proj", "attention.qkv", qkv, width, module="attention"),
        frame.linear(
            "o_proj", "attention.o", hidden, heads.query * block.head_dim, module="attention"
        ),
        *_feed_forward(block, frame),
    )
    norm, project, out, *dense = (_held_once(op, block.owner) for op in shared)
    return (
        norm,
        project,
        *_attention_adapters(block, frame),
        *((turned,) if block.rope else ()),
        *attention_over_groups(mixer, heads, frame),
        out,
        *frame.summed("attention_all_reduce", "attention"),
        *dense,
        *_adapter("gate_up_adapter", "mlp.up", 2.0 * block.intermediate, hidden, block, frame),
        *frame.summed("mlp_all_reduce", "mlp"),
        frame.linear("shared_proj", "mlp.down", hidden, hidden, module="mlp"),
        residual("shared_residual", frame.tokens, hidden, frame.plain, **frame.at("mlp")),
    )


def _held_once(op: Op, owner: bool) -> Op:
    """`op` with its weights held by the first layer that shares them, and read in every layer."""
    return op if owner else replace(op, held_weight_bytes=0.0)


def _feed_forward(block: SharedTransformer, frame: DeviceFrame) -> Ops:
    width, hidden = block.intermediate / number(frame.par.tp), frame.spec.hidden
    return (
        frame.small_norm("post_attention_norm", frame.tokens, hidden, "mlp"),
        frame.linear("gate_up_proj", "mlp.up", 2.0 * width, hidden, module="mlp"),
        gated_activation("act_mul", frame.tokens, width, frame.plain, **frame.at("mlp")),
        frame.linear("down_proj", "mlp.down", hidden, width, module="mlp"),
    )


def _attention_adapters(block: SharedTransformer, frame: DeviceFrame) -> Ops:
    if not block.attention_adapters:
        return ()
    width, module = 2 * frame.spec.hidden, "attention"
    rank, tp = block.adapter_rank, number(frame.par.tp)
    return (
        frame.linear("qkv_adapter_a", "attention.qkv", 3.0 * rank, width, module=module),
        frame.linear("qkv_adapter_b", "attention.qkv", 3.0 * width / tp, rank, module=module),
    )


def _adapter(
    name: str, role: str, n: float, k: int, block: SharedTransformer, frame: DeviceFrame
) -> Ops:
    """An adapter's two products: to the rank on every device, then to the device's columns."""
    rank, columns = block.adapter_rank, n / number(frame.par.tp)
    return (
        frame.linear(f"{name}_a", role, rank, k, module="mlp"),
        frame.linear(f"{name}_b", role, columns, rank, module="mlp"),
    )
