"""Hits of each tier on recorded traffic: the simulator, a replay by stack distances, closed form.

The beginning of each trace by day, all of it at night.
"""

from __future__ import annotations

import numpy as np
import pytest

from genz_core.serving.cache_tiers import CacheTier, characteristic_time, found_share
from genz_core.serving.simulation import Options, StepTime, simulate
from tests.draws import cases, seed
from tests.genz_core.simulation.loads import ENGINE
from tests.lru_replay import Recency, replay, rows
from tests.recorded_traces import NAMES, SHARING, requests

TOKEN = 4 * 2 * 4 * 64 * 2.0
ON_DEVICE = 250_000.25
#: Blocks of a host, a disk and a remote memory; the whole traces reuse some ten thousand blocks.
SIZES = (800, 3_000, 12_000)


def beginnings_and_wholes(names):
    """Cases (name, number of requests): by day the beginning of each, at night all."""
    by_day = [(name, 700 if name in SHARING else 1000) for name in names]
    night = [pytest.param(name, 0, marks=pytest.mark.slow) for name in names]
    return pytest.mark.parametrize(("name", "count"), [*by_day, *night])


every_trace = beginnings_and_wholes(NAMES)
sharing_traces = beginnings_and_wholes(SHARING)


def at_once(ranks):
    """A step that takes next to no time."""
    return StepTime(1e-3, 1e-3)


def served(model, system, load, sizes=SIZES):
    block = load.block_tokens * TOKEN
    names = ("host", "disk", "remote")
    tiers = [CacheTier(n, (b + 0.5) * block, 1e12) for n, b in zip(names, sizes, strict=False)]
    told = Options(max_num_seqs=1, kv_tokens=ON_DEVICE, tiers=tuple(tiers))
    return simulate(model, system, load, engine=ENGINE, options=told, price=at_once)


@every_trace
def test_hits_of_each_tier_are_those_of_a_replay(name, count, model, system):
    load = requests(name, count)
    run = served(model, system, load)
    assert run.ended.all()
    below = [run.tier_tokens[tier] for tier in ("host", "disk", "remote")]
    found = np.array([run.cached_tokens - sum(below), *below]).T / load.block_tokens
    wanted = np.array(replay(rows(load), load.block_tokens, ON_DEVICE, SIZES))
    assert np.array_equal(found, wanted)
    assert bool(wanted.any()) == (name in SHARING), "only these say what prompts share"


@every_trace
def test_a_trace_without_tiers_is_served_as_with_tiers_that_hold_nothing(
    name, count, model, system
):
    load = requests(name, count)
    none = served(model, system, load, ())
    empty = served(model, system, load, (0.0,))
    for column in ("ttft_s", "tpot_s", "e2e_s", "queue_s", "cached_tokens"):
        assert np.array_equal(getattr(none, column), getattr(empty, column), equal_nan=True)


@sharing_traces
@pytest.mark.parametrize("capacity", [1_000, 4_000])
def test_the_closed_form_finds_what_a_replay_does(name, count, capacity):
    """Each use of a block is a unit of time: the pause until the next is counted in uses."""
    load = requests(name, count)
    uses = [used for prompt, _, blocks in rows(load) for used in blocks[: prompt // 512]]
    recency, hits = Recency(), 0
    last: dict[int, int] = {}
    pauses = np.full(len(uses), np.inf)
    for at, used in enumerate(uses):
        hits += recency.distance(used) < capacity
        recency.use(used)
        if used in last:
            pauses[last[used]] = at - last[used]
        last[used] = at
    rates = np.full(len(uses), 1.0 / len(uses))
    time = characteristic_time(pauses, rates, capacity)
    assert found_share(pauses, rates, time) == pytest.approx(hits / len(uses), abs=0.04)


@pytest.mark.draws
def test_the_closed_form_is_ches_where_uses_are_independent():
    """Blocks of Zipf's popularity, used at random: shares of a replay within two in a hundred."""
    for at in range(cases(2)):
        generator = np.random.default_rng(seed(6) + at)
        shares = 1.0 / np.arange(1, 501) ** generator.uniform(0.6, 1.1)
        shares /= shares.sum()
        capacity = int(generator.integers(20, 300))
        recency, hits = Recency(), 0
        for use, name in enumerate(generator.choice(500, 12_000, p=shares).tolist()):
            hits += use >= 4_000 and recency.distance(name) < capacity
            recency.use(name)
        points = -np.log1p(-(np.arange(400) + 0.5) / 400)
        pauses = (points[None] / shares[:, None]).ravel()
        rates = np.repeat(shares / 400, 400)
        time = characteristic_time(pauses, rates, capacity)
        assert found_share(pauses, rates, time) == pytest.approx(hits / 8_000, abs=0.02)


def test_a_cache_with_room_for_all_keeps_all():
    assert characteristic_time(np.array([1.0, 5.0]), np.array([2.0, 1.0]), 100.0) == np.inf
    assert characteristic_time(np.array([1.0]), np.array([1.0]), 0.0) == 0.0


def test_the_characteristic_time_by_hand():
    """Two blocks a second asked for again after 4 s, one a second never again."""
    pauses, rates = np.array([4.0, np.inf]), np.array([2.0, 1.0])
    assert characteristic_time(pauses, rates, 6.0) == pytest.approx(2.0)
    assert characteristic_time(pauses, rates, 14.0) == pytest.approx(6.0)
    assert found_share(pauses, rates, 2.0) == 0.0
    assert found_share(pauses, rates, 6.0) == pytest.approx(2 / 3)
