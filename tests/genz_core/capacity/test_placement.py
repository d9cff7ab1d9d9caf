"""Weights and cache in two memories: laws of their placement and of the time to read them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genz_core
import model_registry
from genz_core.capacity.placement import _least_read_first
from genz_core.devices.memory_levels import MemoryLevel
from genz_core.engine import EngineProfile
from genz_core.errors import MissingSpec
from genz_core.types import Parallelism, Workload
from tests.draws import cases, seed

ENGINE = EngineProfile(reserve_bytes=0.0, memory_fraction=1.0)
DENSE = model_registry.load("Qwen/Qwen3-8B")
EXPERTS = model_registry.load("openai/gpt-oss-20b")
CASES = [(DENSE, Parallelism(), 1, 1024), (DENSE, Parallelism(pp=2), 32, 4096),
         (DENSE, Parallelism(tp=2), 64, 2048), (EXPERTS, Parallelism(), 1, 512),
         (EXPERTS, Parallelism(ep=2, tp=2), 16, 8192)]  # fmt: skip


def two(system, first=10e9, second=1e12, rate=400e9, holds=("weights", "cache")):
    return replace(
        system, memory_bytes=first, second_memory=MemoryLevel("second", second, rate, holds)
    )


def price(model, system, batch=1, isl=1024, split=None, osl=64):
    load = Workload(batch, isl, osl)
    return genz_core.estimate(
        model, system, load, split or Parallelism(), ENGINE, "levels", on_error="status"
    )


def latencies(estimate):
    return np.array(
        [estimate.ttft_s, estimate.tpot_s, estimate.bound_ttft_s, estimate.bound_tpot_s]
    )[:, 0]


@pytest.mark.by_day(5)
@pytest.mark.parametrize(("model", "split", "batch", "isl"), CASES)
@pytest.mark.parametrize("what", ["first", "second", "rate"])
def test_more_room_or_bandwidth_never_slows(system, model, split, batch, isl, what):
    sizes = {"first": [6e9, 7e9, 9e9, 15e9, 40e9, 1e12], "second": [1e11, 2e11, 1e12],
             "rate": [50e9, 100e9, 900e9, system.memory_bytes_per_s]}[what]  # fmt: skip
    found = [
        latencies(price(model, two(system, **{what: size}), batch, isl, split)) for size in sizes
    ]
    assert np.all(np.diff(found, axis=0) <= 1e-12)


@pytest.mark.parametrize(("model", "split", "batch", "isl"), CASES)
def test_what_fits_the_first_memory_is_priced_as_without_a_second(system, model, split, batch, isl):
    roomy = replace(system, memory_bytes=1e13)
    plain = genz_core.estimate(model, roomy, Workload(batch, isl, 64), split, ENGINE)
    both = price(model, two(system, first=1e13), batch, isl, split)
    assert np.array_equal(latencies(both), latencies(plain))
    assert both.memory.second_bytes[0] == 0.0


@pytest.mark.parametrize(("model", "split", "batch", "isl"), CASES)
def test_a_second_memory_as_fast_as_the_first_is_more_of_the_first(
    system, model, split, batch, isl
):
    plain = price(model, two(system, first=1e13), batch, isl, split)
    alike = price(model, two(system, rate=system.memory_bytes_per_s), batch, isl, split)
    assert latencies(alike) == pytest.approx(latencies(plain), rel=1e-12)


@pytest.mark.parametrize(("model", "split", "batch", "isl"), CASES)
def test_no_prediction_lies_below_its_bound(system, model, split, batch, isl):
    priced = price(model, two(system, first=7e9), batch, isl, split)
    assert priced.memory.second_bytes[0] > 0 or split.devices > 1
    assert priced.tpot_s >= priced.bound_tpot_s and priced.ttft_s >= priced.bound_ttft_s


def test_a_decode_step_reads_each_share_at_the_bandwidth_of_its_memory(system):
    """For one sequence of a dense model every product is memory-bound, so each share is
    read whole.
    """
    tight, roomy = two(system), two(system, first=1e13)
    priced, plain = price(DENSE, tight), price(DENSE, roomy)
    far = sum(
        np.average(np.broadcast_to(priced.decode.op(row).far_bytes, (3,)), weights=(5, 8, 5)) * runs
        for row, runs in enumerate(priced.decode.runs)
    )
    slower = far * (1 / 400e9 - 1 / system.memory_bytes_per_s)
    assert priced.bound_tpot_s[0] == pytest.approx(plain.bound_tpot_s[0] + slower)
    assert priced.tpot_s[0] == pytest.approx(plain.tpot_s[0] + slower)
    moved = priced.offload
    assert moved.host_bytes[0] == pytest.approx(priced.memory.total_bytes[0] - 10e9)
    embedding = DENSE.graph(genz_core.Step.decode(1.0, 1.0), Parallelism()).ops[0]
    assert far == pytest.approx(moved.host_bytes[0] - embedding.held_weight_bytes, rel=0.02)


def test_arithmetic_hides_what_it_takes_longer_than(system):
    """A long prompt uses each weight often, so the far share costs nothing until that memory is
    slow.
    """
    tight = price(DENSE, two(system, first=15e9), 4, 8192)
    roomy = price(DENSE, two(system, first=1e13), 4, 8192)
    assert tight.bound_ttft_s[0] == pytest.approx(roomy.bound_ttft_s[0], rel=0.01)
    assert tight.bound_tpot_s[0] > 1.05 * roomy.bound_tpot_s[0]


def test_experts_that_few_tokens_reach_go_first(system):
    priced = price(EXPERTS, two(system, first=10e9))
    far = {"moe": 0.0, "gemm": 0.0}
    for op in priced.decode.graph.ops:
        if op.kind in far:
            far[op.kind] = max(far[op.kind], float(np.max(op.far_weights)))
    assert far["moe"] > 0.0 and far["gemm"] == 0.0


@pytest.mark.draws
def test_no_other_order_reads_less_of_the_slow_memory():
    """Compared with every order in which random items could be offloaded."""
    from itertools import permutations

    chance = np.random.default_rng(seed(7))
    for _ in range(cases(20)):
        held, share = chance.uniform(1.0, 9.0, 5), chance.uniform(0.0, 1.0, 5)
        over = chance.uniform(0.0, held.sum())
        far = _least_read_first(held[:, None], (held * share)[:, None], np.array([over]))[:, 0]
        assert far.sum() == pytest.approx(over) and np.all((far >= 0) & (far <= held))
        least = np.inf
        for order in permutations(range(5)):
            left, read = over, 0.0
            for item in order:
                taken = min(left, held[item])
                left, read = left - taken, read + taken * share[item]
            least = min(least, read)
        assert far @ share == pytest.approx(least)


def test_arrays_equal_scalars(system):
    tight, batches = two(system, first=12e9), [1, 16, 256]
    together = genz_core.estimate(
        DENSE, tight, Workload(np.array(batches), 2048, 64), None, ENGINE, "levels",
        on_error="status",
    )  # fmt: skip
    for at, batch in enumerate(batches):
        alone = price(DENSE, tight, batch, 2048)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-12)
        assert together.bound_ttft_s[at] == pytest.approx(alone.bound_ttft_s[0], rel=1e-12)
        assert together.offload.cache_bytes[at] == pytest.approx(alone.offload.cache_bytes[0])


def test_a_store_of_weights_takes_no_cache(system):
    weights = two(system, first=12e9, holds=("weights",))
    assert price(DENSE, weights).offload.cache_bytes[0] == 0.0
    assert price(DENSE, weights).status[0] == "ok"
    assert price(DENSE, weights, 64, 8192).status[0] == "out_of_memory"
    cache = two(system, first=18e9, holds=("cache",))
    moved = price(DENSE, cache, 64, 2048)
    assert moved.status[0] == "ok" and moved.offload.cache_bytes[0] == moved.offload.host_bytes[0]


def test_the_largest_batch_counts_both_memories(system):
    tight = two(system, first=20e9, second=50e9)
    case = (DENSE, tight, Workload(1, 1024, 64), Parallelism(), ENGINE)
    alone, both = genz_core.max_batch(*case), genz_core.max_batch(*case, second=True)
    assert both > 5 * alone
    assert price(DENSE, tight, both).status[0] == "ok"
    assert price(DENSE, tight, both + 1).status[0] == "out_of_memory"


def test_a_system_without_a_second_memory_says_so(system):
    with pytest.raises(MissingSpec, match="no second memory"):
        price(DENSE, system)
