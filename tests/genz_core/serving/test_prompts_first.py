"""Engines that prefill all waiting prompts before they decode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.question.question import nominal_lengths
from genz_core.serving import Traffic
from genz_core.serving.simulation import Requests, simulate
from genz_core.types import Parallelism
from tests.genz_core.serving.closed_loops import ENGINE, closed
from tests.genz_core.serving.test_few_users import loaded


@pytest.mark.parametrize("osl", [2, 5, 15])
def test_prompts_delay_the_first_token_of_those_read_with_them_and_all_later_ones(
    model, system, osl
):
    """Of 200 users who start at different times, those who end in one step are read in turn before
    the next; with two tokens an answer that is all of them.
    """
    first = replace(ENGINE, mixed_steps=False, chunk_tokens=8192)
    load = closed(model, system, 200, first, isl=8000, osl=osl)
    reading = 200 / (closed(model, system, 200, first, isl=8000, osl=1).output_tokens_per_s[0])
    prompts_first = replace(first, scheduler="sglang")
    seen = simulated(model, system, prompts_first, 200, 8000, osl, load.e2e_s[0])
    assert load.e2e_s[0] == pytest.approx(seen["e2e_mean_s"], rel=0.05)
    assert 0.4 * seen["ttft_mean_s"] < load.ttft_s[0] < 1.2 * seen["ttft_mean_s"]
    assert load.ttft_s[0] < 1.1 * reading / osl
    assert (osl - 1) * load.tpot_s[0] > 0.9 * reading * (1.0 - 1.0 / osl)


@pytest.mark.parametrize("users", [2500, 3000, 3770])
def test_a_full_queue_of_prompts_delays_later_tokens_and_not_the_first(users):
    """More prompt tokens arrive a decode step than a step of prompts holds: several such steps
    follow one another, and the decodes wait for all of them, as when simulated.
    """
    load = loaded(
        "Qwen/Qwen3-30B-A3B", "h200", "sglang", Parallelism(tp=4, dp=2),
        Traffic(2826, 526, np.array([1000.0, float(users)]), length_ratio=0.5),
    )  # fmt: skip
    assert load.ttft_s[1] < 3.0 * load.ttft_s[0]
    assert load.tpot_s[1] > 0.8 * users / 1000.0 * load.tpot_s[0]


@pytest.mark.parametrize("isl, osl", [(1, 7), (100, 7), (1, 9), (1000, 10)])
def test_equal_answers_fall_in_step_where_they_do_in_a_simulation(model, system, isl, osl):
    """If prompts come first and users return at once, each prompt of five stalls the answers of the
    other four; with as many users as steps all prompts are prefilled together.
    """
    engine = replace(ENGINE, mixed_steps=False, chunk_tokens=8192, host_request_s=0.0)
    users = np.array([1, 3, 4, 12, 16, 32])
    served = closed(model, system, users, engine, isl=isl, osl=osl, length_ratio=1.0)
    for number, e2e_s, tpot_s in zip(users, served.e2e_s, served.tpot_s, strict=True):
        seen = simulated(
            model, system, replace(engine, scheduler="sglang"), number, isl, osl, e2e_s
        )
        assert e2e_s == pytest.approx(seen["e2e_mean_s"], rel=0.1), number
        if number > osl:
            assert tpot_s == pytest.approx(seen["tpot_mean_s"], rel=0.1), number


def test_longer_answers_fall_out_of_step_gradually():
    """Answers of 20 tokens are read together and those of 60 one after another, as when simulated
    (0.97 and 0.22 s); between them, two tokens more never halve the wait.
    """
    answers = np.arange(20.0, 61.0, 2.0)
    isl, osl, ratio = nominal_lengths(512.0, answers, None)
    load = loaded(
        "meta-llama/Llama-3.1-8B", "h100", "sglang", Parallelism(),
        Traffic(isl, osl, np.full(answers.size, 128.0), length_ratio=ratio),
    )  # fmt: skip
    assert load.ttft_s[0] > 4.0 * load.ttft_s[-1]
    assert np.all(load.ttft_s[1:] > 0.5 * load.ttft_s[:-1])


def test_the_first_of_the_requests_that_return_together_has_a_step_of_its_own(model, system):
    """Prompts of different lengths arrive one after another, those of one length at once."""
    engine = replace(ENGINE, mixed_steps=False, chunk_tokens=8192, host_request_s=3e-3)
    lengths = {"isl": 100, "osl": 3, "length_ratio": 0.8}
    once = closed(model, system, 32, engine, **lengths)
    apart = closed(model, system, 32, replace(engine, host_token_s=1e-12), **lengths)
    later = apart.ttft_s[0] - once.ttft_s[0]
    assert 0.5 * once.prefill_s[0] < later < once.prefill_s[0]


def simulated(model, system, engine, users, isl, osl, start_s):
    """Figures of a steady loop of equal requests."""
    count, warm = 200, int(20 * users)
    sent = np.zeros(warm + count + 2 * users)
    load = Requests(sent, np.full(sent.size, float(isl)), np.full(sent.size, float(osl)))
    counted = range(warm, warm + count)
    return simulate(
        model, system, load, None, engine,
        concurrency=int(users), start_s=float(start_s), counted=counted,
    ).summary()  # fmt: skip
