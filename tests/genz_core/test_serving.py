"""Continuous batching: what load does to latency, and where a deployment ends."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.engine import EngineProfile, Recipe
from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.serving import Traffic, sequences_that_fit, serve
from genz_core.types import Parallelism, Workload

ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9)


def closed(model, system, users, engine=ENGINE, **lengths):
    return serve(model, system, Traffic(concurrency=users, **lengths), engine=engine)


def test_one_user_sees_its_own_prefill_and_decode(model, system):
    alone = closed(model, system, 1, ENGINE)
    assert alone.tpot_s[0] == pytest.approx(alone.decode_step_s[0])
    assert alone.ttft_s[0] == pytest.approx(
        alone.prefill_s[0] + ENGINE.queue_steps * alone.decode_step_s[0]
    )


def test_more_users_wait_longer_and_get_more_done(model, system):
    load = closed(model, system, np.array([1, 4, 16, 64, 256]))
    assert np.all(np.diff(load.ttft_s) > 0) and np.all(np.diff(load.tpot_s) >= 0)
    assert np.all(np.diff(load.output_tokens_per_s) > 0)
    assert np.all(np.diff(load.interactivity) <= 0)


def test_the_median_wait_is_never_above_the_mean(model, system):
    load = closed(model, system, np.array([1, 8, 64, 512]))
    assert np.all(load.ttft_median_s <= load.ttft_s)


def test_users_beyond_the_cache_wait_for_it(model, system):
    small = replace(system, memory_bytes=2e9)
    load = closed(model, small, np.array([8, 4000]), isl=4000, osl=500)
    assert load.running[1] == load.capacity[1] < 4000
    assert load.ttft_s[1] > 100 * load.ttft_s[0]
    single, fit = sequences_that_fit(model, small, Workload(1, 4000, 500), Parallelism(), ENGINE)
    assert fit[0] == load.capacity[0] > 0 and single.fits[0]


def test_users_who_wait_for_room_bring_no_more_tokens(model, system):
    few = replace(ENGINE, max_sequences=16)
    load = closed(model, system, np.array([16, 17, 64, 1024, 10**5]), few, isl=500, osl=500)
    assert np.all(load.running == 16)
    assert np.all(load.output_tokens_per_s <= 16 / load.tpot_s)
    assert load.output_tokens_per_s[-1] == pytest.approx(load.output_tokens_per_s[1], rel=0.1)


def test_an_engine_that_prefills_first_stalls_its_decodes(model, system):
    mixed = closed(model, system, 64, isl=4000, osl=50)
    stalled = closed(model, system, 64, replace(ENGINE, mixed_steps=False), isl=4000, osl=50)
    assert stalled.tpot_s[0] > mixed.tpot_s[0]


@pytest.mark.parametrize(("isl", "chunks"), [(100, 1), (1024, 1), (1025, 2), (4000, 4)])
def test_each_further_chunk_of_a_prompt_rides_on_a_decode_step(model, system, isl, chunks):
    whole = closed(model, system, 8, replace(ENGINE, chunk_tokens=0), isl=isl, osl=50)
    chunked = closed(model, system, 8, replace(ENGINE, chunk_tokens=1024), isl=isl, osl=50)
    later = (chunks - 1) * chunked.decode_step_s[0]
    assert chunked.ttft_s[0] - whole.ttft_s[0] == pytest.approx(later, abs=1e-9)
    assert chunked.tpot_s[0] == pytest.approx(whole.tpot_s[0])


def test_arrivals_balance_with_what_runs(model, system):
    """Little's law: sequences running = rate x time each one runs."""
    load = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=20.0), engine=ENGINE)
    stay = load.prefill_s[0] + load.tpot_s[0] * 200
    assert load.running[0] == pytest.approx(max(20.0 * stay, 1.0), rel=0.25)


def test_a_rate_beyond_what_is_sustained_says_so(model, system):
    load = serve(
        model, system, Traffic(isl=500, osl=200, rate_per_s=np.array([1.0, 1e6])), engine=ENGINE
    )
    assert load.status.tolist() == ["ok", "overloaded"]
    assert np.isinf(load.ttft_s[1]) and "sustains" in load.messages[1]


