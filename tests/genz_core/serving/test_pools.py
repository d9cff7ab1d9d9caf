"""Two stations in series: the slower one limits throughput, and no request is lost between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.deployment import Deployment
from genz_core.errors import InvalidValue
from genz_core.serving import Traffic
from genz_core.serving.disaggregation import (
    Disaggregation,
    ServingPool,
    Transfer,
    balance,
    prompt_s,
    prompts_per_s,
)
from genz_core.serving.pools.load import pooled_load
from genz_core.serving.pools.pools_question import Combinations, Habits, Learned
from genz_core.serving.pools.workers import decode_workers, prefill_workers
from genz_core.serving.series import serve_pools
from genz_core.steps.step_correction import StepCorrection
from genz_core.types import Parallelism
from tests.genz_core.serving.closed_loops import ENGINE

ISL, OSL = 1500.0, 200.0
GAPS = OSL - 1.0
USERS = (1.0, 2.0, 8.0, 60.0, 400.0)


@pytest.fixture
def shapes():
    return Parallelism(tp=np.array([1.0, 2.0, 4.0, 1.0]), pp=np.array([1.0, 1.0, 1.0, 2.0]),
                       dp=np.ones(4), ep=np.ones(4))  # fmt: skip


@pytest.fixture
def priced(model, system, shapes):
    deployed = Deployment(model, system, ENGINE)
    read = prefill_workers(deployed, shapes, ISL)
    return read, decode_workers(deployed, shapes, ISL, OSL, GAPS)


def pairs(readers, writers, busy_s=1e-3, first=0, second=0):
    readers, writers = (np.asarray(x, dtype=float) for x in np.broadcast_arrays(readers, writers))
    size = readers.size
    return Combinations(
        np.full(size, first), np.full(size, second), readers.ravel(), writers.ravel(),
        np.full(size, busy_s), 1e-4,
    )  # fmt: skip


def one(deployed, shapes, at, workers=1):
    split = Parallelism(tp=float(shapes.tp[at]), pp=float(shapes.pp[at]))
    return ServingPool(deployed, split, workers)


def test_workers_of_every_shape_are_priced_as_alone(model, system, shapes, priced):
    deployed, (read, written) = Deployment(model, system, ENGINE), priced
    for at in range(4):
        pool = one(deployed, shapes, at)
        assert read.one.total_s[at] == pytest.approx(prompt_s(pool, ISL)[0], rel=1e-9)
        assert read.prompts_per_s[at] == pytest.approx(prompts_per_s(pool, ISL), rel=1e-9)
        matched = balance(Disaggregation(pool, Transfer(1e11)), pool, ISL, OSL)
        assert written.most_running[at] == pytest.approx(matched.running)
        assert written.answers_per_s[-1, at] == pytest.approx(matched.answers_per_s, rel=1e-6)
    assert np.all(read.one.bound_s <= read.one.total_s)


def test_an_engine_without_a_limit_of_tokens_reads_as_many_prompts_together(model, system, shapes):
    """The balance of both pools and the load over them follow the same rule."""
    deployed = Deployment(model, system, replace(ENGINE, chunk_tokens=0))
    read = prefill_workers(deployed, shapes, ISL)
    assert read.together == 5.0
    for at in range(4):
        pool = one(deployed, shapes, at)
        assert read.prompts_per_s[at] == pytest.approx(prompts_per_s(pool, ISL), rel=1e-9)


def test_one_user_waits_for_nobody(priced):
    """Prefill, the transfer of the cache and the decode steps follow each other."""
    read, written = priced
    which = pairs([1.0, 3.0, 2.0], [1.0, 2.0, 5.0])
    load = pooled_load(read, written, which, OSL, concurrency=1.0)
    way = which.busy_s + which.latency_s
    assert load.ttft_s == pytest.approx(read.one.total_s[0] + way, rel=1e-6)
    alone = written.running[1, 0] / written.per_s[1, 0]
    assert load.tpot_s == pytest.approx(np.full(3, alone), rel=1e-6)
    assert load.requests_per_s == pytest.approx(1.0 / (load.ttft_s + GAPS * load.tpot_s), rel=1e-4)


@pytest.mark.parametrize("users", USERS)
def test_the_open_requests_of_a_closed_loop_are_those_that_are_somewhere(priced, users):
    """Little's law: no request is lost between prefill, transfer and decode."""
    read, written = priced
    which = pairs([1.0, 2, 1, 3], [1.0, 1, 4, 2])
    load = pooled_load(read, written, which, OSL, concurrency=users)
    lasting = load.ttft_s + load.tpot_s * GAPS
    assert load.requests_per_s * lasting == pytest.approx(np.full(4, users), rel=1e-4)
    running = load.running * which.decode_workers
    assert load.requests_per_s * load.tpot_s * GAPS == pytest.approx(running, rel=1e-3)
    assert np.all(load.use <= 1.0)


