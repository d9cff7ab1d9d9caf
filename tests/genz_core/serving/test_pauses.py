"""Users of a closed loop who pause after each request: how many requests are open, and how fast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core.deployment import Deployment
from genz_core.errors import InvalidValue
from genz_core.serving import Traffic, serve
from genz_core.serving.disaggregation import Disaggregation, ServingPool, Transfer
from genz_core.serving.series import serve_pools
from genz_core.types import Parallelism
from tests.draws import cases
from tests.genz_core.serving.closed_loops import ENGINE, closed, loads

#: Pauses from a thousandth of a request to thousands of them [s].
PAUSES = np.array([0.0, 1e-3, 0.1, 1.0, 10.0, 100.0, 1e4])
FIGURES = ("ttft_s", "tpot_s", "output_tokens_per_s", "running")


@settings(max_examples=cases(12))
@given(load=loads(), users=st.integers(1, 3000))
def test_longer_pauses_never_make_a_request_slower_nor_bring_more_requests(
    model, system, load, users
):
    engine, lengths = load
    found = closed(model, system, users, engine, pause_s=PAUSES, **lengths)
    assert np.all(np.diff(found.requests_per_s) <= 0.03 * found.requests_per_s[:-1])
    assert np.all(np.diff(found.e2e_s) <= 0.03 * found.e2e_s[:-1])


@settings(max_examples=cases(12))
@given(load=loads(), users=st.integers(1, 3000), pause_s=st.floats(1e-3, 1e4))
def test_a_user_sends_a_request_each_time_that_it_lasts_and_pauses(
    model, system, load, users, pause_s
):
    """Little's law: N = X (E + Z); the open requests are the part X E."""
    engine, lengths = load
    found = closed(model, system, users, engine, pause_s=pause_s, **lengths)
    cycle_s = found.e2e_s[0] + pause_s
    assert found.requests_per_s[0] * cycle_s == pytest.approx(users, rel=0.02)
    assert found.open_requests[0] == pytest.approx(users * found.e2e_s[0] / cycle_s, rel=0.05)


@settings(max_examples=cases(12))
@given(load=loads(), users=st.integers(1, 3000))
def test_without_pauses_nothing_changes_and_short_ones_change_little(model, system, load, users):
    engine, lengths = load
    none = closed(model, system, users, engine, **lengths)
    paused = closed(model, system, users, engine, pause_s=np.array([0.0, 1e-9]), **lengths)
    for name in FIGURES:
        assert getattr(paused, name) == pytest.approx(getattr(none, name)[0], rel=1e-3, nan_ok=True)
    zero = closed(model, system, users, engine, pause_s=0.0, **lengths)
    assert zero.ttft_s[0] == none.ttft_s[0]


@settings(max_examples=cases(12))
@given(load=loads(), users=st.integers(1, 3000))
def test_after_very_long_pauses_a_user_meets_no_other(model, system, load, users):
    engine, lengths = load
    one = closed(model, system, 1, engine, **lengths)
    pause_s = 1e4 * users * float(one.e2e_s[0])
    found = closed(model, system, users, engine, pause_s=pause_s, **lengths)
    assert found.ttft_s[0] == pytest.approx(one.ttft_s[0], rel=0.01)
    assert found.e2e_s[0] == pytest.approx(one.e2e_s[0], rel=0.01)
    assert found.requests_per_s[0] == pytest.approx(users / pause_s, rel=0.01)


def test_a_load_is_priced_beside_others_as_alone(model, system):
    users, pauses = np.array([1, 8, 300, 300]), np.array([5.0, 0.0, 2.0, 200.0])
    lengths = {"isl": 1000, "osl": 200}
    together = closed(model, system, users, pause_s=pauses, **lengths)
    for at, (count, pause_s) in enumerate(zip(users, pauses, strict=True)):
        alone = closed(model, system, int(count), pause_s=float(pause_s), **lengths)
        for name in FIGURES:
            assert getattr(together, name)[at] == pytest.approx(getattr(alone, name)[0], rel=1e-9)


def test_a_pool_of_prompts_serves_users_who_pause(model, system):
    worker = ServingPool(Deployment(model, system, ENGINE), Parallelism(), 1)
    apart = Disaggregation(worker, Transfer(50e9))

    def served(**load):
        return serve_pools(apart, worker, Traffic(isl=1000, osl=200, **load))

    one, none = served(concurrency=1), served(concurrency=200)
    found = served(concurrency=np.full(PAUSES.size, 200), pause_s=PAUSES)
    assert found.ttft_s[0] == pytest.approx(none.ttft_s[0])
    assert np.all(np.diff(found.requests_per_s) < 0) and np.all(np.diff(found.e2e_s) < 0)
    assert found.requests_per_s * (found.e2e_s + PAUSES) == pytest.approx(200, rel=0.02)
    assert found.e2e_s[-1] == pytest.approx(one.e2e_s[0], rel=0.02)


def test_a_negative_pause_is_refused(model, system):
    with pytest.raises(InvalidValue, match="pause_s = -1"):
        serve(model, system, Traffic(concurrency=2, pause_s=-1.0))
