"""Users who send their next request when the last is answered: waits, steps and memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.serving import Traffic, sequences_that_fit, serve
from genz_core.types import Parallelism, Workload
from genz_core.workload import estimate
from tests.genz_core.serving.closed_loops import ENGINE, closed


@pytest.mark.parametrize("isl", [1, 100, 8000])
@pytest.mark.parametrize("osl", [2, 128, 2000])
def test_one_user_of_an_idle_engine_waits_for_its_own_prompt_alone(model, system, isl, osl):
    alone = closed(model, system, 1, isl=isl, osl=osl)
    assert alone.tpot_s[0] == pytest.approx(alone.decode_step_s[0], rel=1e-6)
    assert alone.ttft_s[0] == pytest.approx(alone.prefill_s[0] + ENGINE.host_request_s, rel=1e-3)


@pytest.mark.parametrize("isl", [513, 600, 900, 1023, 1025, 3000, 8000])
@pytest.mark.parametrize("length_ratio", [0.8, 1.0])
def test_a_prompt_in_several_steps_is_read_in_its_prefill_time(model, system, isl, length_ratio):
    engine = replace(ENGINE, chunk_tokens=512, host_sequence_s=1e-4, kernel_floor_s=5e-6)
    alone = closed(model, system, 1, isl=isl, osl=64, length_ratio=length_ratio, engine=engine)
    assert alone.ttft_s[0] == pytest.approx(alone.prefill_s[0], rel=1e-3)
    two = closed(model, system, 2, isl=isl, osl=64, length_ratio=length_ratio, engine=engine)
    assert two.ttft_s[0] >= two.prefill_s[0]


@pytest.mark.parametrize("isl", [400, 1300])
def test_what_a_prompt_reads_from_the_host_is_part_of_its_prefill(model, system, isl):
    """10 MB more weights than the device holds, in steps of 512 tokens: three for 1,300."""
    small = replace(system, memory_bytes=30e6, host_bytes_per_s=10e9, host_memory_bytes=1e9)
    engine = replace(ENGINE, reserve_bytes=0.0, memory_fraction=1.0, chunk_tokens=512)
    alone = closed(model, small, 1, isl=isl, osl=8, spill="weights", engine=engine)
    plain = closed(model, system, 1, isl=isl, osl=8, engine=engine)
    read_s = float(np.ravel(alone.offloaded)[0]) / 10e9
    assert read_s > 1e-3
    passes = np.ceil(isl / 512)
    assert alone.prefill_s[0] == pytest.approx(plain.prefill_s[0] + passes * read_s, rel=1e-6)
    assert alone.decode_step_s[0] == pytest.approx(plain.decode_step_s[0] + read_s, rel=1e-6)
    assert alone.ttft_s[0] == pytest.approx(alone.prefill_s[0], rel=1e-3)
    assert alone.tpot_s[0] == pytest.approx(alone.decode_step_s[0], rel=1e-6)


def test_a_prompt_reaches_the_scheduler_after_its_tokens_were_counted(model, system):
    reads = replace(ENGINE, host_token_s=2e-6)
    plain, told = (closed(model, system, 1, isl=4000, engine=e) for e in (ENGINE, reads))
    assert told.ttft_s[0] - plain.ttft_s[0] == pytest.approx(4000 * 2e-6, rel=1e-6)
    assert told.prefill_s[0] == plain.prefill_s[0]
    assert told.tpot_s[0] == pytest.approx(plain.tpot_s[0], rel=1e-6)


def test_a_limit_of_sequences_is_that_of_an_engine_made_with_it(model, system):
    limited = closed(model, system, np.array([8, 64]), max_num_seqs=np.array([0, 16]))
    made = closed(model, system, np.array([64]), engine=replace(ENGINE, max_sequences=16))
    assert limited.tpot_s[1] == made.tpot_s[0]
    assert limited.ttft_s[1] == made.ttft_s[0]
    assert limited.running.tolist() == [8, 16]
    assert limited.tpot_s[0] == closed(model, system, np.array([8])).tpot_s[0]


def test_a_burst_at_the_start_delays_first_tokens_by_its_share_of_the_waves(model, system):
    steady, some, few = (
        serve(model, system, Traffic(isl=4000, concurrency=64, waves=waves), engine=ENGINE)
        for waves in (0, 10, 5)
    )
    assert some.ttft_s[0] > steady.ttft_s[0]
    assert few.ttft_s[0] > some.ttft_s[0]
    assert some.ttft_median_s[0] <= some.ttft_s[0]


def test_more_users_wait_longer_and_get_more_done(model, system):
    load = closed(model, system, np.array([1, 4, 16, 64, 256]))
    assert np.all(np.diff(load.ttft_s) > 0) and np.all(np.diff(load.tpot_s) >= 0)
    assert np.all(np.diff(load.output_tokens_per_s) > 0)
    assert np.all(np.diff(load.interactivity) <= 0)


def test_the_median_wait_is_never_above_the_mean(model, system):
    load = closed(model, system, np.array([1, 8, 64, 512]))
    assert np.all(load.ttft_median_s <= load.ttft_s)


def test_a_rank_holds_the_caches_of_its_own_sequences(model, system):
    """Eight users on two ranks: four caches of 1,000 + 100 tokens in addition to the weights."""
    load = Traffic(concurrency=8, isl=1000, osl=100)
    shared = serve(model, system, load, Parallelism(dp=2), ENGINE)
    weights = shared.memory.total_bytes - shared.memory.kv_bytes
    assert shared.memory_bytes - weights == pytest.approx(4 * shared.memory.kv_bytes)
    one = serve(model, system, Traffic(concurrency=1, isl=1000, osl=100), engine=ENGINE)
    assert one.memory_bytes == pytest.approx(one.memory.total_bytes)


def test_users_beyond_the_cache_wait_for_it(model, system):
    small = replace(system, memory_bytes=0.96e9)
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
    first = replace(ENGINE, mixed_steps=False)
    lengths = {"isl": 4000, "osl": 200, "length_ratio": 0.1}
    mixed, stalled = (closed(model, system, 64, engine, **lengths) for engine in (ENGINE, first))
    assert stalled.tpot_s[0] > mixed.tpot_s[0]


@pytest.mark.parametrize("isl", [1024, 1500, 4000])
def test_a_prompt_cut_into_pieces_takes_longer_than_a_whole_one(model, system, isl):
    whole = closed(model, system, 1, replace(ENGINE, chunk_tokens=0), isl=isl, osl=50)
    cut = closed(model, system, 1, replace(ENGINE, chunk_tokens=512), isl=isl, osl=50)
    pieces = int(np.ceil(isl / 512))
    least = whole.ttft_s[0] + (pieces - 1) * ENGINE.host_step_s
    assert cut.ttft_s[0] >= least * (1 - 1e-9)
    assert cut.tpot_s[0] == pytest.approx(whole.tpot_s[0])


@pytest.mark.parametrize("isl", [16, 256])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_with_few_prompts_serves_as_its_static_batch(model, system, isl, stages):
    split, engine = Parallelism(pp=stages), replace(ENGINE, host_step_s=0.0, host_sequence_s=0.0)
    traffic = Traffic(isl=isl, osl=1024, concurrency=256)
    served = serve(model, system, traffic, split, engine)
    static = estimate(model, system, Workload(256, isl, 1024), split, engine)
    assert served.output_tokens_per_s[0] == pytest.approx(static.output_tokens_per_s[0], rel=0.15)


def test_shorter_real_lengths_are_served_faster(model, system):
    full, real = (closed(model, system, 32, length_ratio=ratio) for ratio in (1.0, 0.8))
    assert real.ttft_s[0] < full.ttft_s[0]
    assert real.osl[0] == np.mean(range(103, 129))  # whole tokens from 0.8 of 128 on