def test_the_queue_of_a_full_closed_loop_hardly_varies(priced):
    """Those that do not decode wait: the more of them wait, the nearer median and mean."""
    read, written = priced
    users = np.array([2.0, 40.0, 400.0, 4000.0])
    load = pooled_load(read, written, pairs(np.full(4, 1.0), 4.0), OSL, concurrency=users)
    assert np.all(load.ttft_median_s <= load.ttft_s)
    assert load.ttft_median_s[2:] == pytest.approx(load.ttft_s[2:], rel=0.02)
    assert load.use[2] > 0.99


def test_no_station_does_more_than_it_can(priced):
    """Prompts, transfers and answers: the rate of each is at most the capacity of its workers."""
    read, written = priced
    for busy_s in (1e-6, 1e-2, 3.0):
        which = pairs(np.array([[1.0], [4.0]]), np.array([[1.0, 3.0, 8.0]]), busy_s)
        load = pooled_load(read, written, which, OSL, concurrency=2e4)
        most = np.minimum.reduce([
            which.prefill_workers * read.prompts_per_s[0],
            which.prefill_workers / busy_s,
            which.decode_workers * written.answers_per_s[-1, 0],
        ])  # fmt: skip
        assert load.most_per_s == pytest.approx(most, rel=1e-6)
        assert np.all(load.requests_per_s <= most)
        assert load.requests_per_s == pytest.approx(most, rel=0.02)


@pytest.mark.parametrize("load", [{"concurrency": u} for u in USERS] + [{"rate_per_s": 1.0}])
def test_more_readers_never_delay_a_first_token(priced, load):
    read, written = priced
    workers = np.arange(1.0, 12.0)
    found = pooled_load(read, written, pairs(workers, 3.0), OSL, **load)
    held = np.isfinite(found.ttft_s)
    assert held.any() and np.all(np.diff(found.ttft_s[held]) <= 1e-3 * found.ttft_s[held][1:])
    assert np.all(np.diff(found.requests_per_s) >= -1e-9)


def test_more_users_never_lower_what_is_served(priced):
    read, written = priced
    loads = [
        pooled_load(read, written, pairs([1.0, 2, 8], [4.0, 2, 1]), OSL, concurrency=users)
        for users in np.unique(np.round(np.geomspace(1, 3000, 40)))
    ]
    rates, firsts = (np.array([getattr(one, n) for one in loads]) for n in
                     ("requests_per_s", "ttft_s"))  # fmt: skip
    assert np.all(np.diff(rates, axis=0) >= -0.01 * rates[1:])
    assert np.all(np.diff(firsts, axis=0) >= -0.01 * firsts[1:])


def test_more_workers_never_slow_a_rate_down_and_too_few_do_not_sustain_it(priced):
    read, written = priced
    workers = np.arange(1.0, 9.0)
    rate = 2.5 * read.prompts_per_s[0]
    load = pooled_load(read, written, pairs(workers, workers, 0.0), OSL, rate_per_s=float(rate))
    assert np.all(np.diff(load.use) < 0.0)
    held = load.use < 1.0
    assert not held[:2].any()
    assert np.all(np.isinf(load.ttft_s[~held]))
    assert np.all(np.diff(load.ttft_s[held]) <= 0.0) and np.all(np.diff(load.tpot_s[held]) <= 1e-12)
    assert np.all(load.tpot_s[held] >= load.bound_step_s[held])


def test_a_step_that_runs_slower_than_priced_is_slower_in_every_figure(priced):
    read, written = priced
    which, one_s = pairs([1.0, 2.0], [1.0, 1.0]), np.ones(2)
    slow = StepCorrection(2.0 * one_s, one_s, 0.0 * one_s)
    twice = Learned(slow, slow, 0.0)
    plain, late = (
        pooled_load(read, written, which, OSL, concurrency=1.0, learned=learned)
        for learned in (None, twice)
    )
    assert late.tpot_s == pytest.approx(2.0 * plain.tpot_s)
    assert late.prefill_s == pytest.approx(2.0 * plain.prefill_s)
    before = Learned.nothing(2, 0.25)
    waits = pooled_load(read, written, which, OSL, concurrency=1.0, learned=before)
    assert waits.ttft_s - plain.ttft_s == pytest.approx(0.25 * one_s)


