"""Engines that prefill all waiting prompts before they decode."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.serving.simulation import Requests, simulate
from tests.genz_core.serving.closed_loops import ENGINE, closed


@pytest.mark.parametrize("osl", [2, 5, 15])
def test_prompts_read_first_delay_the_first_token_of_some_and_the_second_of_others(
    model, system, osl
):
    """All 200 are prefilled before one decodes: no first token waits for more than all of them,
    and later tokens wait for those that are prefilled afterwards.
    """
    first = replace(ENGINE, mixed_steps=False, chunk_tokens=8192)
    load = closed(model, system, 200, first, isl=8000, osl=osl)
    reading = 200 / (closed(model, system, 200, first, isl=8000, osl=1).output_tokens_per_s[0])
    assert 0.4 * reading < load.ttft_s[0] < 0.7 * reading
    assert 0.3 * reading < (osl - 1) * load.tpot_s[0] < 0.8 * reading


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
