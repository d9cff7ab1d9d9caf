"""Continuous batching: latency under load, and the limits of a deployment."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hardware_db
import model_registry
from genz_core.engine import EngineProfile, Recipe
from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.serving import Traffic, sequences_that_fit, serve
from genz_core.serving.simulation import Requests, simulate
from genz_core.types import Parallelism, Workload
from genz_core.workload import decode, estimate, prefill
from tests.draws import cases

ENGINE = EngineProfile(reserve_bytes=1e9, memory_fraction=0.9)


def closed(model, system, users, engine=ENGINE, **lengths):
    return serve(model, system, Traffic(concurrency=users, **lengths), engine=engine)


@pytest.mark.parametrize("isl", [1, 100, 8000])
@pytest.mark.parametrize("osl", [2, 128, 2000])
def test_one_user_of_an_idle_engine_waits_for_its_own_prompt_alone(model, system, isl, osl):
    alone = closed(model, system, 1, isl=isl, osl=osl)
    assert alone.tpot_s[0] == pytest.approx(alone.decode_step_s[0], rel=1e-6)
    assert alone.ttft_s[0] == pytest.approx(alone.prefill_s[0] + ENGINE.host_request_s, rel=1e-3)


def test_a_stream_interval_holds_the_first_token_back_by_steps(model, system):
    at_once, held = (
        serve(model, system, Traffic(concurrency=1, stream_interval=n), engine=ENGINE)
        for n in (1, 31)
    )
    assert held.ttft_s[0] - at_once.ttft_s[0] == pytest.approx(30 * at_once.decode_step_s[0])


def test_prompts_wait_for_one_another_only_while_others_run(model, system):
    """The first of a group waits for all steps, the last for none; a step then prefills
    the group.
    """
    users = np.array([1, 2, 512])
    at_once, waiting = (
        serve(model, system, Traffic(concurrency=users, batch_wait=n), engine=ENGINE)
        for n in (0, 50)
    )
    late = (waiting.ttft_s - at_once.ttft_s) / at_once.decode_step_s
    assert late[0] == pytest.approx(0.0, abs=1e-6)
    assert 20.0 < late[1] < 50.0
    assert waiting.tpot_s[2] < 1.001 * at_once.tpot_s[2]


def test_ranks_that_wait_for_one_another_read_their_prompts_in_one_step():
    mixture = model_registry.load("Qwen/Qwen3-30B-A3B")
    system = hardware_db.load("h100-sxm5-80gb")
    split = Parallelism(dp=8, ep=8)
    load = {"isl": 4000, "osl": 500, "concurrency": 64}
    apart, together = (
        serve(mixture, system, Traffic(batch_wait=n, **load), split, ENGINE) for n in (0, 60)
    )
    assert together.tpot_s[0] < 0.95 * apart.tpot_s[0] and together.ttft_s[0] > apart.ttft_s[0]


@pytest.mark.parametrize("osl", [3, 12])
def test_a_first_token_delivered_late_delays_none_behind_it(model, system, osl):
    """Few tokens, prompts first: a late delivery is not a prompt that others wait for."""
    first = replace(ENGINE, mixed_steps=False)
    lengths = {"isl": 60, "osl": osl, "concurrency": np.array([1, 4, 16])}
    at_once, held = (
        serve(model, system, Traffic(stream_interval=n, **lengths), engine=first) for n in (1, 31)
    )
    assert held.tpot_s[0] == pytest.approx(at_once.tpot_s[0])
    assert np.all(held.tpot_s < 1.1 * at_once.tpot_s) and np.all(held.ttft_s > at_once.ttft_s)


def test_looking_seldom_at_new_requests_delays_them_only_while_others_run(model, system):
    often, seldom = (
        serve(model, system, Traffic(concurrency=np.array([1, 32]), recv_interval=n), engine=ENGINE)
        for n in (1, 11)
    )
    late = seldom.ttft_s - often.ttft_s
    assert late[0] == pytest.approx(0.0, abs=1e-9)
    assert late[1] == pytest.approx(5 * often.decode_step_s[1], rel=0.2)


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


# ------------------------------------------------------------------------------- laws


@st.composite
def loads(draw):
    """A closed loop: users, prompt, output, length ratio, engine."""
    engine = replace(
        ENGINE,
        mixed_steps=draw(st.booleans()),
        scheduler=draw(st.sampled_from(["vllm", "tensorrt_llm"])),
        chunk_tokens=draw(st.sampled_from([0, 512, 8192])),
        max_sequences=draw(st.sampled_from([4, 64, 1024])),
        host_request_s=draw(st.sampled_from([0.0, 3e-3])),
    )
    lengths = {
        "isl": draw(st.integers(1, 8000)),
        "osl": draw(st.integers(1, 4000)),
        "length_ratio": draw(st.sampled_from([0.5, 0.8, 1.0])),
    }
    return engine, lengths


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 3000))
def test_users_are_those_that_wait_read_and_decode(model, system, load, users):
    """Little's law: C = X (TTFT + (osl - 1) TPOT)."""
    engine, lengths = load
    served = closed(model, system, users, engine, **lengths)
    requests_per_s = served.output_tokens_per_s[0] / served.osl[0]
    assert requests_per_s * served.e2e_s[0] == pytest.approx(users, rel=0.02)


