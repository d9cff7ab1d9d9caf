"""A closed loop with few users, or with short answers: who waits for whose prompt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core.latency import moe
from genz_core.serving import ServingEstimate, Traffic, serve
from genz_core.types import Parallelism


def loaded(
    model: str, system: str, engine: str, split: Parallelism, traffic: Traffic
) -> ServingEstimate:
    physics = replace(hardware_db.load_engine(engine), measurements=None)
    return serve(model_registry.load(model), hardware_db.load(system), traffic, split, physics)


def requests_per_s(load: ServingEstimate) -> np.ndarray:
    return load.output_tokens_per_s / load.osl


@pytest.mark.parametrize("model, split, engine", [
    ("meta-llama/Llama-3.1-8B", Parallelism(), "vllm"),
    ("meta-llama/Llama-3.1-8B", Parallelism(), "sglang"),
    ("openai/gpt-oss-120b", Parallelism(dp=8, ep=8), "trtllm"),
])  # fmt: skip
def test_prompts_that_fill_whole_tiles_leave_no_rows_for_the_decodes_of_any_number_of_users(
    model, split, engine
):
    traffic = Traffic(1024, 200, np.arange(1.0, 17.0), length_ratio=1.0)
    load = loaded(model, "h100", engine, split, traffic)
    assert np.all(np.diff(load.ttft_s) > -1e-3 * load.ttft_s[1:])


def test_requests_of_ranks_in_lock_step_fall_in_step_with_one_on_each():
    """A prompt on any rank stalls all: ten equal requests end together as sixteen do; of two some
    do (simulated: 1.29).
    """
    load = loaded(
        "openai/gpt-oss-120b", "h100", "sglang", Parallelism(dp=8),
        Traffic(1024, 20, np.array([2.0, 10.0, 16.0]), length_ratio=1.0),
    )  # fmt: skip
    prompts_beside = load.tpot_s / load.decode_step_s
    assert 1.1 < prompts_beside[0] < 1.4
    assert np.all(prompts_beside[1:] < 1.05)


def test_two_users_of_two_ranks_each_wait_for_the_prompt_of_the_other():
    load = loaded(
        "Qwen/Qwen3-235B-A22B", "h200", "trtllm", Parallelism(tp=4, dp=2),
        Traffic(30_000, 42, np.array([1.0, 2.0]), length_ratio=1.0),
    )  # fmt: skip
    alone, both = load.ttft_s + (load.osl - 1.0) * load.tpot_s
    assert both > alone + 0.9 * load.prefill_s[0]
    assert requests_per_s(load)[1] > requests_per_s(load)[0]


def test_a_user_with_a_lane_of_its_own_waits_for_the_prompts_of_others_in_every_stage():
    """No step overtakes a prompt: two users are little faster than one, as when simulated."""
    load = loaded(
        "meta-llama/Llama-3.1-70B", "a100", "trtllm", Parallelism(tp=4, pp=2),
        Traffic(30_000, 51, np.array([1.0, 2.0, 4.0]), length_ratio=1.0),
    )  # fmt: skip
    one, two, four = requests_per_s(load)
    assert 1.05 * one < two < 1.2 * one
    assert four > two


def test_a_cycle_of_a_pipeline_is_as_long_as_its_stages_together():
    load = loaded(
        "openai/gpt-oss-120b", "a100", "trtllm", Parallelism(tp=2, pp=4, ep=2),
        Traffic(1176, 503, np.array([4.0, 5.0, 7.0, 12.0]), length_ratio=1.0),
    )  # fmt: skip
    assert np.all(np.diff(load.ttft_s) > -0.001 * load.ttft_s[1:])


@pytest.mark.parametrize("osl", [8, 12])
def test_equal_short_answers_end_together_and_different_ones_part(osl):
    equal, different = (
        loaded(
            "meta-llama/Llama-3.1-70B", "b200", "sglang", Parallelism(tp=4),
            Traffic(26, osl, 400, length_ratio=ratio),
        )
        for ratio in (1.0, 0.4)
    )  # fmt: skip
    together = equal.ttft_s / ((equal.osl - 1.0) * equal.tpot_s)
    apart = different.ttft_s / ((different.osl - 1.0) * different.tpot_s)
    assert together[0] > 2.0 * apart[0]


def test_users_of_one_token_answers_wait_for_the_prompts_of_others():
    few, more = loaded(
        "openai/gpt-oss-120b", "a100", "vllm", Parallelism(tp=2, pp=4),
        Traffic(9589, 1, np.array([2.0, 3.0]), length_ratio=0.5),
    ).ttft_s  # fmt: skip
    assert more >= few


def test_a_further_tile_of_experts_lowers_the_throughput_of_more_users(monkeypatch):
    def more_over_fewer() -> float:
        load = loaded(
            "openai/gpt-oss-120b", "a100", "trtllm", Parallelism(tp=8),
            Traffic(27, 428, np.array([1865.0, 2048.0])),
        )  # fmt: skip
        return float(load.output_tokens_per_s[1] / load.output_tokens_per_s[0])

    assert more_over_fewer() < 0.99
    monkeypatch.setattr(moe, "_ROWS", np.array([1.0]))  # no row is padded
    assert more_over_fewer() > 1.0


def test_lanes_of_a_pipeline_wait_for_the_one_with_a_request_more():
    """Five users of two lanes decode three and two at a time; both lanes take as long as three."""
    users = np.array([5.0, 6.0])
    load = loaded(
        "deepseek-ai/DeepSeek-V3", "b200", "vllm", Parallelism(tp=4, pp=2),
        Traffic(128, 2000, users),
    )  # fmt: skip
    assert load.tpot_s[0] == pytest.approx(load.tpot_s[1], rel=0.01)
    assert requests_per_s(load)[0] == pytest.approx(requests_per_s(load)[1] * 5 / 6, rel=0.01)
