"""A token budget that is given bounds every step, simulated as in the closed form."""

from itertools import pairwise

import pytest
import ridgeline

CUT = ("vllm", "sglang")


@pytest.mark.parametrize("engine", CUT)
@pytest.mark.parametrize("budget", [256, 512])
def test_one_user_waits_for_as_many_steps_as_the_budget_cuts_the_prompt_into(engine, budget):
    load = {"model": "Qwen/Qwen3-8B", "system": "h100", "engine": engine, "isl": 2900, "osl": 20}
    load |= {"max_num_batched_tokens": budget, "concurrency": 1, "length_ratio": 1}
    run = ridgeline.simulate(**load, requests=6)
    assert run.ttft_mean_s == pytest.approx(ridgeline.serve(**load).ttft_s, rel=0.02)


def test_a_smaller_budget_delays_prompts_and_spares_the_answers_beside_them():
    load = {"model": "Qwen/Qwen3-8B", "system": "h100", "engine": "vllm", "isl": 600, "osl": 60}
    load |= {"concurrency": 64, "requests": 256}
    runs = [ridgeline.simulate(**load, max_num_batched_tokens=most) for most in (256, 512, 1024)]
    for smaller, larger in pairwise(runs):
        assert smaller.ttft_mean_s > 1.05 * larger.ttft_mean_s
        assert smaller.tpot_mean_s < 0.95 * larger.tpot_mean_s