@settings(max_examples=cases(40))
@given(load=loads(), users=st.integers(1, 1000))
def test_longer_answers_never_bring_more_requests(model, system, load, users):
    """From two to twenty tokens; beyond, the mean step that engines are fitted with takes
    requests for further apart than the work on all of them leaves them."""
    engine, lengths = load
    osl = np.array([2, 3, 4, 6, 9, 14, 20])
    served = closed(model, system, users, engine, **lengths | {"osl": osl})
    requests_per_s = served.output_tokens_per_s / served.osl
    assert np.all(requests_per_s[1:] < 1.05 * np.minimum.accumulate(requests_per_s)[:-1])


def test_answers_that_ride_on_steps_that_read_bring_no_more_requests_when_they_are_longer(
    model, system
):
    """Four users, prompts of more than a step: of 2 to 5 tokens between 0.8 and 1.9 decode at once,
    and a step that reads has one of them beside it that often."""
    engine = replace(ENGINE, chunk_tokens=512, max_sequences=4, host_request_s=0.0)
    served = closed(model, system, 4, engine, isl=666, osl=np.array([2, 3, 4, 6]), length_ratio=0.8)
    requests_per_s = served.output_tokens_per_s / served.osl
    assert np.all(np.diff(requests_per_s) < 0)


@pytest.mark.parametrize("osl", [2, 5, 15])
def test_prompts_read_first_delay_the_first_token_of_some_and_the_second_of_others(
    model, system, osl
):
    """All 200 are prefilled before one decodes: no first token waits for more than all of them,
    and later tokens wait for those that are prefilled afterwards.
    """
    first = replace(ENGINE, mixed_steps=False, chunk_tokens=8192)
    load = closed(model, system, 200, first, isl=8000, osl=osl)
    reading = 200 / (closed(model, system, 200, first, isl=8000, osl=1).output_tokens_per_s[0])
    assert 0.4 * reading < load.ttft_s[0] < 0.7 * reading
    assert 0.3 * reading < (osl - 1) * load.tpot_s[0] < 0.8 * reading


@settings(max_examples=cases(25))
@given(load=loads())
def test_throughput_never_falls_because_more_users_wait(model, system, load):
    engine, lengths = load
    served = closed(model, system, np.array([1, 2, 5, 16, 64, 256, 1024, 4096]), engine, **lengths)
    assert np.all(np.diff(served.output_tokens_per_s) > -0.03 * served.output_tokens_per_s[:-1])


