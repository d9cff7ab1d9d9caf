"""What does not fit is offloaded to the host and costs its link's time."""

from __future__ import annotations

from dataclasses import replace

import pytest

import genz_core
import model_registry
from genz_core.engine import EngineProfile
from genz_core.errors import MissingSpec
from genz_core.types import Workload

ENGINE = EngineProfile(reserve_bytes=0.0, memory_fraction=1.0)


@pytest.fixture
def small(system):
    """10 MB too small for the weights, 10 GB/s to a host with 1 GB, 1 GB/s to disk."""
    return replace(
        system,
        memory_bytes=30e6,
        host_bytes_per_s=10e9,
        host_memory_bytes=1e9,
        disk_bytes_per_s=1e9,
    )


def price(model, system, spill=None, batch=1):
    load = Workload(batch, 64, 8)
    return genz_core.estimate(model, system, load, engine=ENGINE, spill=spill, on_error="status")


def test_without_offload_it_does_not_fit_and_with_it_it_does(model, small):
    assert price(model, small).status[0] == "out_of_memory"
    moved = price(model, small, "weights")
    assert moved.status[0] == "ok"
    over = moved.memory.total_bytes[0] - small.memory_bytes
    assert moved.offload.host_bytes[0] == pytest.approx(over)


def test_what_was_moved_is_not_on_the_device(model, small):
    moved = price(model, small, "weights")
    assert moved.fits[0] and not moved.memory.fits[0]
    assert moved.memory_bytes[0] == pytest.approx(small.memory_bytes)
    assert moved.memory_bytes[0] + moved.offloaded_bytes[0] == moved.memory.total_bytes[0]


def test_every_step_reads_what_was_moved(model, small):
    plain, moved = price(model, small), price(model, small, "weights")
    transfer = moved.offload.host_bytes[0] / 10e9
    assert moved.tpot_s[0] == pytest.approx(plain.tpot_s[0] + transfer)
    assert moved.ttft_s[0] == pytest.approx(plain.ttft_s[0] + transfer)


def test_what_the_host_cannot_hold_goes_to_disk(model, small):
    tight = replace(small, host_memory_bytes=1e6)
    moved = price(model, tight, "weights").offload
    assert moved.host_bytes[0] == 1e6 and moved.disk_bytes[0] > 0
    assert moved.step_s[0] == pytest.approx(1e6 / 10e9 + moved.disk_bytes[0] / 1e9)


def test_moving_the_cache_does_not_help_weights_that_do_not_fit(model, small):
    assert price(model, small, "kv").status[0] == "out_of_memory"


def test_a_system_without_a_host_link_says_so(model, system):
    with pytest.raises(MissingSpec, match="no known host link"):
        price(model, replace(system, memory_bytes=30e6), "weights")


def test_what_fits_moves_nothing(model, small):
    roomy = replace(small, memory_bytes=10e9)
    moved = price(model, roomy, "weights")
    assert moved.offload.step_s[0] == 0 and moved.tpot_s == price(model, roomy).tpot_s


EXPERTS = model_registry.load("openai/gpt-oss-20b")


def experts(system, spill, batch=1, isl=64):
    tight = replace(system, memory_bytes=9e9, host_bytes_per_s=10e9, host_memory_bytes_per_s=80e9)
    load = Workload(batch, isl, 8)
    return genz_core.estimate(EXPERTS, tight, load, engine=ENGINE, spill=spill)


def test_a_step_reads_the_moved_experts_that_its_tokens_reach(system):
    moved = experts(system, "weights").offload
    assert moved.expert_bytes == pytest.approx(moved.host_bytes) and moved.host_bytes > 3e9
    free = replace(system, memory_bytes=1e12)
    plain = genz_core.estimate(EXPERTS, free, Workload(1, 64, 8), engine=ENGINE)
    reached = experts(system, "weights").tpot_s - plain.tpot_s
    assert reached == pytest.approx(moved.step_s * 4 / 32)  # 4 of 32 experts per token


def test_the_host_computes_the_experts_of_few_tokens_and_carries_those_of_many(system):
    carried, worked = (experts(system, spill) for spill in ("weights", "experts"))
    assert worked.tpot_s < carried.tpot_s
    assert worked.ttft_s == pytest.approx(carried.ttft_s)  # 64 tokens


def test_without_the_bandwidth_of_the_host_no_experts_are_computed_there(model, small):
    with pytest.raises(MissingSpec, match="no known host memory bandwidth"):
        price(model, small, "experts")


def test_a_dense_model_has_no_experts_to_move(model, small):
    able = replace(small, host_memory_bytes_per_s=80e9)
    assert price(model, able, "experts").status[0] == "out_of_memory"
