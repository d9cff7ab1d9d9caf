"""Arrivals at a rate: longer steps collect more of them."""

import numpy as np
import pytest

from genz_core.serving.arrivals import _met_s, paced, read_s
from genz_core.serving.queues import all_occupied
from tests.genz_core.serving.test_queueing import ONE, Linear, batching


def at_a_rate(**changed):
    return batching(**{"closed": False, "waves": 0.0, "admitted": 64.0} | changed)


def test_an_arrival_lies_in_a_step_by_its_share_of_the_time():
    """Three of four steps take 10 ms, one 90: three quarters of arrivals are in the long one."""
    steady, long = 0.03, 0.09
    met = _met_s(at_a_rate(), 0.01 * ONE, steady * ONE, 0.0 * ONE, long * ONE, 0.25 * ONE)
    assert met == pytest.approx((3 * 0.01**2 + long**2) / (3 * 0.01 + long))


def test_a_request_at_a_low_rate_waits_for_its_own_prompt_alone():
    """20 ms with a prompt of 100 tokens, then ten steps of 11 ms with one decode."""
    found = paced(at_a_rate(), 1e-6 * ONE, 1e-6 * ONE)
    assert found.ttft_s == pytest.approx(0.02, rel=1e-3)
    assert found.cycle_s == pytest.approx(0.011, rel=1e-3)
    assert read_s(at_a_rate(), 1e-6 * ONE) == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize("mixed", [True, False])
def test_more_arrivals_bring_later_first_tokens_and_slower_answers(mixed):
    found = [paced(at_a_rate(mixed=mixed), rate * ONE, rate * 0.2 * ONE) for rate in (1, 5, 10, 20)]
    for name in ("decodes", "cycle_s", "ttft_s", "median_s"):
        figures = np.concatenate([getattr(one, name) for one in found])
        assert np.all(np.diff(figures) > 0), name
    assert all(one.median_s <= one.ttft_s for one in found)


def test_steps_that_read_follow_one_another_while_somebody_arrives():
    """Prompts first, 10 ms for any step and 10 per prompt, simulated step by step."""
    rate, generator = 20.0, np.random.default_rng(3)
    decodes, seconds, waiting = 0, 0.0, 0
    for _ in range(200_000):
        step = 0.01 + 0.01 * waiting
        decodes += not waiting
        seconds += step
        waiting = generator.poisson(rate * step)
    free = Linear(decode_s=0.0)
    engine = at_a_rate(times=free, mixed=False, steps=1001.0, admitted=1e6, budget=1e5)
    found = paced(engine, rate * ONE, 1e-9 * ONE)
    assert found.cycle_s == pytest.approx(seconds / decodes, rel=0.05)


def test_a_router_shortens_the_queue_of_prompts_that_fill_steps():
    one, four = (
        paced(at_a_rate(isl=4000.0, routed=many * ONE), 1.0 * ONE, 1.0 * ONE) for many in (1, 4)
    )
    assert four.ttft_s < 0.95 * one.ttft_s and four.cycle_s < one.cycle_s


def test_a_router_spreads_few_requests_so_that_none_meets_another():
    """Two open requests on eight ranks: an answer's steps hold no prompt of others."""
    one, eight = (paced(at_a_rate(routed=many * ONE), 1.0 * ONE, 0.25 * ONE) for many in (1, 8))
    alone = paced(at_a_rate(), 1e-6 * ONE, 1e-6 * ONE)
    assert eight.cycle_s == pytest.approx(alone.cycle_s, rel=1e-3)
    assert one.cycle_s > 1.01 * alone.cycle_s


def test_servers_are_all_occupied_as_often_as_a_poisson_number_reaches_their_number():
    drawn = np.random.default_rng(0).poisson(3.0, 400_000)
    for servers in (1, 2, 5):
        full, some = all_occupied(3.0 * ONE, servers * ONE)
        assert full == pytest.approx(np.mean(drawn >= servers), abs=0.003)
        assert some == pytest.approx(np.mean(np.minimum(drawn, servers)) / servers, abs=0.003)