@settings(max_examples=cases(40))
@given(load=loads())
def test_a_doubling_of_users_brings_hardly_more_than_the_one_before(model, system, load):
    """A server saturates once: at the limit of its memory or of its steps, it gains nothing more.
    Fewer users of two-token answers take turns, and equal answers fall in step, see below.
    """
    engine, lengths = load
    osl = max(lengths["osl"], 2)
    equal = math.ceil(osl * lengths["length_ratio"]) == osl
    assume(engine.mixed_steps or engine.host_request_s or not equal)
    users = 2 ** np.arange(13)
    served = closed(model, system, users, engine, **lengths | {"osl": osl})
    brings = served.output_tokens_per_s[1:] / served.output_tokens_per_s[:-1]
    most = 1.25 if osl > 2 else 1.4
    assert np.all(brings[1:] < most * brings[:-1])


@pytest.mark.parametrize("isl, osl", [(1, 7), (100, 7), (1, 9), (1000, 10)])
def test_equal_answers_fall_in_step_where_they_do_in_a_simulation(model, system, isl, osl):
    """If prompts come first and users return at once, each prompt of five stalls the answers of the
    other four; with as many users as steps all prompts are prefilled together.
    """
    engine = replace(ENGINE, mixed_steps=False, chunk_tokens=8192, host_request_s=0.0)
    users = np.array([1, 3, 4, 12, 16, 32])
    served = closed(model, system, users, engine, isl=isl, osl=osl, length_ratio=1.0)
    for number, e2e_s, tpot_s in zip(users, served.e2e_s, served.tpot_s, strict=True):
        seen = simulated(
            model, system, replace(engine, scheduler="sglang"), number, isl, osl, e2e_s
        )
        assert e2e_s == pytest.approx(seen["e2e_mean_s"], rel=0.1), number
        if number > osl:
            assert tpot_s == pytest.approx(seen["tpot_mean_s"], rel=0.1), number


def simulated(model, system, engine, users, isl, osl, start_s):
    """Figures of a steady loop of equal requests."""
    count, warm = 200, int(20 * users)
    sent = np.zeros(warm + count + 2 * users)
    load = Requests(sent, np.full(sent.size, float(isl)), np.full(sent.size, float(osl)))
    counted = range(warm, warm + count)
    return simulate(
        model, system, load, None, engine,
        concurrency=int(users), start_s=float(start_s), counted=counted,
    ).summary()  # fmt: skip


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 3000))
def test_no_more_requests_are_served_than_their_least_work_allows(model, system, load, users):
    engine, lengths = load
    served = closed(model, system, users, engine, **lengths)
    requests_per_s = served.output_tokens_per_s[0] / served.osl[0]
    isl = max(round(lengths["isl"] * (1 + lengths["length_ratio"]) / 2), 1)
    osl = served.osl[0]
    many = prefill(model, system, Workload(64.0, isl, 1.0), engine=engine).bound_total_s[0] / 64
    fit = max(served.running[0], 1.0)
    step = decode(model, system, Workload(fit, isl, osl), engine=engine).bound_total_s[0] / fit
    assert requests_per_s * max(many, step * (osl - 1)) <= 1.0 + 1e-6


@settings(max_examples=cases(25))
@given(load=loads(), users=st.integers(1, 500), ranks=st.sampled_from([2, 8]))
def test_replicas_serve_alike(model, system, load, users, ranks):
    engine, lengths = load
    alone = closed(model, system, users, engine, **lengths)
    traffic = Traffic(concurrency=users * ranks, **lengths)
    many = serve(model, system, traffic, Parallelism(dp=ranks), engine)
    for figure in ("ttft_s", "tpot_s", "output_tokens_per_s_per_device", "running_per_rank"):
        one, other = (_figure(served, figure) for served in (alone, many))
        assert other == pytest.approx(one, rel=0.01, nan_ok=True), figure


def _figure(served, name):
    if name == "running_per_rank":
        return served.running[0] / np.ravel(served.ranks)[0]
    return np.ravel(getattr(served, name))[0]