def test_a_common_start_delays_first_tokens_by_its_share_of_the_waves(priced):
    """Half the time of all prompts, in one wave of ten, in addition to the usual wait."""
    read, written = priced
    which, users = pairs([1.0], [8.0]), 200.0
    steady, twice, ten = (
        pooled_load(read, written, which, OSL, concurrency=users, habits=Habits(waves=waves))
        for waves in (0.0, 2.0, 10.0)
    )
    wave_s = (users / read.prompts_per_s[0] + read.full.total_s[0]) / 2.0
    assert steady.ttft_s < ten.ttft_s < twice.ttft_s
    assert 10.0 * (ten.ttft_s - steady.ttft_s) == pytest.approx(
        2.0 * (twice.ttft_s - steady.ttft_s)
    )
    assert 10.0 * (ten.ttft_s - steady.ttft_s) < wave_s


# ------------------------------------------------------------------------------- as it is served


@pytest.fixture
def both(model, system):
    deployed = Deployment(model, system, ENGINE)
    pool = ServingPool(deployed, Parallelism(), 2)
    return Disaggregation(pool, Transfer(5e10, 1e-4, shown_by="decode")), replace(pool, workers=3)


def test_arrays_of_loads_and_degrees_are_each_alone(both):
    apart, decode = both
    users, tp = np.array([1.0, 12.0, 90.0, 12.0]), np.array([1.0, 1.0, 2.0, 2.0])
    isl = np.array([1000.0, 1000.0, 500.0, 1000.0])
    split = replace(decode, parallelism=Parallelism(tp=tp))
    many = serve_pools(apart, split, Traffic(isl, 64, concurrency=users))
    for at in range(4):
        single = replace(decode, parallelism=Parallelism(tp=float(tp[at])))
        alone = serve_pools(apart, single, Traffic(isl[at], 64, concurrency=users[at]))
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s", "devices", "running"):
            assert getattr(many, name)[at] == pytest.approx(getattr(alone, name)[0], rel=1e-9)
    assert many.devices.tolist() == [5.0, 5.0, 8.0, 8.0]


def test_several_rates_of_one_deployment_are_each_alone(both):
    rates = np.array([2.0, 0.1, 1e4])
    many = serve_pools(*both, Traffic(1000, 64, rate_per_s=rates), on_error="status")
    for at, rate in enumerate(rates):
        alone = serve_pools(*both, Traffic(1000, 64, rate_per_s=rate), on_error="status")
        assert many.status[at] == alone.status[0]
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s", "utilisation", "running"):
            assert getattr(many, name)[at] == pytest.approx(getattr(alone, name)[0], rel=1e-9)


def test_a_scheduler_plans_ahead_where_a_worker_is_no_pipeline(both):
    """Even if other shapes are pipelines, a deployment of one stage waits for its planned steps."""
    apart, decode = both
    engine = replace(ENGINE, ahead_steps=2.0)
    ahead = replace(decode, deployed=replace(decode.deployed, engine=engine))
    load = Traffic(1000, 64, concurrency=12.0)

    def first_s(pool, stages):
        split = Parallelism(pp=np.asarray(stages))
        return serve_pools(apart, replace(pool, parallelism=split), load).ttft_s

    plain, waits = first_s(decode, [1.0, 2.0]), first_s(ahead, [1.0, 2.0])
    alone = first_s(ahead, [1.0]) - first_s(decode, [1.0])
    assert waits[0] - plain[0] == pytest.approx(alone[0], rel=0.01)
    assert alone[0] > 0.0
    assert waits[1] == pytest.approx(plain[1], rel=1e-9)


def test_a_hand_over_lasts_steps_of_those_that_run_and_nothing_where_none_does(both):
    apart, decode = both
    engine = replace(ENGINE, hand_over_steps=12.0)
    agreed = replace(decode, deployed=replace(decode.deployed, engine=engine))
    for users, least, most in ((1.0, 0.0, 1e-9), (60.0, 11.0, 12.0)):
        load = Traffic(1000, 64, concurrency=users)
        plain, later = (serve_pools(apart, pool, load) for pool in (decode, agreed))
        waits = (later.ttft_s[0] - plain.ttft_s[0]) / later.decode_step_s[0]
        assert least <= waits + 1e-12 and waits <= most * 1.2
        assert later.output_tokens_per_s[0] <= plain.output_tokens_per_s[0] * (1 + 1e-9)


def test_what_the_pools_do_not_sustain_is_overloaded_and_says_so(both):
    found = serve_pools(*both, Traffic(1000, 64, rate_per_s=1e4), on_error="status")
    assert found.status[0] == "overloaded" and np.isinf(found.ttft_s[0])
    assert "slower pool sustains" in found.messages[0]


@pytest.mark.parametrize(
    ("load", "said"),
    [({"spill": "weights"}, "on the host"), ({"batch_wait": 3}, "batch_wait")],
)
def test_what_pools_are_not_priced_with_is_refused(both, load, said):
    with pytest.raises(InvalidValue, match=said):
        serve_pools(*both, Traffic(1000, 64, concurrency=4, **load))