def test_shorter_real_lengths_are_served_faster(model, system):
    full, real = (closed(model, system, 32, length_ratio=ratio) for ratio in (1.0, 0.8))
    assert real.ttft_s[0] < full.ttft_s[0] and real.osl[0] == round(0.9 * 128)


def test_an_array_gives_what_scalars_give(model, system):
    users = np.array([1, 7, 100])
    together = closed(model, system, users)
    for at, number in enumerate(users):
        alone = closed(model, system, int(number))
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)


def test_one_rate_over_several_lengths_is_priced_as_each_alone(model, system):
    lengths = np.array([100, 2000, 300])
    together = serve(model, system, Traffic(isl=lengths, osl=50, rate_per_s=5.0), engine=ENGINE)
    for at, isl in enumerate(lengths):
        alone = serve(model, system, Traffic(isl=int(isl), osl=50, rate_per_s=5.0), engine=ENGINE)
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)


@pytest.mark.parametrize("traffic", [Traffic(), Traffic(concurrency=1, rate_per_s=1.0)])
def test_a_load_is_a_concurrency_or_a_rate(model, system, traffic):
    with pytest.raises(InvalidValue, match="one of them"):
        serve(model, system, traffic)


def test_half_a_user_is_refused_as_a_concurrency(model, system):
    with pytest.raises(InvalidValue, match=r"concurrency = 0\.5"):
        serve(model, system, Traffic(concurrency=0.5))


def test_a_rate_of_nothing_is_refused(model, system):
    with pytest.raises(InvalidValue, match="above 0"):
        serve(model, system, Traffic(rate_per_s=0.0))


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1.5, float("nan")])
def test_lengths_beyond_the_nominal_ones_are_refused(model, system, ratio):
    with pytest.raises(InvalidValue, match=f"length_ratio = {ratio:g}"):
        serve(model, system, Traffic(concurrency=4, length_ratio=ratio))


@pytest.mark.parametrize("arrivals", [{"concurrency": 16}, {"rate_per_s": 2.0}])
@pytest.mark.parametrize("mixed_steps", [True, False])
def test_no_fitted_share_or_scale_serves_faster_than_physics(model, system, arrivals, mixed_steps):
    hasty = replace(
        ENGINE,
        prefill_share=1e-3,
        queue_steps=0.0,
        mixed_steps=mixed_steps,
        recipe=Recipe(1e-3, 1e-3),
    )
    load = serve(model, system, Traffic(isl=4000, **arrivals), engine=hasty)
    assert load.ttft_median_s >= load.bound_prefill_s and load.ttft_s >= load.bound_prefill_s
    assert load.tpot_s >= load.bound_decode_step_s
    assert load.prefill_s > load.bound_prefill_s


@pytest.mark.parametrize("arrivals", [{"concurrency": 16}, {"rate_per_s": 20.0}])
def test_a_recipe_scales_what_users_see_down_to_the_bound_and_no_further(model, system, arrivals):
    plain, slower, least = (
        serve(model, system, Traffic(**arrivals), engine=replace(ENGINE, recipe=Recipe(tpot, ttft)))
        for tpot, ttft in ((1.0, 1.0), (1.25, 1.5), (1e-6, 1.0))
    )
    assert slower.tpot_s == pytest.approx(1.25 * plain.tpot_s)
    assert slower.ttft_s == pytest.approx(1.5 * plain.ttft_s)
    assert least.tpot_s == pytest.approx(least.bound_decode_step_s)


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("load", ["concurrency", "rate_per_s"])
def test_a_load_that_cannot_be_served_raises_or_is_a_code_whatever_the_length(
    model, system, length, load
):
    traffic = Traffic(100, 10, **{load: np.full(length, 2.0)})
    with pytest.raises(InvalidParallelism, match="tp=3"):
        serve(model, system, traffic, Parallelism(tp=3))
    coded = serve(model, system, traffic, Parallelism(tp=3), on_error="status")
    assert coded.status.tolist() == ["invalid_parallelism"] * length
    tight = replace(system, memory_bytes=1e6)
    with pytest.raises(OutOfMemory, match="use a larger device"):
        serve(model, tight, traffic)
    full = serve(model, tight, traffic, on_error="status")
    assert full.status.tolist() == ["out_of_memory"] * length
    assert np.isfinite(full.tpot_s).all()
