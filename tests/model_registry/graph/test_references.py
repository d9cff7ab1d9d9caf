"""FLOPs and bytes compared with others' references and with real execution."""

import json
from pathlib import Path
from typing import Any

import pytest

import model_registry
from genz_core.graphs import Graph, Op
from genz_core.types import Group, Parallelism, Step
from tests.rules import for_every

GOLDEN = Path(__file__).parents[2] / "golden" / "tra_references.json"
CASES: list[dict[str, Any]] = json.loads(GOLDEN.read_text())["cases"]


def step_of(case: dict[str, Any]) -> Step:
    """The case's queries; a list shorter than their number is repeated."""
    repeats = case["queries"] // len(case["input_tokens"])
    pairs = zip(case["input_tokens"], case["cached_tokens"], strict=True)
    return Step(tuple(Group(repeats, new, cached) for new, cached in pairs))


def one_run(graph: Graph, name: str) -> list[Op]:
    """Operators of that name in the first layer that has it, one per group of the step."""
    found = [op for op in graph.ops if op.name == name or op.name.rstrip("_123456789") == name]
    return [op for op in found if op.layers == found[0].layers]


def flops(graph: Graph, name: str) -> float:
    return float(sum(op.flops for op in one_run(graph, name)))


@for_every(CASES)
def test_operators_are_those_of_the_corrected_references(case: dict[str, Any]) -> None:
    model = model_registry.load(case["config"])
    graph, expected = model.graph(step_of(case), Parallelism()), case["reference"]
    gated = "act_mul" if case["config"]["model_type"] == "llama" else "shared_experts_act_mul"
    assert flops(graph, "qkv_proj") == expected["QKV_Proj_flops_2mnk"]
    assert flops(graph, "o_proj") == expected["O_Proj_flops_2mnk"]
    assert flops(graph, "attention") == expected["SDPA_flops_causal_exact"]
    assert flops(graph, "lm_head") == expected["LMHead_flops_last_token_only"]
    assert flops(graph, gated) == expected["ActMul_flops_5_per_elem"]
    held = sum(float(op.held_kv_bytes) * op.count for op in graph.ops)
    assert held == expected["kv_cache_bytes_total"]
    attention = one_run(graph, "attention")
    read = sum(float(op.input_bytes + op.kv_read_bytes) for op in attention)
    assert read == expected["SDPA_qkv_read_bytes"]


# ------------------------------------------------------------------------------- execution

TINY: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "vocab_size": 128,
    "head_dim": 16,
    "max_position_embeddings": 64,
}
EXPERTS: dict[str, Any] = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2}
EXECUTED: list[tuple[str, dict[str, Any]]] = [
    ("llama", {}),
    ("qwen2", {}),
    ("qwen3", {}),
    ("gemma2", {}),
    ("gemma3_text", {}),
    ("olmo2", {}),
    ("cohere", {}),
    ("starcoder2", {}),
    ("phi", {"num_key_value_heads": 4}),
    ("gpt_neox", {"num_key_value_heads": 4}),
    ("mixtral", EXPERTS),
    ("qwen3_moe", {**EXPERTS, "moe_intermediate_size": 32}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("model_type", "more"), EXECUTED)
def test_products_are_those_that_a_real_model_executes(
    model_type: str, more: dict[str, Any]
) -> None:
    """Random weights, eager attention, on the CPU: every multiply-add of a prompt is counted.

    The counter counts the full square of attention, and no biases.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from torch.utils.flop_counter import FlopCounterMode

    config = transformers.AutoConfig.for_model(model_type, **{**TINY, **more})
    real = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    if "num_experts" in more:
        real.set_experts_implementation("eager")
    tokens = torch.randint(0, 128, (2, 24))
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        real.eval()(tokens, logits_to_keep=1, use_cache=False)

    model = model_registry.load(json.loads(config.to_json_string(use_diff=False)))
    graph = model.graph(Step.prefill(2, 24), Parallelism())
    square = 2 * 2 * 2 * 4 * 2 * 24 * 24 * 16  # products, layers, FLOPs, heads, batch, pairs, width
    assert _products(graph) + square == counter.get_total_flops()


def _products(graph: Graph) -> float:
    dense = [op for op in graph.ops if op.kind == "gemm"]
    banks = [op for op in graph.ops if op.kind == "moe"]
    without_bias = sum(2.0 * op.dims["m"] * op.dims["n"] * op.dims["k"] * op.count for op in dense)
    return float(without_bias + sum(op.flops * op.count for op in banks))
