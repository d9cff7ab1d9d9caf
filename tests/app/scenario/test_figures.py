"""Figures that a reader can check: published configurations on well-known hardware."""

from __future__ import annotations

import pytest

import genz_core
import hardware_db
import model_registry
from app.question.query import ask
from app.question.question import Question
from app.scenario import results
from app.scenario.scenario import estimate
from app.scenario.summary import step_sum
from genz_core.types import Parallelism, Step, Workload


def _bound_ms(model: str, system: str, batch: int, context: int, **split: int) -> float:
    step = genz_core.decode_step(
        model_registry.load(model), hardware_db.load(system), batch, context, Parallelism(**split)
    )
    return float(step.bound_total_s[0]) * 1e3


def test_llama_8b_decodes_on_an_h100_no_faster_than_its_weights_stream():
    """15.0 GB of weights and 0.13 GB of cache at 3.35 TB/s: 4.5 ms."""
    assert _bound_ms("meta-llama/Llama-3.1-8B", "h100_sxm", 1, 1024) == pytest.approx(4.5, rel=0.02)


def test_llama_70b_on_eight_h100_streams_an_eighth_of_its_weights_each():
    """139 GB over 8 devices at 3.35 TB/s: 5.2 ms, plus the all-reduces."""
    assert _bound_ms("meta-llama/Llama-3.1-70B", "h100_sxm", 1, 1024, tp=8) == pytest.approx(
        5.2, rel=0.05
    )


def test_deepseek_v3_reads_its_active_experts_only():
    """About 37 GB of active fp8 weights, replicated parts included, over 8 H200 at 4.8 TB/s."""
    one = _bound_ms("deepseek-ai/DeepSeek-V3", "h200", 1, 1024, tp=8, ep=1)
    assert 0.9 < one < 1.4
    many = _bound_ms("deepseek-ai/DeepSeek-V3", "h200", 256, 1024, tp=8, ep=1)
    assert many > 10 * one


def test_mixtral_reads_two_experts_for_one_token_and_all_eight_for_sixty_four():
    model = model_registry.load("mistralai/Mixtral-8x7B-v0.1")

    def expert_gb(batch: int) -> float:
        graph = model.graph(Step.decode(batch, 1024), Parallelism())
        return sum(float(op.weight_bytes) * op.count for op in graph.ops if op.kind == "moe") / 1e9

    layer = 3 * 4096 * 14336 * 2 * 32 / 1e9
    assert expert_gb(1) == pytest.approx(2 * layer, rel=1e-6)
    assert expert_gb(64) == pytest.approx(8 * layer, rel=1e-6)


def test_gpt_oss_keeps_its_experts_in_four_bits_on_one_gpu():
    result = estimate(Question(model="openai/gpt-oss-120b", system="h100_sxm"))
    weights = float(result.memory.weights_bytes[0]) / 1e9
    assert 62 < weights < 66
    assert result.status[0] == "ok"


def test_mamba_decodes_as_fast_at_any_context():
    """Its checkpoint is float32: four bytes for each of 2.77 B parameters at 2,039 GB/s."""
    short, long = (_bound_ms("state-spaces/mamba-2.8b-hf", "a100", 1, c) for c in (10, 100_000))
    assert short == long
    assert short == pytest.approx(2.77e9 * 4 / 2.039e12 * 1e3, rel=0.05)


def test_jamba_keeps_a_cache_in_one_layer_of_eight():
    model = model_registry.load("ai21labs/Jamba-v0.1")
    graph = model.graph(Step.decode(1, 8191), Parallelism())
    cache = sum(
        float(op.held_kv_bytes) * op.count for op in graph.ops if op.operator_class == "attention"
    )
    assert cache == 8192 * 4 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [("meta-llama/Llama-3.1-8B", 131_072), ("deepseek-ai/DeepSeek-V3", 61 * 576 * 2)],
)
def test_a_token_in_the_cache_takes_what_the_architecture_says(model, bytes_per_token):
    loaded = model_registry.load(model, kv="bf16")
    graph = loaded.graph(Step.decode(1, 999), Parallelism())
    held = sum(float(op.held_kv_bytes) * op.count for op in graph.ops)
    assert held == 1000 * bytes_per_token


