"""Small configs that the tracing tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from genz_core.graphs import Graph, Model
from genz_core.types import Parallelism, Step
from model_registry.reports.symbolic import graph_total

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 128,
    "max_position_embeddings": 256,
}
_MOE = {"num_local_experts": 4, "num_experts": 4, "num_experts_per_tok": 2}
_LATENT = {
    "num_key_value_heads": 4,
    "head_dim": 8,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
TINY: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {},
    "gemma2": {"query_pre_attn_scalar": 16},
    "olmo2": {},
    "phi3": {"pad_token_id": 0},
    "mixtral": _MOE,
    "qwen3_moe": {**_MOE, "moe_intermediate_size": 32},
    "gpt_oss": {**_MOE, "sliding_window": 128},
    "deepseek_v3": _LATENT,
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 256},
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64},
}


def tiny(model_type: str) -> dict[str, Any]:
    """A config of a few thousand parameters."""
    return {**BASE, **TINY[model_type], "model_type": model_type}


STEPS = {"prefill": Step.prefill(2.0, 3000.0), "decode": Step.decode(4.0, 5000.0)}


def facts(model: Model, step: Step) -> dict[str, float]:
    """Figures on which builder and trace must agree: those of the language model, which alone is
    traced.
    """
    graph: Graph = model.graph(step, Parallelism())
    graph = replace(graph, ops=tuple(op for op in graph.ops if op.module != "vision"))
    return {
        "gemm_flops": graph_total(graph, "flops", ("gemm", "moe")),
        "attention_flops": graph_total(graph, "flops", ("attention", "ssm")),
        "weight_bytes": graph_total(graph, "weight_bytes"),
        "held_weight_bytes": graph_total(graph, "held_weight_bytes"),
        "kv_read_bytes": graph_total(graph, "kv_read_bytes"),
        "kv_write_bytes": graph_total(graph, "kv_write_bytes"),
        "held_kv_bytes": graph_total(graph, "held_kv_bytes"),
    }
