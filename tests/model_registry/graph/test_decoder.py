"""Graphs of real models against figures computed or counted elsewhere."""

import numpy as np
import pytest

import model_registry
from genz_core.graphs import Graph, Model, Op
from genz_core.types import Group, Parallelism, Step
from model_registry.finding.catalog import shipped_models
from tests.model_registry.shared_models import built

ONE = Parallelism()


def total(graph: Graph, figure: str, *classes: str) -> float:
    """Sum of a figure over the whole model, for some operator classes or all."""
    chosen = (op for op in graph.ops if not classes or op.operator_class in classes)
    return float(sum(getattr(op, figure) * op.count for op in chosen))


def named(graph: Graph, name: str) -> list[Op]:
    return [op for op in graph.ops if op.name == name]


def cache_bytes(model: Model, tokens: float) -> float:
    return total(model.graph(Step.decode(1, tokens - 1), ONE), "held_kv_bytes")


# ------------------------------------------------------------------------------- known figures


def test_llama_8b_prefill_is_the_hand_formula() -> None:
    """Linear layers and the last token's head take 28.588 TFLOP, causal attention 1.1000 TFLOP at
    2,048.
    """
    graph = built("meta-llama/Llama-3.1-8B").graph(Step.prefill(1, 2048), ONE)
    layer = 4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336
    linear = 2 * 2048 * 32 * layer + 2 * 128256 * 4096
    assert total(graph, "flops", "gemm") == linear == pytest.approx(28.588e12, rel=1e-4)
    attention = 32 * 4 * 32 * 128 * 2048 * 2049 / 2
    assert total(graph, "flops", "attention") == attention == pytest.approx(1.1e12, rel=1e-3)


def test_deepseek_v3_decode_is_absorbed() -> None:
    """108.1 GFLOP per token at a context of 2,048; re-expanding the cache would take 4,275."""
    graph = built("deepseek-ai/DeepSeek-V3").graph(Step.decode(1, 2047), ONE)
    work = total(graph, "flops", "gemm", "attention", "moe")
    assert work == pytest.approx(108.1e9, rel=1e-3)
    assert all(not np.any(op.flops) for op in named(graph, "attention_expanded"))


def test_deepseek_v3_prefill_is_expanded() -> None:
    graph = built("deepseek-ai/DeepSeek-V3").graph(Step.prefill(1, 2048), ONE)
    expanded = sum(float(op.flops * op.count) for op in named(graph, "attention_expanded"))
    assert expanded == 61 * 2 * 128 * (192 + 128) * 2048 * 2049 / 2
    assert all(not np.any(op.flops) for op in named(graph, "attention"))


@pytest.mark.parametrize(
    ("name", "bytes_per_token"),
    [
        ("meta-llama/Llama-3.1-8B", 2 * 32 * 8 * 128 * 2),
        ("meta-llama/Llama-3.1-70B", 2 * 80 * 8 * 128 * 2),
        ("deepseek-ai/DeepSeek-V3", 61 * 576 * 2),
        ("deepseek-ai/DeepSeek-V3.2", 61 * (576 + 128) * 2),
        ("ai21labs/Jamba-v0.1", 2 * 4 * 8 * 128 * 2),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", 2 * 12 * 2 * 256 * 2),
        ("openai/gpt-oss-120b", 2 * 18 * 8 * 64 * 2),
        ("google/gemma-3-27b-pt", 2 * 10 * 16 * 128 * 2),
    ],
)
def test_a_further_token_takes_its_cache_in_the_layers_that_keep_it(
    name: str, bytes_per_token: float
) -> None:
    model = built(name, kv="bf16")
    assert cache_bytes(model, 40_001) - cache_bytes(model, 40_000) == bytes_per_token


def test_llama_8b_and_deepseek_v3_keep_what_their_reports_say() -> None:
    llama = cache_bytes(built("meta-llama/Llama-3.1-8B"), 1)
    deepseek = cache_bytes(built("deepseek-ai/DeepSeek-V3", kv="bf16"), 1)
    assert (llama, deepseek) == (131_072, 70_272)


def test_the_state_of_mamba_does_not_grow() -> None:
    """64 layers x 5,120 channels x (16 states and 3 inputs of the convolution), all in fp32."""
    model = built("state-spaces/mamba-2.8b-hf")
    assert cache_bytes(model, 10) == cache_bytes(model, 10**6) == 64 * 5120 * (16 + 3) * 4


def test_a_window_stops_the_cache_from_growing() -> None:
    model = built("mistralai/Mistral-7B-v0.1")
    assert cache_bytes(model, 4096) == cache_bytes(model, 10**6) == 4096 * 131_072


def test_expert_bytes_grow_with_the_batch() -> None:
    model = built("mistralai/Mixtral-8x7B-v0.1")
    one, many = (
        total(model.graph(Step.decode(batch, 1024), ONE), "weight_bytes", "moe")
        for batch in (1, 64)
    )
    expert = 32 * 3 * 4096 * 14336 * 2
    assert one == pytest.approx(2 * expert)
    assert many == pytest.approx(8 * (1 - 0.75**64) * expert)