#: The model of the scaling book's inference chapter, "Worked Problems".
BOOK = {
    "model_type": "llama",
    "num_hidden_layers": 64,
    "hidden_size": 4096,
    "intermediate_size": 4 * 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 256,
    "vocab_size": 32128,
    "tie_word_embeddings": True,
}


def test_the_scaling_books_model_has_its_parameters():
    """Question 1, first part: 18.4e9."""
    assert model_registry.load(BOOK).parameters == pytest.approx(18.4e9, rel=2e-3)


def test_the_scaling_books_cache_takes_its_bytes_a_token():
    """Question 1, second part: 2 * 64 layers * 8 heads * 256 elements, 262 kB in int8."""
    graph = model_registry.load(BOOK, kv="int8").graph(Step.decode(1, 0), Parallelism())
    assert sum(float(op.held_kv_bytes) * op.count for op in graph.ops) == 262_144


def test_the_scaling_books_weights_load_in_its_time():
    """Question 3: 18.4e9 int8 bytes over 16 TPU v5e of 8.1e11 B/s (8.2e11 by the datasheet)."""
    model, tpu = model_registry.load(BOOK, weights="int8"), hardware_db.load("tpu-v5e")
    graph = model.graph(Step.decode(1, 0), Parallelism(tp=8, pp=2))
    layers = sum(float(op.weight_bytes) * op.count for op in graph.ops if op.layers)
    load_s = layers / 2 / tpu.memory_bytes_per_s
    assert load_s == pytest.approx((18.4e9 - 0.13e9) / (16 * 8.1e11), rel=0.03)


def test_the_scaling_books_cache_of_llama_13b_is_its_worked_figure():
    """Inference chapter: LLaMA 13B holds 6.7 GB of KV cache per sequence of 8192 tokens (bf16)."""
    model = model_registry.load("meta-llama/Llama-2-13b-hf")
    graph = model.graph(Step.decode(1, 8191), Parallelism())
    held = sum(float(op.held_kv_bytes) * op.count for op in graph.ops)
    assert held == pytest.approx(6.7e9, rel=0.01)


def test_a_model_that_does_not_fit_still_gets_its_times():
    result = estimate(Question(model="meta-llama/Llama-3.1-405B", system="h100_sxm"))
    assert result.status[0] == "out_of_memory"
    assert "weights" in result.message() and float(result.ttft_s[0]) > 0


def test_ten_million_tokens_are_a_reason_and_not_a_crash():
    result = estimate(Question(isl=10_000_000))
    assert result.status[0] == "context_too_long"
    assert "10,000,2" in result.message() and "positions" in result.message()


def test_workload_defaults_are_priced():
    assert genz_core.estimate(
        model_registry.load("gpt2"), hardware_db.load("a100"), Workload()
    ).status.tolist() == ["ok"]


@pytest.mark.parametrize("engine", ["generic", "hf", "llama.cpp"])
@pytest.mark.parametrize("system", ["m1-max", "m3-ultra", "m4-max"])
def test_a_token_of_one_user_is_limited_by_memory_on_a_mac_under_every_engine(system, engine):
    given = {"system": system, "engine": engine, "weights": "bf16", "isl": 512, "osl": 32}
    row = results.estimate(ask("estimate", {"model": "meta-llama/Llama-3.1-8B", **given})).rows[0]
    assert row["bound_tpot_s"] / 0.93 < row["tpot_s"] < 1.6 * row["bound_tpot_s"]


def test_operators_of_a_pipeline_are_said_to_be_those_of_one_micro_batch():
    """Sixteen prompts on two stages are read one by one; decode steps have a half per stage."""
    case = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "batch": 16}
    whole, piped = (
        results.estimate(ask("estimate", {**case, "pp": pp})).engine_estimate for pp in (1, 2)
    )
    assert "ms of operators + " in step_sum(whole, "prefill")
    assert "ms of operators of one of 16 micro-batches + " in step_sum(piped, "prefill")
    assert "ms of operators of one of 2 micro-batches + " in step_sum(piped, "decode")
