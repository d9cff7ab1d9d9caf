"""When an engine admits requests and sends tokens: batch_wait, recv_interval, stream_interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism
from tests.genz_core.serving.closed_loops import ENGINE


def test_a_stream_interval_holds_the_first_token_back_by_steps(model, system):
    at_once, held = (
        serve(model, system, Traffic(concurrency=1, stream_interval=n), engine=ENGINE)
        for n in (1, 31)
    )
    assert held.ttft_s[0] - at_once.ttft_s[0] == pytest.approx(30 * at_once.decode_step_s[0])


def test_prompts_wait_for_one_another_only_while_others_run(model, system):
    """The first of a group waits for all steps, the last for none; a step then prefills
    the group.
    """
    users = np.array([1, 2, 512])
    at_once, waiting = (
        serve(model, system, Traffic(concurrency=users, batch_wait=n), engine=ENGINE)
        for n in (0, 50)
    )
    late = (waiting.ttft_s - at_once.ttft_s) / at_once.decode_step_s
    assert late[0] == pytest.approx(0.0, abs=1e-6)
    assert 20.0 < late[1] < 50.0
    assert waiting.tpot_s[2] < 1.001 * at_once.tpot_s[2]


def test_ranks_that_wait_for_one_another_read_their_prompts_in_one_step():
    mixture = model_registry.load("Qwen/Qwen3-30B-A3B")
    system = hardware_db.load("h100-sxm5-80gb")
    split = Parallelism(dp=8, ep=8)
    load = {"isl": 4000, "osl": 500, "concurrency": 64}
    apart, together = (
        serve(mixture, system, Traffic(batch_wait=n, **load), split, ENGINE) for n in (0, 60)
    )
    assert together.tpot_s[0] < 0.95 * apart.tpot_s[0] and together.ttft_s[0] > apart.ttft_s[0]


@pytest.mark.parametrize("osl", [3, 12])
def test_a_first_token_delivered_late_delays_none_behind_it(model, system, osl):
    """Few tokens, prompts first: a late delivery is not a prompt that others wait for."""
    first = replace(ENGINE, mixed_steps=False)
    lengths = {"isl": 60, "osl": osl, "concurrency": np.array([1, 4, 16])}
    at_once, held = (
        serve(model, system, Traffic(stream_interval=n, **lengths), engine=first) for n in (1, 31)
    )
    assert held.tpot_s[0] == pytest.approx(at_once.tpot_s[0])
    assert np.all(held.tpot_s < 1.1 * at_once.tpot_s) and np.all(held.ttft_s > at_once.ttft_s)


def test_looking_seldom_at_new_requests_delays_them_only_while_others_run(model, system):
    often, seldom = (
        serve(model, system, Traffic(concurrency=np.array([1, 32]), recv_interval=n), engine=ENGINE)
        for n in (1, 11)
    )
    late = seldom.ttft_s - often.ttft_s
    assert late[0] == pytest.approx(0.0, abs=1e-9)
    assert late[1] == pytest.approx(5 * often.decode_step_s[1], rel=0.2)