def test_chunked_attention_counts_only_the_pairs_inside_a_chunk() -> None:
    model = built("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    graph = model.graph(Step.prefill(1, 20_000), ONE)
    local, full = sorted(named(graph, "attention"), key=lambda op: float(op.flops))
    position = np.arange(20_000)
    assert float(local.dims["pairs"]) == (position % 8192 + 1).sum()
    assert float(full.dims["pairs"]) == (position + 1).sum()
    assert (len(local.layers), len(full.layers)) == (36, 12)


def test_chunked_prefill_continues_inside_its_chunk() -> None:
    model = built("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    whole = model.graph(Step.prefill(1, 20_000), ONE)
    parts = [model.graph(Step.prefill(1, 5_000, at), ONE) for at in range(0, 20_000, 5_000)]
    assert sum(total(part, "flops", "attention") for part in parts) == pytest.approx(
        total(whole, "flops", "attention")
    )


def test_compressed_attention_counts_the_entries_that_each_query_sees() -> None:
    """DeepSeek-V4: the window, and one entry for every 4 tokens (512 are selected) or 128
    tokens.
    """
    model = built("deepseek-ai/DeepSeek-V4-Flash")
    graph = model.graph(Step.prefill(1, 6000), ONE)
    seen = np.arange(1, 6001)
    window = np.minimum(seen, 128).sum()
    expected = {
        window,
        window + np.minimum(seen // 4, 512).sum(),
        window + (seen // 128).sum(),
    }
    assert {float(op.dims["pairs"]) for op in named(graph, "attention")} == expected


def test_sparse_attention_reads_its_choice_and_scores_the_rest() -> None:
    model = built("deepseek-ai/DeepSeek-V3.2", kv="bf16")
    graph = model.graph(Step.decode(1, 100_000), ONE)
    (attended, *_), (scored, *_) = named(graph, "attention"), named(graph, "indexer_scores")
    assert float(attended.kv_read_bytes) == 2048 * 576 * 2
    assert float(scored.kv_read_bytes) == 100_000 * 128 * 2


def test_layers_that_share_an_indexer_do_not_run_it() -> None:
    graph = built("zai-org/GLM-5.2").graph(Step.decode(1, 4096), ONE)
    kinds = shipped_models()["zai-org/GLM-5.2"].config()["indexer_types"]
    layers = sorted(at for op in named(graph, "indexer_q_proj") for at in op.layers)
    assert layers == [at for at, kind in enumerate(kinds[: graph.layers]) if kind == "full"]
    assert len(layers) == 21


def test_blocks_that_a_search_emptied_are_not_in_the_graph() -> None:
    graph = built("nvidia/Llama-3_3-Nemotron-Super-49B-v1").graph(Step.decode(1, 1024), ONE)
    config = shipped_models()["nvidia/Llama-3_3-Nemotron-Super-49B-v1"].config()
    kept = [
        at for at, own in enumerate(config["block_configs"]) if not own["attention"].get("no_op")
    ]
    attending = sorted(at for op in named(graph, "qkv_proj") for at in op.layers)
    assert attending == kept and len(kept) == 49 and graph.layers == 80


# ------------------------------------------------------------------------------- splits


def test_kv_heads_are_copied_when_tp_exceeds_them() -> None:
    model = built("meta-llama/Llama-3.1-8B")
    held = [
        total(model.graph(Step.decode(1, 1023), Parallelism(tp=tp)), "held_kv_bytes")
        for tp in (1, 8, 16, 32)
    ]
    assert [held[0] / share for share in held] == [1, 8, 8, 8]


def test_experts_see_the_tokens_of_all_ranks() -> None:
    model = built("deepseek-ai/DeepSeek-V3")
    split = Parallelism(tp=1, dp=8, ep=8)
    (experts,) = named(model.graph(Step.decode(256, 1024), split), "experts")
    assert float(experts.dims["tokens"]) == 256
    assert float(experts.dims["experts"]) == 32
    assert float(experts.dims["rows"]) == 256


def test_few_ranks_gather_tokens_and_many_exchange_them() -> None:
    model = built("deepseek-ai/DeepSeek-V3")
    for ranks, gathers in ((4, True), (32, False)):
        graph = model.graph(Step.decode(256, 1024), Parallelism(dp=ranks, ep=ranks))
        (gather,), (dispatch,) = named(graph, "moe_all_gather"), named(graph, "moe_dispatch")
        assert bool(gather.message_bytes > 0) is gathers
        assert bool(dispatch.message_bytes > 0) is not gathers


def test_sequence_parallel_halves_the_all_reduce_in_two_and_splits_the_norms() -> None:
    model = built("meta-llama/Llama-3.1-8B")
    plain = model.graph(Step.prefill(1, 1024), Parallelism(tp=8))
    split = model.graph(Step.prefill(1, 1024), Parallelism(tp=8, sequence_parallel=True))
    kinds = {op.kind for op in split.ops if op.name.startswith("mlp_")}
    assert kinds == {"reduce_scatter", "all_gather"}
    norms = [total(graph, "input_bytes", "norm") for graph in (plain, split)]
    assert norms[0] == 8 * norms[1]


def test_a_mixed_step_has_an_attention_for_each_group_and_shared_products() -> None:
    model = built("meta-llama/Llama-3.1-8B")
    step = Step((Group(1, 512, 0), Group(31, 1, 2000)))
    graph = model.graph(step, ONE)
    assert [op.name for op in graph.ops if op.kind == "attention"] == ["attention_1", "attention_2"]
    (product,) = named(graph, "gate_up_proj")
    assert float(product.dims["m"]) == 512 + 31
    (head,) = named(graph, "lm_head")
    assert float(head.dims["m"]) == 32


def test_layers_of_other_formats_are_laid_apart() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 1000,
        "quantization_config": {
            "quant_method": "fp8",
            "modules_to_not_convert": ["model.layers.3.mlp"],
        },
    }
    graph = model_registry.load(config).graph(Step.decode(1, 10), ONE)
    formats = {op.layers: op.weights for op in named(graph, "gate_up_proj")}
    assert formats == {(0, 1, 2): "fp8", (3,): "bf16"}