@pytest.mark.parametrize("isl", [16, 256])
@pytest.mark.parametrize("stages", [2, 4])
def test_a_pipeline_with_few_prompts_serves_as_its_static_batch(model, system, isl, stages):
    split, engine = Parallelism(pp=stages), replace(ENGINE, host_step_s=0.0, host_sequence_s=0.0)
    traffic = Traffic(isl=isl, osl=1024, concurrency=256)
    served = serve(model, system, traffic, split, engine)
    static = estimate(model, system, Workload(256, isl, 1024), split, engine)
    assert served.output_tokens_per_s[0] == pytest.approx(static.output_tokens_per_s[0], rel=0.15)


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_a_prefill_server_at_a_rate_queues_as_m_d_1(model, system, load):
    """Prompts of a whole step each: the wait is that of a single server with fixed service time."""
    engine = replace(ENGINE, chunk_tokens=4096, host_request_s=0.0)
    alone = closed(model, system, 1, engine, isl=4096, osl=1).ttft_s[0]
    traffic = Traffic(isl=4096, osl=1, rate_per_s=load / alone)
    served = serve(model, system, traffic, engine=engine)
    assert served.utilisation[0] == pytest.approx(load, rel=1e-3)
    assert served.ttft_s[0] == pytest.approx(alone * (1 + load / 2 / (1 - load)), rel=1e-3)


def test_a_rate_near_zero_is_an_idle_engine(model, system):
    alone = closed(model, system, 1, isl=500, osl=200)
    rare = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=1e-3), engine=ENGINE)
    assert rare.ttft_s[0] == pytest.approx(alone.ttft_s[0], rel=0.01)
    assert rare.tpot_s[0] == pytest.approx(alone.tpot_s[0], rel=0.01)
    assert rare.running[0] == pytest.approx(1e-3 * alone.e2e_s[0], rel=0.01)


def test_arrivals_balance_with_what_runs(model, system):
    """Little's law: running sequences = rate x running time of each."""
    rates = np.array([0.1, 2.0, 20.0])
    load = serve(model, system, Traffic(isl=500, osl=200, rate_per_s=rates), engine=ENGINE)
    assert load.running == pytest.approx(rates * load.e2e_s, rel=0.01)
    assert np.all(np.diff(load.ttft_s) > 0) and np.all(np.diff(load.tpot_s) > 0)


def test_a_rate_beyond_what_is_sustained_says_so(model, system):
    load = serve(
        model, system, Traffic(isl=500, osl=200, rate_per_s=np.array([1.0, 1e6])), engine=ENGINE
    )
    assert load.status.tolist() == ["ok", "overloaded"]
    assert np.isinf(load.ttft_s[1]) and "sustains" in load.messages[1]


def test_shorter_real_lengths_are_served_faster(model, system):
    full, real = (closed(model, system, 32, length_ratio=ratio) for ratio in (1.0, 0.8))
    assert real.ttft_s[0] < full.ttft_s[0]
    assert real.osl[0] == np.mean(range(103, 129))  # whole tokens from 0.8 of 128 on


def test_an_array_gives_what_scalars_give(model, system):
    users = np.array([1, 7, 100])
    together = closed(model, system, users)
    for at, number in enumerate(users):
        alone = closed(model, system, int(number))
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)


def test_one_rate_over_several_lengths_is_priced_as_each_alone(model, system):
    lengths = np.array([100, 2000, 300])
    together = serve(model, system, Traffic(isl=lengths, osl=50, rate_per_s=5.0), engine=ENGINE)
    for at, isl in enumerate(lengths):
        alone = serve(model, system, Traffic(isl=int(isl), osl=50, rate_per_s=5.0), engine=ENGINE)
        assert together.ttft_s[at] == pytest.approx(alone.ttft_s[0], rel=1e-9)
        assert together.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9)


