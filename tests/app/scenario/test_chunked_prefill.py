"""Prompts cut to fit a step or not: one parameter, read by the closed form and the simulation."""

from __future__ import annotations

import pytest
import ridgeline

from genz_core.errors import InvalidValue
from hardware_db import load_engine

QUESTION = {
    "model": "meta-llama/Llama-3.1-8B", "system": "h100", "osl": 256, "concurrency": 64,
    "length_ratio": 1.0,
}  # fmt: skip
OPTIONAL = ("vllm", "sglang", "trtllm", "generic")


def served(engine: str, chunked_prefill: str | bool = "", **given):
    asked = {**QUESTION, "isl": 8192, "engine": engine, **given}
    return ridgeline.serve(**asked, chunked_prefill=chunked_prefill)


def simulated(engine: str, chunked_prefill: str | bool = "", **given):
    asked = {**QUESTION, "isl": 8192, "engine": engine, "requests": 256, **given}
    return ridgeline.simulate(**asked, chunked_prefill=chunked_prefill)


@pytest.mark.parametrize(("isl", "chunked_prefill"), [
    (8192, ""), (8190, ""), (8150, ""), (8192, "yes"),
])  # fmt: skip
def test_a_prompt_of_a_whole_step_is_read_as_in_the_simulation(isl, chunked_prefill):
    """TensorRT-LLM's steps take 8,192 tokens: a whole prompt of that length fits beside no decode,
    one of 8,150 beside 42."""
    closed, run = (
        told("trtllm", chunked_prefill, isl=isl) for told in (served, simulated)
    )  # fmt: skip
    assert closed.output_tokens_per_s == pytest.approx(run.output_tokens_per_s, rel=0.02)
    assert closed.ttft_s == pytest.approx(run.ttft_mean_s, rel=0.06)
    assert closed.tpot_s == pytest.approx(run.tpot_mean_s, rel=0.03)


@pytest.mark.parametrize(("isl", "users"), [(8800, 16), (8800, 64), (13_200, 16)])
def test_a_prompt_above_the_budget_of_an_engine_that_refuses_it_raises_the_budget(isl, users):
    """TensorRT-LLM refuses prompts above its 8,192 tokens; here lengths vary by 10 %."""
    sizes = {"isl": isl, "concurrency": users, "length_ratio": 9.0 / 11.0}
    closed, run = served("trtllm", **sizes), simulated("trtllm", **sizes)
    assert closed.ttft_s == pytest.approx(run.ttft_mean_s, rel=0.11)
    assert closed.tpot_s == pytest.approx(run.tpot_mean_s, rel=0.03)
    said = str(closed.rows[0]["message"])
    assert "trtllm refuses prompts above max_num_batched_tokens (8,192)" in said
    assert f"the longest has {isl:,} tokens: priced with {isl + 256:,}, or enable" in said
    assert "trtllm refuses prompts above" in run.message


def test_only_prompts_above_the_budget_are_refused_and_none_that_are_cut():
    said = [
        str(served("trtllm", chunked, isl=isl).rows[0]["message"])
        for isl, chunked in ((8192, ""), (12_000, "yes"))
    ]
    said.append(str(served("sglang", "no", isl=32_000).rows[0]["message"]))
    assert not any("refuses prompts" in one for one in said)
    told = served("trtllm", isl=12_000, max_num_batched_tokens=4096)
    assert "(4,096), and the longest has 12,000 tokens: raise it" in str(told.rows[0]["message"])


def test_cut_prompts_are_served_beside_decodes_and_whole_ones_one_at_a_time():
    cut, whole = (served("trtllm", told) for told in ("yes", "no"))
    assert cut.output_tokens_per_s > 5.0 * whole.output_tokens_per_s
    assert (whole.running, cut.running > 40) == (1, True)
    assert "about 1 of 64 requests run at a time" in str(whole.rows[0]["message"])
    assert "not cut" not in str(cut.rows[0]["message"])


@pytest.mark.parametrize(("engine", "own", "other"), [
    ("vllm", "yes", "no"), ("sglang", "yes", "no"), ("trtllm", "no", "yes"),
])  # fmt: skip
def test_what_an_engine_does_by_itself_may_be_told_and_changes_nothing(engine, own, other):
    """In closed form and in the simulation; the other value changes both."""
    sizes = {"isl": 7000, "concurrency": 24}
    for answer in (served, simulated):
        given = {**sizes, "requests": 48} if answer is simulated else sizes
        usual, *told, otherwise = (
            answer(engine, told, **given).rows for told in ("", own, own == "yes", other)
        )
        expected = [pytest.approx(row, rel=1e-9, nan_ok=True) for row in usual]
        assert all(rows == expected for rows in told)
        assert otherwise != expected


def test_a_static_batch_is_read_whole_where_prompts_are_not_cut():
    asked = {**QUESTION, "engine": "vllm", "isl": 32_768, "batch": 1}
    del asked["concurrency"], asked["length_ratio"]
    cut, whole = (ridgeline.estimate(**asked, chunked_prefill=told) for told in ("yes", "no"))
    assert whole.ttft_s < cut.ttft_s
    assert whole.activations_bytes > 3.0 * cut.activations_bytes


def test_an_engine_without_the_option_refuses_it_by_name():
    for name in ("llama.cpp", "hf", "mlx"):
        assert not load_engine(name).chunking_option
        with pytest.raises(InvalidValue, match=f"chunked_prefill: {name} has no option"):
            served(name, "no")
    assert all(load_engine(name).chunking_option for name in OPTIONAL)
    with pytest.raises(InvalidValue, match="chunked_prefill = 'perhaps': choose yes, no"):
        served("vllm", "perhaps")


def test_a_step_of_whole_prompts_holds_the_longest_sequence():
    """vLLM starts without chunks only where a step takes its longest context; a budget that is
    told stays as it is."""
    own, told = (served("vllm", "no", max_num_batched_tokens=budget) for budget in (0, 8192))
    assert own.running > 40 and told.running == 1
