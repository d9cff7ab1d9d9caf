"""The tensor roles that a precision distinguishes, and the paths of their modules in checkpoints.

A role is the function of a weight ("attention.q", "experts.down"); checkpoints name modules by
path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

#: Module paths of each role in a decoder layer: parents, and names below them.
_ATTENTION = ("self_attn", "attn", "attention", "mixer")
_MLP = ("mlp", "ffn", "feed_forward", "block_sparse_moe", "mixer")
_SHARED = ("shared_experts", "shared_expert", "shared_mlp")
_LINEAR = ("linear_attn", "self_attn", "kda", "mixer")
_SSM = ("mixer", "mamba")


def _under(parents: Iterable[str], *names: str) -> tuple[str, ...]:
    return tuple(f"{parent}.{name}" for parent in parents for name in names)


_SHARED_IN_MLP = tuple(f"{mlp}.{shared}" for mlp in _MLP for shared in _SHARED)
MODULES: Mapping[str, tuple[str, ...]] = {
    "attention.q": _under(_ATTENTION, "q_proj", "wq"),
    "attention.k": _under(_ATTENTION, "k_proj", "wk"),
    "attention.v": _under(_ATTENTION, "v_proj", "wv"),
    "attention.qkv": _under(_ATTENTION, "qkv_proj", "query_key_value", "c_attn", "Wqkv"),
    "attention.o": _under(_ATTENTION, "o_proj", "wo", "wo_b", "dense", "out_proj", "c_proj"),
    "attention.q_a": _under(_ATTENTION, "q_a_proj", "wq_a"),
    "attention.q_b": _under(_ATTENTION, "q_b_proj", "wq_b"),
    "attention.kv_a": _under(_ATTENTION, "kv_a_proj_with_mqa", "wkv_a", "wkv"),
    "attention.kv_b": _under(_ATTENTION, "kv_b_proj", "wkv_b"),
    "attention.indexer": _under(_ATTENTION, "indexer", "indexer.wq_b"),
    "linear_attention.in": _under(_LINEAR, "in_proj_qkv", "in_proj_qkvz", "q_proj"),
    "linear_attention.out": _under(_LINEAR, "out_proj", "o_proj"),
    "ssm.in": _under(_SSM, "in_proj"),
    "ssm.out": _under(_SSM, "out_proj"),
    "mlp.up": _under(_MLP, "gate_proj", "up_proj", "gate_up_proj", "w1", "fc1", "c_fc"),
    "mlp.down": _under(_MLP, "down_proj", "w2", "fc2", "c_proj"),
    "experts.up": _under(_MLP, "experts.0.gate_proj", "experts.0.up_proj", "experts.0.w1"),
    "experts.down": _under(_MLP, "experts.0.down_proj", "experts.0.w2"),
    "shared_experts.up": _under(_SHARED_IN_MLP, "gate_proj", "up_proj", "w1"),
    "shared_experts.down": _under(_SHARED_IN_MLP, "down_proj", "w2"),
    "router": _under(_MLP, "gate", "router"),
}
#: Gemma-4 has a dense MLP parallel to its experts, so `mlp` is not the experts' parent there.
MODULES_OF_TYPE: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "gemma4": {
        "experts.up": ("experts.0.gate_proj",),
        "experts.down": ("experts.0.down_proj",),
        "router": ("router",),
    },
}
ENDS: Mapping[str, tuple[str, ...]] = {
    "embedding": ("embed_tokens", "embeddings", "embed", "wte"),
    "lm_head": ("lm_head", "head", "output"),
    "vision": ("visual", "vision_tower", "vision_model"),
    "mtp": ("mtp", "mtp.layers.0"),
}
#: Roles that stay in 16 bits unless a checkpoint names them, as in engines.
KEPT = ("router", "embedding", "lm_head", "vision")
GROUPS = ("attention", "linear_attention", "ssm", "mlp", "experts", "shared_experts")
