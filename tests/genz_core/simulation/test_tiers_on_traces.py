"""Hits of each tier on recorded traffic: the simulator, a replay by stack distances, closed form.

The traces are cuts that ship; RIDGELINE_TRACES names a folder of whole ones to replay beside them.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from app.simulation import trace_file
from genz_core.engine import EngineProfile
from genz_core.serving.cache_tiers import CacheTier, characteristic_time, found_share
from genz_core.serving.simulation import Options, Requests, StepTime, simulate
from tests.draws import cases, seed
from tests.lru_replay import Recency, replay

HERE = Path(__file__).parents[2] / "fixtures" / "traces"
FOLDERS = [HERE, *map(Path, filter(None, [os.environ.get("RIDGELINE_TRACES")]))]
#: of each folder those with what prompts share, and the two that are cut beside them
TRACES = [
    file
    for folder in FOLDERS
    for file in sorted([*folder.glob("*.jsonl.gz"), *folder.glob("azure2023_*.gz")])
]
ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9)
TOKEN = 4 * 2 * 4 * 64 * 2.0
ON_DEVICE = 250_000.25
#: Blocks of a host, a disk and a remote memory; the whole traces reuse some ten thousand blocks.
SIZES = (800, 3_000, 12_000)


def called(file: Path) -> str:
    return f"{'cut' if file.parent == HERE else 'whole'} {file.name.split('.')[0]}"


every_trace = pytest.mark.parametrize("file", TRACES, ids=called)
shared_ones = pytest.mark.parametrize(
    "file", [file for file in TRACES if "mooncake" in file.name],
    ids=called,
)  # fmt: skip


@cache
def requests(file: Path) -> Requests:
    """An hour at most."""
    drawn = trace_file.read(file).requests
    return drawn.first(int(np.searchsorted(drawn.arrival_s, 3600.0)))


def at_once(ranks):
    """A step that takes next to no time."""
    return StepTime(1e-3, 1e-3)


def served(model, system, load, sizes=SIZES):
    block = load.block_tokens * TOKEN
    names = ("host", "disk", "remote")
    tiers = [CacheTier(n, (b + 0.5) * block, 1e12) for n, b in zip(names, sizes, strict=False)]
    told = Options(max_num_seqs=1, kv_tokens=ON_DEVICE, tiers=tuple(tiers))
    return simulate(model, system, load, engine=ENGINE, options=told, price=at_once)


def rows(load: Requests) -> list[tuple[int, int, tuple[int, ...]]]:
    prefixes = load.prefix or [()] * len(load)
    columns = zip(load.input_tokens, load.output_tokens, prefixes, strict=True)
    return [(int(prompt), int(output), tuple(prefix)) for prompt, output, prefix in columns]


@every_trace
def test_hits_of_each_tier_are_those_of_a_replay(file, model, system):
    load = requests(file)
    run = served(model, system, load)
    assert run.ended.all()
    below = [run.tier_tokens[name] for name in ("host", "disk", "remote")]
    found = np.array([run.cached_tokens - sum(below), *below]).T / load.block_tokens
    wanted = np.array(replay(rows(load), load.block_tokens, ON_DEVICE, SIZES))
    assert np.array_equal(found, wanted)
    assert bool(wanted.any()) == ("mooncake" in file.name), "only these say what prompts share"


@every_trace
def test_a_trace_without_tiers_is_served_as_with_tiers_that_hold_nothing(file, model, system):
    load = requests(file)
    none = served(model, system, load, ())
    empty = served(model, system, load, (0.0,))
    for column in ("ttft_s", "tpot_s", "e2e_s", "queue_s", "cached_tokens"):
        assert np.array_equal(getattr(none, column), getattr(empty, column), equal_nan=True)


@shared_ones
@pytest.mark.parametrize("blocks", [1_000, 4_000])
def test_the_closed_form_finds_what_a_replay_does(file, blocks):
    """Each use of a block is a unit of time: the pause until the next is counted in uses."""
    load = requests(file)
    uses = [name for prompt, _, names in rows(load) for name in names[: prompt // 512]]
    recency, hits = Recency(), 0
    last: dict[int, int] = {}
    pauses = np.full(len(uses), np.inf)
    for at, name in enumerate(uses):
        hits += recency.distance(name) < blocks
        recency.use(name)
        if name in last:
            pauses[last[name]] = at - last[name]
        last[name] = at
    rates = np.full(len(uses), 1.0 / len(uses))
    time = characteristic_time(pauses, rates, blocks)
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