@pytest.mark.parametrize("traffic", [Traffic(), Traffic(concurrency=1, rate_per_s=1.0)])
def test_a_load_is_a_concurrency_or_a_rate(model, system, traffic):
    with pytest.raises(InvalidValue, match="one of them"):
        serve(model, system, traffic)


def test_half_a_user_is_refused_as_a_concurrency(model, system):
    with pytest.raises(InvalidValue, match=r"concurrency = 0\.5"):
        serve(model, system, Traffic(concurrency=0.5))


def test_a_rate_of_nothing_is_refused(model, system):
    with pytest.raises(InvalidValue, match="above 0"):
        serve(model, system, Traffic(rate_per_s=0.0))


@pytest.mark.parametrize("ratio", [0.0, -1.0, 1.5, float("nan")])
def test_lengths_beyond_the_nominal_ones_are_refused(model, system, ratio):
    with pytest.raises(InvalidValue, match=f"length_ratio = {ratio:g}"):
        serve(model, system, Traffic(concurrency=4, length_ratio=ratio))


@pytest.mark.parametrize("name", ["stream_interval", "recv_interval"])
def test_an_interval_below_one_is_refused(model, system, name):
    with pytest.raises(InvalidValue, match=f"{name} = 0: "):
        serve(model, system, Traffic(concurrency=4, **{name: 0}))


@pytest.mark.parametrize("arrivals", [{"concurrency": 16}, {"rate_per_s": 2.0}])
@pytest.mark.parametrize("mixed_steps", [True, False])
def test_no_fitted_share_or_scale_serves_faster_than_physics(model, system, arrivals, mixed_steps):
    hasty = replace(
        ENGINE,
        mixed_steps=mixed_steps,
        recipe=Recipe(1e-3, 1e-3),
    )
    load = serve(model, system, Traffic(isl=4000, **arrivals), engine=hasty)
    assert load.ttft_median_s >= load.bound_prefill_s and load.ttft_s >= load.bound_prefill_s
    assert load.tpot_s >= load.bound_decode_step_s
    assert load.prefill_s >= load.bound_prefill_s


def test_a_recipe_scales_steps_and_first_tokens_down_to_the_bound_and_no_further(model, system):
    plain, slower, least = (
        closed(model, system, 1, replace(ENGINE, recipe=Recipe(tpot, ttft)))
        for tpot, ttft in ((1.0, 1.0), (1.25, 1.5), (1e-6, 1.0))
    )
    assert slower.tpot_s == pytest.approx(1.25 * plain.tpot_s)
    assert slower.ttft_s == pytest.approx(1.5 * plain.ttft_s)
    assert least.tpot_s == pytest.approx(least.bound_decode_step_s)


def test_a_recipe_does_not_scale_the_wait_for_room(model, system):
    """Users who wait for a slot wait for those who hold one, by Little's law."""
    few = replace(ENGINE, max_sequences=16, recipe=Recipe(1.0, 5.0))
    load = closed(model, system, 64, few, isl=500, osl=500)
    waiting = 48 / (load.output_tokens_per_s[0] / 500)
    assert waiting < load.ttft_s[0] < 1.1 * waiting


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("load", ["concurrency", "rate_per_s"])
def test_a_load_that_cannot_be_served_raises_or_is_a_code_whatever_the_length(
    model, system, length, load
):
    traffic = Traffic(100, 10, **{load: np.full(length, 2.0)})
    with pytest.raises(InvalidParallelism, match="tp=3"):
        serve(model, system, traffic, Parallelism(tp=3))
    coded = serve(model, system, traffic, Parallelism(tp=3), on_error="status")
    assert coded.status.tolist() == ["invalid_parallelism"] * length
    tight = replace(system, memory_bytes=1e6)
    with pytest.raises(OutOfMemory, match="use more devices"):
        serve(model, tight, traffic)
    full = serve(model, tight, traffic, on_error="status")
    assert full.status.tolist() == ["out_of_memory"] * length
    assert np.isfinite(full.tpot_s).all()
