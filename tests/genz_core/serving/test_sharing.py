"""Shared prompts, branching requests, and weights or caches in host memory, in closed form."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core.capacity.memory import memory
from genz_core.capacity.offload import offload
from genz_core.deployment import deploy
from genz_core.errors import InvalidValue, MissingSpec
from genz_core.phases import decode_step
from genz_core.serving import Traffic, sequences_that_fit, serve
from genz_core.serving.offloaded_traffic import Banks, Spilled
from genz_core.serving.pools.workers import decode_workers, prefill_workers
from genz_core.serving.sharing import Sharing
from genz_core.serving.simulation import Requests, draws, simulate
from genz_core.types import Parallelism, Workload

LLAMA = model_registry.load("meta-llama/Llama-3.1-8B")
H100, ENGINE = hardware_db.load("h100-sxm5-80gb"), hardware_db.load_engine("vllm")
LOADS = [{"concurrency": 16}, {"rate_per_s": 4.0}]
KV_BYTES = 2 * 32 * 8 * 128 * 2  # per token: keys and values, layers, heads, width, bf16


def served(system=H100, model=LLAMA, **traffic):
    asked = {"isl": 4096, "osl": 256} | traffic
    return serve(model, system, Traffic(**asked), Parallelism(), ENGINE, on_error="status")


@pytest.mark.parametrize("load", LOADS)
def test_the_more_of_a_prompt_is_found_the_sooner_the_first_token(load):
    found = [served(sharing=Sharing(tokens), **load) for tokens in (0, 1024, 3072, 4000)]
    for name in ("ttft_s", "tpot_s", "bound_prefill_s"):
        values = [float(getattr(result, name)[0]) for result in found]
        assert values == sorted(values, reverse=True), name
    for result in found:
        assert result.ttft_s[0] >= result.bound_prefill_s[0]
        assert result.tpot_s[0] >= result.bound_decode_step_s[0]
    assert found[0].ttft_s[0] == served(**load).ttft_s[0]


@pytest.mark.parametrize("users", [4, 32])
@pytest.mark.parametrize("tokens", [0, 1024, 3072])
def test_hits_move_the_closed_form_as_they_move_the_simulation(tokens, users):
    """A closed loop of random lengths whose prompts start with the same tokens."""
    count, isl, ratio = users * 20, 4096 - tokens, 0.8
    engine = replace(ENGINE, measurements=None)
    generator = np.random.default_rng(1)
    requests = Requests(
        np.zeros(count),
        draws.uniform_lengths(count, isl, ratio, generator) + tokens,
        draws.uniform_lengths(count, 256, ratio, generator),
        prefix=[range(tokens // 64)] * count if tokens else (),
        block_tokens=64,
    )
    run = simulate(LLAMA, H100, requests, Parallelism(), engine, concurrency=users)
    late = run.arrival_s > run.arrival_s.max() * 0.2
    real = (1.0 + ratio) / 2.0
    sharing = Sharing(tokens / real, tokens)
    traffic = Traffic(round(isl + tokens / real), 256, users, length_ratio=ratio, sharing=sharing)
    closed = serve(LLAMA, H100, traffic, Parallelism(), engine)
    assert np.nanmean(run.tpot_s[late]) == pytest.approx(closed.tpot_s[0], rel=0.1)
    assert run.ttft_s[late].mean() == pytest.approx(closed.ttft_s[0], rel=0.25)


def test_a_prompt_that_all_share_is_held_once():
    load = Workload(1, 4096, 256)
    reserved = ENGINE.reserve_output
    alone = sequences_that_fit(LLAMA, H100, load, Parallelism(), ENGINE)
    single, fit = sequences_that_fit(LLAMA, H100, load, Parallelism(), ENGINE, Sharing(3072, 3072))
    own = (4096 - 3072 + 256 * reserved) * KV_BYTES
    assert single.kv_bytes[0] == pytest.approx(own, rel=0.05)
    room = alone[0].free_bytes[0] * ENGINE.free_share - 3072 * KV_BYTES
    assert fit[0] == pytest.approx(room / own, rel=0.05)
    assert fit[0] > 3 * alone[1][0]


def test_several_answers_hold_their_prompt_once():
    load = Workload(1, 4096, 256)
    single, _ = sequences_that_fit(
        LLAMA, H100, load, Parallelism(), ENGINE, Sharing(branches=4, kept=4)
    )
    own = (4096 + 4 * 256 * ENGINE.reserve_output) * KV_BYTES
    assert single.kv_bytes[0] == pytest.approx(own, rel=0.05)


def test_a_recurrent_state_is_held_by_every_answer():
    mamba = model_registry.load("state-spaces/mamba-2.8b")
    load = Workload(1, 4096, 256)
    one, four = (
        sequences_that_fit(mamba, H100, load, Parallelism(), ENGINE, sharing)[0].kv_bytes[0]
        for sharing in (Sharing(), Sharing(branches=4, kept=4))
    )
    assert four == pytest.approx(4 * one, rel=0.01)


@pytest.mark.parametrize("load", [{"concurrency": 16}, {"rate_per_s": 1.0}])
def test_answers_to_one_prompt_cost_less_than_requests_of_their_own(load):
    one = served(**load)
    many = served(sharing=Sharing(branches=4, kept=4), **load)
    apart = served(**{name: 4 * value for name, value in load.items()})
    beams = served(sharing=Sharing(branches=4, kept=1), **load)
    assert one.tpot_s[0] < many.tpot_s[0] < apart.tpot_s[0]
    assert many.output_tokens_per_s[0] > one.output_tokens_per_s[0]
    assert beams.tpot_s[0] == many.tpot_s[0]
    assert beams.output_tokens_per_s[0] == pytest.approx(many.output_tokens_per_s[0] / 4.0)


def test_a_prefix_on_the_host_comes_over_its_link():
    load = {"rate_per_s": 0.1}
    here, there = (served(sharing=Sharing(3072, from_host=host), **load) for host in (False, True))
    seconds = 3072 * KV_BYTES / H100.host_bytes_per_s
    late = 1.0 + here.correction.wait[0]
    assert there.ttft_s[0] - here.ttft_s[0] == pytest.approx(late * seconds, rel=0.05)
    with pytest.raises(MissingSpec, match="host link"):
        served(replace(H100, host_bytes_per_s=None), sharing=Sharing(3072, from_host=True), **load)


def test_weights_on_the_host_are_those_that_do_not_fit_and_are_read_in_every_step():
    model = model_registry.load("meta-llama/Llama-3.1-70B")
    load = {"concurrency": 4, "isl": 1024, "osl": 128}
    assert served(model=model, **load).status[0] == "out_of_memory"
    moved = served(model=model, spill="weights", **load)
    assert moved.status[0] == "ok"
    tokens = 128 * ENGINE.reserve_output
    weighed = memory(model, H100, Workload(4, 1024, tokens), Parallelism(), ENGINE)
    step = decode_step(model, H100, 4.0, 1024.0, Parallelism(), ENGINE)
    static = offload(weighed, H100, "weights", step)
    assert moved.offloaded[0] == pytest.approx(static.host_bytes[0], rel=0.01)
    assert moved.tpot_s[0] / moved.correction.steps[0] > static.step_s[0]
    assert moved.memory_bytes[0] <= weighed.usable_bytes * 1.001


def test_a_decode_step_reads_the_weights_on_the_host_once_also_if_prompts_have_steps_of_their_own():
    """A single user's decode steps have no prompt beside them under either kind of engine."""
    model = model_registry.load("meta-llama/Llama-3.1-70B")
    traffic = Traffic(512, 256, 1, spill="weights")
    found = [
        serve(model, H100, traffic, Parallelism(), replace(ENGINE, mixed_steps=mixed)).tpot_s[0]
        for mixed in (True, False)
    ]
    assert found[0] == pytest.approx(found[1], rel=0.02)


