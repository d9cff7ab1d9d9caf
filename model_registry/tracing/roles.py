"""The role of a traced weight, from its module's name and its enclosing modules.

The roles are those of `model_registry.quantization.roles`; a role determines the number format of a
weight and how tensor parallelism divides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from model_registry.tracing.calls import Split

#: Leaf names of projections inside an attention module.
_ATTENTION: Mapping[str, str] = {
    "q_a": r"q_a_proj|wq_a|q_down_proj",
    "q_b": r"q_b_proj|wq_b|q_up_proj",
    "kv_a": r"kv_a_proj.*|wkv_a|kv_down_proj|kv_proj|wkv",
    "kv_b": r"kv_b_proj|wkv_b|kv_up_proj|k_b_proj|v_b_proj",
    "o": r"(o|out|o_a|o_b|c)_proj|wo|wo_a|wo_b|dense|output|out_lin|proj_out|proj|linear_out",
    "qkv": r"qkv_proj|query_key_value|c_attn|Wqkv|qkv|in_proj|att_proj",
    "q": r"q_proj|wq|query|q_lin|q",
    "k": r"k_proj|wk|key|k_lin|k",
    "v": r"v_proj|wv|value|v_lin|v",
    "gate": r"gate_proj|g_proj|gate",
}
_DOWN = re.compile(
    r"down_proj|w2|fc2|fc_out|c_proj|dense_4h_to_h|wo|output_linear|linear2|proj_down|ff_out|"
    r"output_proj|out_proj|value|lin2"
)
_ROUTER = re.compile(r"gate|router|classifier|shared_expert_gate|router_proj|wg")
_SHARED = re.compile(r"shared_expert|shared_mlp|residual_mlp")
_LINEAR = re.compile(r"[Dd]elta|[Ll]inearAttn|LinearAttention|LightningAttention|mLSTM|RWKV|Rwkv")

COLUMN = frozenset({"attention.q", "attention.k", "attention.v", "attention.qkv", "attention.q_b",
    "attention.kv_b", "attention.gate", "linear_attention.in", "ssm.in", "mlp.up",
    "shared_experts.up", "lm_head"})  # fmt: skip
ROW = frozenset({"attention.o", "linear_attention.out", "ssm.out", "mlp.down",
    "shared_experts.down"})  # fmt: skip


def split_of(role: str, path: str = "") -> Split:
    """How tensor parallelism divides a weight: "column", "row" or "none" (replicated).

    Projections into and out of the experts' narrower space are replicated: every device routes.
    """
    if "latent_proj" in path:
        return "none"
    if role in COLUMN:
        return "column"
    return "row" if role in ROW else "none"


def is_linear_attention(class_name: str) -> bool:
    """Whether a recurrent mixer has a matrix state per head, rather than a vector per channel."""
    return bool(_LINEAR.search(class_name))


def attention_role(path: str) -> str:
    """Role of a projection that sits in an attention module."""
    if "indexer" in path:
        return "attention.indexer"
    if "compressor" in path:
        return "attention.kv_a"
    leaf = path.rpartition(".")[2]
    for role, pattern in _ATTENTION.items():
        if re.fullmatch(pattern, leaf):
            return f"attention.{role}"
    return "attention"


def mixer_role(path: str, class_name: str) -> str:
    """Role of a projection in a recurrent mixer."""
    group = "linear_attention" if is_linear_attention(class_name) else "ssm"
    leaf = path.rpartition(".")[2]
    return (
        f"{group}.out"
        if re.fullmatch(r"o_proj|out_proj|output|linear_out", leaf)
        else (f"{group}.in")
    )


def mlp_role(path: str, features: int, width: int) -> str:
    """Role of a projection from `width` to `features` outside attention."""
    leaf = path.rpartition(".")[2]
    if _ROUTER.fullmatch(leaf) and features < width:
        return "router"
    group = "shared_experts" if _SHARED.search(path) else "mlp"
    return f"{group}.down" if _DOWN.fullmatch(leaf) else f"{group}.up"
