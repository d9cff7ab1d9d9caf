"""Mixtures of formats by tensor: llama.cpp's own sizes of its quantised Llama 3.1 8B."""

from collections import Counter

import pytest

import model_registry
from genz_core.graphs import Model
from genz_core.types import Parallelism, Step
from model_registry.quantization.gguf_mixtures import MIXTURES
from model_registry.reports.symbolic import graph_total

LLAMA = "meta-llama/Llama-3.1-8B"
#: Bits per weight: ggml-org/llama.cpp, tools/quantize/README.md (its table lacks Q3_K_M).
BITS = {
    **{"q2_k": 3.1593, "q3_k_s": 3.6429, "q3_k_l": 4.2979, "iq4_xs": 4.4597, "iq4_nl": 4.6818},
    **{"q4_k_s": 4.6672, "q4_k_m": 4.8944, "q5_k_s": 5.5704, "q5_k_m": 5.7036},
    **{"q6_k": 6.5633, "q8_0": 8.5008},
}


def held_bytes(model: Model) -> float:
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    return float(graph_total(graph, "held_weight_bytes"))


@pytest.mark.parametrize("name", BITS)
def test_a_mixture_takes_the_bits_that_llama_cpp_states(name: str) -> None:
    """Norms have 32 bits in its files and 16 here: 0.0005 bits per weight."""
    model = model_registry.load(LLAMA, weights=name)
    bits = 8.0 * held_bytes(model) / model.parameters
    assert bits == pytest.approx(BITS[name], abs=0.0006)


def test_the_layers_with_more_bits_are_the_first_and_last_eighth_and_every_third_between() -> None:
    precision = model_registry.load(LLAMA, weights="q4_k_m").precision
    wider = [layer for layer in range(32) if precision.weight("mlp.down", layer) == "q6_k"]
    assert wider == [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31]
    assert precision.weight("attention.v", 6) == precision.weight("lm_head") == "q6_k"
    assert precision.weight("attention.q", 6) == precision.weight("embedding") == "ggml_q4_k"
    assert precision.weight("router") == "bf16"


def test_values_in_another_format_are_a_product_apart() -> None:
    graph = model_registry.load(LLAMA, weights="q4_k_m").graph(Step.decode(1, 1), Parallelism())
    found = Counter((op.name, op.weights) for op in graph.ops if "proj" in op.name)
    assert {("qk_proj", "ggml_q4_k"), ("v_proj", "q6_k"), ("qkv_proj", "ggml_q4_k")} <= set(found)
    sizes = {op.name: float(op.held_weight_bytes) for op in graph.ops if op.layers}
    assert sizes["qk_proj"] == pytest.approx(4096 * 5120 * 4.5 / 8)
    assert sizes["v_proj"] == pytest.approx(4096 * 1024 * 6.5633 / 8)


def test_a_tied_table_has_the_type_of_the_head() -> None:
    precision = model_registry.load("Qwen/Qwen3-0.6B", weights="q4_k_m").precision
    assert precision.weight("embedding") == precision.weight("lm_head") == "q6_k"


def test_rows_that_no_block_of_256_divides_take_blocks_of_32() -> None:
    """Qwen2.5-0.5B has a width of 896, 3.5 blocks: its Q4_K_M files contain Q5_0 and Q8_0."""
    precision = model_registry.load("Qwen/Qwen2.5-0.5B", weights="q4_k_m").precision
    assert precision.weight("attention.q", 4) == "q5_0"
    assert precision.weight("attention.v", 0) == precision.weight("lm_head") == "q8_0"
    assert precision.weight("mlp.down", 4) == "ggml_q4_k"  # rows of 4,864: 19 blocks


def test_eight_experts_keep_keys_and_values_in_eight_bits() -> None:
    precision = model_registry.load("mistralai/Mixtral-8x7B-v0.1", weights="q4_k_m").precision
    assert precision.weight("attention.k", 4) == precision.weight("attention.v", 4) == "q8_0"
    assert precision.weight("attention.o", 4) == "ggml_q5_k"


def test_experts_count_the_format_of_each_of_their_matrices() -> None:
    model = model_registry.load("Qwen/Qwen3-30B-A3B", weights="q4_k_m")
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    elements = 3.0 * 2048 * 768 * 128
    bits = {round(8 * float(op.held_weight_bytes) / elements, 3) for op in graph.ops
            if op.name == "experts"}  # fmt: skip
    assert bits == {4.5, round((2 * 4.5 + 6.5633) / 3, 3)}
    priced = {op.dims.get("weight_bytes", 4.5 / 8) for op in graph.ops if op.name == "experts"}
    assert sorted(priced) == pytest.approx([4.5 / 8, (2 * 4.5 + 6.5633) / 24])


def test_a_mixture_asked_after_another_takes_its_place() -> None:
    first = model_registry.load(LLAMA, weights="q4_k_m")
    second = model_registry.in_formats(first, weights="q6_k")
    assert second.precision.mixture == "q6_k"
    assert held_bytes(second) == held_bytes(model_registry.load(LLAMA, weights="q6_k"))


def test_every_mixture_prices_every_kind_of_layer() -> None:
    for model in ("deepseek-ai/DeepSeek-V2-Lite", "Zyphra/Zamba2-1.2B", "tiiuae/falcon-7b"):
        sizes = [held_bytes(model_registry.load(model, weights=name)) for name in MIXTURES]
        assert all(size > 0 for size in sizes)
