"""What holds of every closed loop: work is conserved, and more users or tokens never cost less."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from genz_core.phases import decode, prefill
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism, Workload
from tests.draws import cases
from tests.genz_core.serving.closed_loops import ENGINE, closed, loads, requests_per_s


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 3000))
def test_users_are_those_that_wait_read_and_decode(model, system, load, users):
    """Little's law: C = X (TTFT + (osl - 1) TPOT)."""
    engine, lengths = load
    served = closed(model, system, users, engine, **lengths)
    assert requests_per_s(served)[0] * served.e2e_s[0] == pytest.approx(users, rel=0.02)


@settings(max_examples=cases(40))
@given(load=loads(), users=st.integers(1, 1000))
def test_longer_answers_never_bring_more_requests(model, system, load, users):
    """From two to twenty tokens; beyond, the mean step that engines are fitted with takes
    requests for further apart than the work on all of them leaves them."""
    engine, lengths = load
    osl = np.array([2, 3, 4, 6, 9, 14, 20])
    served = closed(model, system, users, engine, **lengths | {"osl": osl})
    rates = requests_per_s(served)
    assert np.all(rates[1:] < 1.05 * np.minimum.accumulate(rates)[:-1])


def test_answers_that_ride_on_steps_that_read_bring_no_more_requests_when_they_are_longer(
    model, system
):
    """Four users, prompts of more than a step: of 2 to 5 tokens between 0.8 and 1.9 decode at once,
    and a step that reads has one of them beside it that often."""
    engine = replace(ENGINE, chunk_tokens=512, max_sequences=4, host_request_s=0.0)
    served = closed(model, system, 4, engine, isl=666, osl=np.array([2, 3, 4, 6]), length_ratio=0.8)
    assert np.all(np.diff(requests_per_s(served)) < 0)


@settings(max_examples=cases(25))
@given(load=loads())
def test_throughput_never_falls_because_more_users_wait(model, system, load):
    engine, lengths = load
    served = closed(model, system, np.array([1, 2, 5, 16, 64, 256, 1024, 4096]), engine, **lengths)
    assert np.all(np.diff(served.output_tokens_per_s) > -0.03 * served.output_tokens_per_s[:-1])


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 3000))
def test_a_first_token_after_a_common_start_comes_before_all_users_are_served(
    model, system, load, users
):
    engine, lengths = load
    burst = Traffic(concurrency=users, waves=10, **lengths)
    served = serve(model, system, burst, engine=engine)
    assert served.ttft_s[0] <= 1.02 * users / requests_per_s(served)[0]


def test_more_places_than_a_step_has_tokens_leave_a_common_start_as_long(model, system):
    """Steps of 512 tokens hold few prompts beside their decodes, with 1,000 places or with 100."""
    users, lengths = 1000, {"isl": 1024, "osl": 128}
    few, many = (
        serve(
            model,
            system,
            Traffic(concurrency=users, waves=10, **lengths),
            engine=replace(ENGINE, chunk_tokens=512, max_sequences=places),
        )
        for places in (100, 1000)
    )
    assert many.ttft_s[0] == pytest.approx(few.ttft_s[0], rel=0.1)


@settings(max_examples=cases(40))
@given(load=loads())
def test_a_doubling_of_users_brings_hardly_more_than_the_one_before(model, system, load):
    """A server saturates once: at the limit of its memory or of its steps, it gains nothing more.
    Fewer users of two-token answers take turns, and equal answers fall in step:
    see test_prompts_first.py.
    """
    engine, lengths = load
    osl = max(lengths["osl"], 2)
    equal = math.ceil(osl * lengths["length_ratio"]) == osl
    assume(engine.mixed_steps or engine.host_request_s or not equal)
    users = 2 ** np.arange(13)
    served = closed(model, system, users, engine, **lengths | {"osl": osl})
    brings = served.output_tokens_per_s[1:] / served.output_tokens_per_s[:-1]
    most = 1.25 if osl > 2 else 1.4
    assert np.all(brings[1:] < most * brings[:-1])


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 3000))
def test_no_more_requests_are_served_than_their_least_work_allows(model, system, load, users):
    engine, lengths = load
    served = closed(model, system, users, engine, **lengths)
    isl = max(round(lengths["isl"] * (1 + lengths["length_ratio"]) / 2), 1)
    osl = served.osl[0]
    many = prefill(model, system, Workload(64.0, isl, 1.0), engine=engine).bound_total_s[0] / 64
    fit = max(served.running[0], 1.0)
    step = decode(model, system, Workload(fit, isl, osl), engine=engine).bound_total_s[0] / fit
    assert requests_per_s(served)[0] * max(many, step * (osl - 1)) <= 1.0 + 1e-6


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 500), ranks=st.sampled_from([2, 8]))
def test_replicas_serve_alike(model, system, load, users, ranks):
    engine, lengths = load
    alone = closed(model, system, users, engine, **lengths)
    traffic = Traffic(concurrency=users * ranks, **lengths)
    many = serve(model, system, traffic, Parallelism(dp=ranks), engine)
    for figure in ("ttft_s", "tpot_s", "output_tokens_per_s_per_device", "running_per_rank"):
        one, other = (_figure(served, figure) for served in (alone, many))
        assert other == pytest.approx(one, rel=0.01, nan_ok=True), figure


def _figure(served, name):
    if name == "running_per_rank":
        return served.running[0] / np.ravel(served.ranks)[0]
    return np.ravel(getattr(served, name))[0]
