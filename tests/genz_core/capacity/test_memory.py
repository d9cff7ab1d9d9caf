"""What a device holds, whether it fits, and the largest size that would."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import genz_core
from genz_core.capacity.memory import memory, prefill_chunk
from genz_core.engine import EngineProfile
from genz_core.types import Parallelism, Workload
from tests.draws import cases

ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9, kv_block_tokens=16)
KV_PER_TOKEN = 4 * 2 * 4 * 64 * 2  # layers, keys and values, KV heads, head size, bytes


def weigh(model, system, load=None, split=None):
    return memory(model, system, load or Workload(), split or Parallelism(), ENGINE)


def test_weights_are_the_parameters_in_their_format(model, system):
    assert weigh(model, system).weights_bytes[0] == pytest.approx(2 * model.parameters)


def test_the_cache_holds_whole_blocks_of_prompt_and_output(model, system):
    cache = weigh(model, system, Workload(3, 100, 10)).kv_bytes[0]
    assert cache == 3 * 112 * KV_PER_TOKEN


def test_tensor_parallel_splits_the_cache_until_the_kv_heads_run_out(model, system):
    load = Workload(1, 1024, 16)
    whole, quarter, eighth = (
        weigh(model, system, load, Parallelism(tp=tp)).kv_bytes[0] for tp in (1, 4, 8)
    )
    assert quarter == whole / 4 and eighth == quarter


def test_a_pipeline_is_weighed_at_its_fullest_stage(model, system):
    single, double = (weigh(model, system, split=Parallelism(pp=pp)) for pp in (1, 2))
    layers = 2 * (model.parameters - 2 * 1000 * 512 - 512)
    table = 2 * 1000 * 512
    assert single.weights_bytes[0] == pytest.approx(layers + 2 * table + 2 * 512)
    assert double.weights_bytes[0] == pytest.approx(layers / 2 + table + 2 * 512)


def test_what_does_not_fit_says_which_part_and_what_to_do(model, system):
    small = replace(system, memory_bytes=1.2e9)
    tight = weigh(model, small, Workload(64, 8000, 1000))
    assert not tight.fits[0]
    assert "KV cache 2.4 GB" in tight.reason() and "8-bit KV cache" in tight.reason()
    assert weigh(model, system).reason() == ""


@settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    max_examples=cases(25),
)
@given(st.integers(1, 4000), st.integers(1, 500))
def test_the_largest_batch_fits_and_one_more_does_not(model, system, isl, osl):
    load = Workload(1, isl, osl)
    most = genz_core.max_batch(model, system, load, Parallelism(), ENGINE)
    fits = weigh(model, system, Workload(np.array([most, most + 1]), isl, osl)).fits
    assert fits.tolist() == [True, False]


def test_the_longest_context_fits_and_one_block_more_does_not(model, system):
    load = Workload(4, 1, 128)
    most = genz_core.max_context(model, system, load, Parallelism(), ENGINE)
    fits = weigh(model, system, Workload(4, np.array([most, most + 16]), 128)).fits
    assert fits.tolist() == [True, False]


@pytest.mark.parametrize(
    ("capacity", "reserve"), [(80e9, 1e9), (16e9, 1e9), (8e9, 0.5e9), (0.5e9, 0.03125e9)]
)
def test_the_runtime_keeps_a_sixteenth_of_a_small_device(model, system, capacity, reserve):
    weighed = weigh(model, replace(system, memory_bytes=capacity))
    assert weighed.reserve_bytes[0] == reserve


def test_nothing_fits_where_the_weights_alone_are_too_large(model, system):
    tiny = replace(system, memory_bytes=2 * model.parameters)
    assert genz_core.max_batch(model, tiny, Workload(), Parallelism(), ENGINE) == 0


@given(st.integers(1, 300), st.integers(1, 40_000))
def test_a_chunk_of_prompts_never_exceeds_the_tokens_of_a_step(batch, isl):
    engine = EngineProfile(chunk_tokens=8192)
    chunk = prefill_chunk(Workload(batch, isl, 1), engine)
    assert float(chunk.tokens) == pytest.approx(min(batch * isl, 8192))


@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("isl", [100, 2611, 20_000])
def test_a_replica_holds_what_a_deployment_of_its_own_holds(model, system, ranks, isl):
    """Each data-parallel rank forms chunks of its own."""
    engine = EngineProfile(chunk_tokens=8192)
    alone, together = (
        memory(model, system, Workload(4 * dp, isl, 100), Parallelism(dp=dp), engine)
        for dp in (1, ranks)
    )
    assert together.activations_bytes[0] == pytest.approx(alone.activations_bytes[0])
    assert together.kv_bytes[0] == alone.kv_bytes[0]
