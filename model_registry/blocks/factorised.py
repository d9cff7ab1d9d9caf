"""Attention with factorised queries: down, norm, up; one projection of keys and values."""

from __future__ import annotations

from model_registry.blocks.attention import attention_over_groups, device_heads
from model_registry.blocks.frame import DeviceFrame, Ops, block_ops
from model_registry.spec import Attention, FactorisedAttention


@block_ops.register
def factorised_block(mixer: FactorisedAttention, frame: DeviceFrame) -> Ops:
    """Operators: qkv_down (replicated on every device), q_norm, q_up, rope, attention, o_proj."""
    plain = Attention(mixer.heads, mixer.kv_heads, mixer.head_dim)
    heads, hidden, where = device_heads(plain, frame), frame.spec.hidden, "attention"
    made = heads.query * mixer.head_dim
    width = mixer.query_rank + 2.0 * heads.kv * mixer.head_dim
    rank = mixer.query_rank
    return (
        frame.linear("qkv_down_proj", "attention.qkv", width, hidden, module=where),
        frame.small_norm("q_norm", frame.tokens, rank, where),
        frame.linear("q_up_proj", "attention.qkv", made, rank, module=where),
        *attention_over_groups(plain, heads, frame),
        frame.linear("o_proj", "attention.o", hidden, made, module=where),
    )
