"""Jitter of steps and deliveries: its effect on gaps, and what must not change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.engine import EngineProfile
from genz_core.serving.simulation import Requests, simulate
from genz_core.serving.simulation.jitter import Jitter
from genz_core.types import Parallelism
from tests.genz_core.simulation.loads import EVEN, Linear, requests

CALM = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9, host_request_s=2e-3)
JITTERS = replace(CALM, step_jitter=0.02, delivery_jitter=0.015)
STEP_S = 0.01
BUSY = Linear(STEP_S)
either = pytest.mark.parametrize(
    ("step", "delivery"), [(0.02, 0.0), (0.0, 0.015), (0.02, 0.015), (0.1, 0.05)]
)


def served(model, system, engine=JITTERS, load=None, price=BUSY, **more):
    return simulate(
        model, system, load or requests(600, osl=100), engine=engine, price=price, **more
    )


def moments(run):
    """Mean and standard deviation of the gaps between tokens [s]."""
    mean = np.average(run.gaps_s, weights=run.gap_counts)
    return mean, np.sqrt(np.average((run.gaps_s - mean) ** 2, weights=run.gap_counts))


# ------------------------------------------------------------------------------- the draws


@pytest.mark.parametrize("steps", [1, 4, 100])
@pytest.mark.parametrize("step", [0.02, 0.3])
def test_steps_have_a_mean_of_one_and_spread_as_the_engine_states(step, steps):
    jitter = Jitter(step, 0.0, np.random.default_rng(0))
    factors = np.array([jitter.factor(steps) for _ in range(40_000)])
    assert factors.mean() == pytest.approx(1.0, abs=4 * step / np.sqrt(steps * 40_000))
    assert factors.std() == pytest.approx(step / np.sqrt(steps), rel=0.04)


def test_deliveries_spread_by_a_share_of_their_step_about_their_mean():
    jitter = Jitter(0.0, 0.05, np.random.default_rng(0))
    late = np.array([jitter.late_s(0.2) for _ in range(40_000)])
    assert late.mean() == pytest.approx(0.0, abs=4 * 0.01 / np.sqrt(40_000))
    assert late.std() == pytest.approx(0.01, rel=0.03) and late.min() >= -0.01


def test_no_jitter_draws_nothing():
    generator = np.random.default_rng(0)
    calm = Jitter(0.0, 0.0, generator)
    assert calm.factor(1) == 1.0 and calm.late_s(1.0) == 0.0
    assert generator.random() == np.random.default_rng(0).random()


# ------------------------------------------------------------------------------- gaps


@either
@pytest.mark.parametrize("count", [1, 40])
def test_gaps_spread_by_a_step_and_by_two_deliveries(model, system, step, delivery, count):
    """Whether steps are simulated one by one or in stretches."""
    engine = replace(CALM, step_jitter=step, delivery_jitter=delivery)
    load = Requests(np.arange(count) * 0.5, np.full(count, 10.0), np.full(count, 2001.0))
    mean, spread = moments(served(model, system, engine, load, EVEN))
    assert mean == pytest.approx(STEP_S, rel=4e-3 + delivery**2)
    assert spread == pytest.approx(STEP_S * np.sqrt(step**2 + 2 * delivery**2), rel=0.1)


@either
def test_every_gap_is_counted_once(model, system, step, delivery):
    engine = replace(CALM, step_jitter=step, delivery_jitter=delivery)
    run = served(model, system, engine, concurrency=32)
    assert run.gap_counts.sum() == pytest.approx((run.requests.output_tokens - 1).sum())
    assert run.ended.all() and (run.gap_counts > 0).all()


# ------------------------------------------------------------------------------- what stays


def test_the_same_seed_gives_the_same_answers_and_another_one_others(model, system):
    first, again, other = (served(model, system, seed=seed, concurrency=32) for seed in (1, 1, 2))
    assert np.array_equal(first.e2e_s, again.e2e_s)
    assert np.array_equal(first.gap_counts, again.gap_counts)
    assert not np.array_equal(first.e2e_s, other.e2e_s)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("scheduler", ["vllm", "sglang", "tensorrt_llm"])
@pytest.mark.parametrize(
    "offered",
    [
        {"concurrency": 4},
        {"concurrency": 32},
        {"load": requests(1200, osl=100, rate=15.0)},
        {"concurrency": 32, "parallelism": Parallelism(pp=2)},
    ],
)
def test_means_stay(model, system, scheduler, offered):
    engines = (replace(engine, scheduler=scheduler) for engine in (CALM, JITTERS))
    offered = {"load": requests(600, osl=100), **offered}
    calm, jitters = (served(model, system, engine, **offered).summary() for engine in engines)
    for name in ("tpot_mean_s", "e2e_mean_s", "itl_mean_s", "output_tokens_per_s"):
        assert jitters[name] == pytest.approx(calm[name], rel=0.005), name
    assert jitters["ttft_mean_s"] == pytest.approx(calm["ttft_mean_s"], rel=0.02)


@pytest.mark.parametrize("way_s", [0.0, 2e-3, 1.0])
def test_deliveries_move_no_step_and_only_the_next_request_of_a_user(model, system, way_s):
    """By no more than the time of a request on its way to the scheduler: no effect before its
    cause.
    """
    calm = replace(CALM, host_request_s=way_s)
    turns = Requests([0.0, 2.0], [100, 100], [20, 20], after=[-1, 0])
    plain, moved = (
        served(model, system, engine, turns, EVEN)
        for engine in (calm, replace(calm, delivery_jitter=0.5))
    )
    assert moved.ttft_s == pytest.approx(plain.ttft_s)
    assert moved.e2e_s == pytest.approx(plain.e2e_s)
    apart = abs(moved.arrival_s[1] - plain.arrival_s[1])
    assert apart <= way_s and (apart > 0) == (way_s > 0)


def test_equal_requests_that_end_in_one_step_stay_in_one_wave(model, system):
    """A step's jitter is the same for all of its sequences, so it separates none of them."""
    equal = Requests(np.zeros(160), np.full(160, 400.0), np.full(160, 100.0))
    calm, jitters = (
        served(model, system, engine, equal, concurrency=16) for engine in (CALM, JITTERS)
    )
    assert jitters.steps == pytest.approx(calm.steps, rel=0.1)
