"""Both pools over arrays: as the loop of one deployment, and no token is lost between them."""

from __future__ import annotations

import numpy as np
import pytest

from genz_core.deployment import Deployment
from genz_core.engine import EngineProfile
from genz_core.serving.disaggregation import (
    Disaggregation,
    ServingPool,
    Transfer,
    balance,
    closed_loop,
    prompt_s,
    prompts_per_s,
)
from genz_core.serving.pools import Combinations, decode_workers, pooled_load, prefill_workers
from genz_core.types import Parallelism

ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9)
ISL, OSL = 1500.0, 200.0


@pytest.fixture
def shapes():
    return Parallelism(tp=np.array([1.0, 2.0, 4.0, 1.0]), pp=np.array([1.0, 1.0, 1.0, 2.0]),
                       dp=np.ones(4), ep=np.ones(4))  # fmt: skip


def one(deployed, shapes, at, workers=1):
    split = Parallelism(tp=float(shapes.tp[at]), pp=float(shapes.pp[at]))
    return ServingPool(deployed, split, workers)


def test_workers_of_every_shape_are_priced_as_alone(model, system, shapes):
    deployed = Deployment(model, system, ENGINE)
    read = prefill_workers(deployed, shapes, ISL)
    written = decode_workers(deployed, shapes, ISL, OSL, OSL - 1.0)
    for at in range(4):
        pool = one(deployed, shapes, at)
        assert read.alone_s[at] == pytest.approx(prompt_s(pool, ISL)[0], rel=1e-9)
        assert read.prompts_per_s[at] == pytest.approx(prompts_per_s(pool, ISL), rel=1e-9)
        matched = balance(Disaggregation(pool, Transfer(1e11)), pool, ISL, OSL)
        assert written.most_running[at] == pytest.approx(matched.running)
        assert written.answers_per_s[-1, at] == pytest.approx(matched.answers_per_s, rel=1e-6)
    assert np.all(read.bound_s <= read.alone_s)


@pytest.mark.parametrize("concurrency", [1.0, 8.0, 60.0, 400.0])
def test_a_closed_loop_through_both_pools_is_that_of_one_deployment(
    model, system, shapes, concurrency
):
    deployed = Deployment(model, system, ENGINE)
    read = prefill_workers(deployed, shapes, ISL)
    written = decode_workers(deployed, shapes, ISL, OSL, OSL - 1.0)
    pairs = [(0, 0, 1, 1), (1, 0, 2, 3), (0, 2, 1, 4), (2, 1, 1, 2)]
    first, second, readers, writers = (np.array(column) for column in zip(*pairs, strict=True))
    transfer = Transfer(5e10, 1e-4)
    travel = np.maximum(read.cache_bytes[first], written.cache_bytes[second]) / 5e10 + 1e-4
    which = Combinations(first, second, readers * 1.0, writers * 1.0, travel)
    load = pooled_load(read, written, which, OSL, concurrency=concurrency)
    for at, (i, j, reading, writing) in enumerate(pairs):
        pool = Disaggregation(one(deployed, shapes, i, reading), transfer)
        alone = closed_loop(pool, one(deployed, shapes, j, writing), ISL, OSL, concurrency)
        assert load.requests_per_s[at] == pytest.approx(alone.requests_per_s, rel=0.02)
        assert load.tpot_s[at] == pytest.approx(alone.tpot_s, rel=0.03)


def test_the_open_requests_of_a_closed_loop_are_those_that_are_somewhere(model, system, shapes):
    """Little's law: nothing is lost between reading, travelling and answering."""
    deployed = Deployment(model, system, ENGINE)
    read = prefill_workers(deployed, shapes, ISL)
    written = decode_workers(deployed, shapes, ISL, OSL, OSL - 1.0)
    first = second = np.zeros(4, dtype=int)
    which = Combinations(first, second, np.array([1.0, 2, 1, 3]), np.array([1.0, 1, 4, 2]),
                         np.full(4, 1e-3))  # fmt: skip
    load = pooled_load(read, written, which, OSL, concurrency=100.0)
    lasting = load.ttft_s + load.tpot_s * (OSL - 1.0)
    assert load.requests_per_s * lasting == pytest.approx(np.full(4, 100.0), rel=1e-6)
    answered = load.running * which.decode_workers / (load.requests_per_s * (OSL - 1.0))
    assert load.tpot_s == pytest.approx(answered + 1e-3 / (OSL - 1.0), rel=1e-9)


def test_more_workers_never_slow_a_rate_down_and_too_few_do_not_sustain_it(model, system, shapes):
    deployed = Deployment(model, system, ENGINE)
    read = prefill_workers(deployed, shapes, ISL)
    written = decode_workers(deployed, shapes, ISL, OSL, OSL - 1.0)
    workers = np.arange(1.0, 9.0)
    none = np.zeros(8, dtype=int)
    which = Combinations(none, none, workers, workers, np.zeros(8))
    rate = 2.5 * read.prompts_per_s[0]
    load = pooled_load(read, written, which, OSL, rate_per_s=float(rate))
    assert np.all(np.diff(load.use) < 0.0)
    held = load.use < 1.0
    assert not held[:2].any()
    assert np.all(np.isinf(load.ttft_s[~held]))
    assert np.all(np.diff(load.ttft_s[held]) <= 0.0) and np.all(np.diff(load.tpot_s[held]) <= 1e-12)
    assert np.all(load.tpot_s[held] >= load.bound_tpot_s[held])