@pytest.mark.parametrize("what", ["weights", "experts"])
def test_of_experts_on_the_host_a_step_reads_those_that_its_tokens_reach(what):
    """The same as the price of a static offload of those bytes."""
    model = model_registry.load("Qwen/Qwen3-235B-A22B")
    split = Parallelism(tp=4)
    traffic = Traffic(512, 64, 2, spill=what)
    moved = serve(model, H100, traffic, split, ENGINE, on_error="status")
    assert moved.status[0] == "ok" and moved.offloaded[0] > 0
    weighed = memory(model, H100, Workload(2, 512, 64 * ENGINE.reserve_output), split, ENGINE)
    step = decode_step(model, H100, 2.0, 544.0, split, ENGINE)
    static = offload(weighed, H100, what, step)
    spilled = Spilled(
        H100, Banks.of(model, H100, ENGINE, split, 1), moved.offloaded, np.zeros(1), np.zeros(1),
        1, np.ones(1), worked=what == "experts",
    )  # fmt: skip
    seconds = spilled(np.array([2.0]), np.zeros(1), np.zeros(1))
    assert seconds[0] == pytest.approx(static.seconds(step)[0], rel=0.05)


def test_what_fits_is_left_where_it_is():
    for load in LOADS:
        plain = served(**load)
        for what in ("weights", "kv"):
            moved = served(spill=what, **load)
            assert moved.tpot_s[0] == pytest.approx(plain.tpot_s[0], rel=0.01)
            assert moved.offloaded[0] == 0.0
    cold = served(spill="kv", concurrency=400)
    assert cold.running[0] == 400 and cold.tpot_s[0] > served(concurrency=400).tpot_s[0]
    assert cold.offloaded[0] > 0


def test_pools_read_less_of_a_prompt_that_is_found_and_write_every_answer():
    deployed = deploy(LLAMA, H100, ENGINE)
    split = Parallelism(tp=np.array([1.0, 2.0]))
    whole, rest = (prefill_workers(deployed, split, 4096.0, found) for found in (0.0, 3072.0))
    assert np.all(rest.one.total_s < 0.5 * whole.one.total_s)
    assert np.all(rest.prompts_per_s > 2.0 * whole.prompts_per_s)
    assert np.all(rest.cache_bytes == whole.cache_bytes)
    one, four = (
        decode_workers(deployed, split, 4096.0, 256.0, 255.0, Sharing(branches=n, kept=n))
        for n in (1, 4)
    )
    assert np.all(four.most_running < one.most_running)
    assert np.all(four.answers_per_s[-1] < one.answers_per_s[-1])


def test_more_kept_than_sampled_outputs_are_refused():
    with pytest.raises(InvalidValue, match="branches"):
        Sharing(branches=2, kept=3)
    assert not Sharing() and Sharing(1.0) and Sharing(branches=2)
    assert math.isclose(float(Sharing(9.0).scaled(1.0, 5.0).cached_tokens), 4.0)
