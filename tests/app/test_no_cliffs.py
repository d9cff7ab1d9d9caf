"""One more token or sequence never changes a price abruptly."""

from __future__ import annotations

import numpy as np
import pytest
import ridgeline

EXPERTS = "openai/gpt-oss-120b"


def prefills(model, isl, **deployment):
    return ridgeline.estimate(model, isl=isl, osl=2, **deployment)


@pytest.mark.parametrize("edge", [2048, 4096, 8192])
def test_experts_take_no_leap_at_a_power_of_two(edge):
    answer = prefills(EXPERTS, [edge, edge + 1], system="h100")
    before, after = answer.ttft_s
    assert before <= after < 1.035 * before  # beyond 8,192 tokens a second step begins


def test_a_sparse_attention_takes_no_leap_where_it_begins_to_leave_tokens_out():
    answer = prefills("deepseek-ai/DeepSeek-V3.2", [2047, 2048, 2049], system="h200", tp=8)
    for seconds in (answer.ttft_s, answer.bound_ttft_s):
        assert seconds[2] < 1.03 * seconds[1]


def test_a_fifth_prompt_on_four_stages_costs_one_more_prompt():
    answer = ridgeline.estimate(
        "meta-llama/Llama-3.1-70B",
        system="h100",
        pp=4,
        isl=2048,
        osl=2,
        batch=[3, 4, 5, 6, 8],
        engine="generic",
    )
    per_prompt = np.diff(answer.ttft_s) / np.diff([3, 4, 5, 6, 8])
    assert per_prompt == pytest.approx(per_prompt[0], rel=0.02)
    assert np.all(answer.bound_ttft_s < answer.ttft_s)


def test_longer_prompts_and_larger_batches_never_take_less_time():
    for model in (EXPERTS, "meta-llama/Llama-3.1-8B"):
        isl = np.unique(np.geomspace(1, 60_000, 120).round()).astype(int).tolist()
        answer = prefills(model, isl, system="h200", engine="generic")
        assert np.all(np.diff(answer.ttft_s) >= -0.01 * answer.ttft_s[1:])
        batch = list(range(1, 80))
        answer = ridgeline.estimate(model, system="h200", isl=700, osl=50, batch=batch)
        assert np.all(np.diff(answer.ttft_s) >= -0.01 * answer.ttft_s[1:])
        assert np.all(np.diff(answer.tpot_s) >= -0.01 * answer.tpot_s[1:])


def test_w8a8_means_weights_and_inputs():
    ttft = {
        weights: ridgeline.estimate(
            "meta-llama/Llama-3.1-8B", system="a100-sxm4-80gb", weights=weights, batch=8, isl=2048
        ).ttft_s
        for weights in ("w8a8", "w8a16")
    }
    assert ttft["w8a8"] < 0.7 * ttft["w8a16"]


def test_a_large_mixture_of_experts_decodes_on_a_desktop_card():
    per_s = {
        offload: 1.0 / ridgeline.estimate(
            EXPERTS, system="rtx-4090", engine="llama.cpp", offload=offload, isl=512, osl=64
        ).tpot_s
        for offload in ("weights", "experts")
    }  # fmt: skip
    assert 10 < per_s["weights"] < per_s["experts"] < 60


def test_large_prefill_attention_is_bound_by_arithmetic():
    answer = prefills("meta-llama/Llama-3.1-8B", 32_000, system="h100")
    table = answer.operators("prefill").set_index("name")
    assert table.loc["attention", "bound"] == "compute"
    beyond = ["tiles_s", "bandwidth_s", "links_s", "launch_s"]
    parts = table[["compute_s", "memory_s", "communication_s", *beyond]].sum(axis=1)
    assert parts.to_numpy() == pytest.approx(table["predicted_s"].to_numpy())
