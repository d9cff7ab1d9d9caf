"""Requests side by side if whole prompts share steps with decodes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core.serving.whole_prompts import running_beside, side_by_side
from tests.draws import cases


def running(budget, longest, ratio=1.0, gaps=1000.0, most=64.0):
    sizes = (np.atleast_1d(np.asarray(x, float)) for x in (budget, longest, ratio, gaps, most))
    return side_by_side(*np.broadcast_arrays(*sizes))


@pytest.mark.parametrize(("longest", "expected"), [(8192, 1), (8191, 2), (8150, 43)])
def test_equal_prompts_run_beside_what_they_leave_of_a_step(longest, expected):
    assert running(8192, longest) == pytest.approx(expected)


def test_prompts_that_leave_a_place_for_every_decode_limit_nothing():
    few, long, cut_by_answers = 8192 - 63, 9000, 8000
    assert np.all(np.isinf(running(8192, [few, long])))
    assert np.isinf(running(8192, cut_by_answers, gaps=100.0, most=1000.0))


loads = st.fixed_dictionaries(
    {
        "budget": st.sampled_from([2048.0, 8192.0, 16_384.0]),
        "share": st.floats(0.6, 1.6),
        "ratio": st.sampled_from([0.5, 0.8, 0.95, 0.99, 1.0]),
        "gaps": st.sampled_from([10.0, 255.0, 2047.0]),
        "most": st.integers(2, 512),
    }
)


@settings(max_examples=cases(40))
@given(load=loads)
def test_the_sum_is_the_mean_of_drawn_prompts(load):
    """X = min(Y, K), and a prompt waits (1 - K / Y) of the steps of an answer."""
    budget, gaps, most = load["budget"], load["gaps"], float(load["most"])
    longest = np.floor(budget * load["share"])
    found = running(budget, longest, load["ratio"], gaps, most)[0]
    generator = np.random.default_rng(1)
    drawn = generator.uniform(load["ratio"] * longest, longest, 20_000)
    limits = np.where(drawn > budget, np.inf, np.floor(budget - drawn))
    share = 1.0 / max(np.floor(budget / longest), 1.0)
    most = min(most, (gaps + 1.0) / share)
    before, steps = 0.0, []
    for limit in np.minimum(limits, most - 1.0):
        after = before + 1.0
        steps.append(gaps * max(1.0 - limit / after, 0.0))
        before = min(after, limit)
    mean = min(gaps / np.mean(steps), most)
    if np.isinf(found):
        assert mean > 0.9 * most
    else:
        assert found == pytest.approx(mean, rel=0.1)


@settings(max_examples=cases(40))
@given(load=loads)
def test_a_larger_step_and_more_places_never_leave_fewer_requests(load):
    longest = np.floor(load["budget"] * load["share"])
    budget = longest + np.arange(0.0, 200.0, 7.0)
    given_ = {"ratio": load["ratio"], "gaps": load["gaps"]}
    by_budget = np.minimum(running(budget, longest, most=load["most"], **given_), load["most"])
    assert np.all(np.diff(by_budget) > -1e-9 * by_budget[1:])
    most = np.arange(1.0, load["most"] + 1.0)
    by_places = np.minimum(running(longest + 3.0, longest, most=most, **given_), most)
    assert np.all(np.diff(by_places) > -1e-9 * by_places[1:])
    alone = [running(one, longest, most=load["most"], **given_)[0] for one in budget[:3]]
    assert running(budget[:3], longest, most=load["most"], **given_) == pytest.approx(alone)


def test_fewer_users_than_ranks_wait_for_no_decode():
    """A lane that holds a request now and then holds nothing for a prompt to wait for."""
    half = np.array([0.5])
    few = running_beside(np.array([8192.0]), np.array([12000.0]), np.array([0.5]), np.array([60.0]),
                         half, ahead_steps=1.0)  # fmt: skip
    assert few[0] >= half[0]
