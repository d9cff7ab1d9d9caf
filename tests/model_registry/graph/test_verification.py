"""Verification of a draft: rows of the products, logits at every token, the cache read once."""

import pytest

import hardware_db
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph, Op
from genz_core.steps.step import price
from genz_core.types import Group, Parallelism, Step
from tests.model_registry.shared_models import built, traced

DENSE, LATENT, SPARSE, HYBRID = (
    "meta-llama/Llama-3.1-8B",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
)
every_kind = pytest.mark.parametrize("name", [DENSE, LATENT, SPARSE, HYBRID])


def graph(name, group, **degrees) -> Graph:
    return built(name).graph(Step((group,)), Parallelism(**degrees))


def op(graph, name) -> Op:
    return next(one for one in graph.ops if one.name == name)


def verified(sequences, tokens, cached):
    return Group(sequences, tokens, cached, drafted=tokens - 1, sampled=tokens)


def test_every_product_has_a_row_a_token_and_the_head_as_well():
    four = graph(DENSE, verified(8.0, 4.0, 1000.0))
    assert op(four, "qkv_proj").dims["m"] == 32 and op(four, "lm_head").dims["m"] == 32
    prompts = graph(DENSE, Group(8.0, 4.0, 1000.0))
    assert op(prompts, "qkv_proj").dims["m"] == 32 and op(prompts, "lm_head").dims["m"] == 8


def test_a_trace_samples_after_every_token_too():
    four = traced(DENSE).graph(Step((verified(8.0, 4.0, 1000.0),)), Parallelism())
    assert op(four, "lm_head").dims["m"] == 32


@every_kind
def test_a_draft_of_no_token_is_a_decode(name):
    one, decode = (
        graph(name, group) for group in (verified(8.0, 1.0, 999.0), Group(8.0, 1.0, 999.0))
    )
    assert [o.flops for o in one.ops] == [o.flops for o in decode.ops]
    assert [o.dims.keys() for o in one.ops] == [o.dims.keys() for o in decode.ops]


def test_the_cache_is_read_once_for_all_tokens_of_a_draft():
    one, four = (op(graph(DENSE, verified(8.0, n, 1000.0)), "attention") for n in (1.0, 4.0))
    assert four.kv_read_bytes == one.kv_read_bytes
    assert four.flops == pytest.approx(4 * one.flops * (1000 + 2.5) / 1001)


def test_latent_attention_verifies_in_its_absorbed_form():
    short = graph(LATENT, verified(8.0, 4.0, 8.0))
    assert op(short, "q_absorb").flops > 0 and op(short, "kv_b_proj").flops == 0


def test_context_ranks_hold_every_token_of_a_draft():
    drafts, prompts = (
        op(graph(DENSE, group, cp=4), "qkv_proj")
        for group in (verified(8.0, 4.0, 1000.0), Group(8.0, 4.0, 1000.0))
    )
    assert drafts.dims["m"] == 32 and prompts.dims["m"] == 8


@every_kind
@pytest.mark.parametrize("cached", [100.0, 4000.0, 30_000.0])
def test_verifying_costs_more_than_a_decode_and_less_than_as_many(name, cached):
    system, engine, par = hardware_db.load("h100"), EngineProfile(), Parallelism()
    totals = []
    for group in (Group(16.0, 1.0, cached), verified(16.0, 4.0, cached)):
        step = Step((group,))
        totals.append(price(built(name).graph(step, par), step, system, par, engine).total_s[0])
    assert totals[0] < totals[1] < 4 * totals[0]


def test_attention_over_a_long_cache_costs_a_draft_little_more_than_a_token():
    """Keys are read once; a prompt of four tokens has blocks of 128 rows instead."""
    system, engine, par = hardware_db.load("h100"), EngineProfile(), Parallelism()
    seconds = []
    for group in (Group(64.0, 1.0, 8000.0), verified(64.0, 4.0, 8000.0)):
        step = Step((group,))
        priced = price(built(DENSE).graph(step, par), step, system, par, engine)
        row = [one.name for one in priced.graph.ops].index("attention")
        seconds.append(float(priced.expected_s[row, 0]))
    assert seconds[1] == pytest.approx(seconds[0], rel=0.1)
