"""Requests simulated one by one: laws that hold for every scheduler."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.phases import prefill
from genz_core.serving import Traffic, serve
from genz_core.serving.simulation import Options, RankWork, Requests, StepTime, draws, simulate
from genz_core.serving.simulation.answers import percentiles
from genz_core.serving.simulation.policies import Sglang, StaticBatch, TensorRtLlm, Vllm
from genz_core.types import Parallelism, Workload
from tests.genz_core.simulation.loads import ENGINE, Linear, requests

SCHEDULERS = {
    "vllm": Vllm(budget=2048, sequences=64),
    "sglang": Sglang(budget=2048, sequences=64),
    "tensorrt_llm": TensorRtLlm(budget=2048, sequences=64),
    "vllm_whole": Vllm(budget=2048, sequences=64, chunked=False),
    "sglang_whole": Sglang(budget=2048, sequences=64, chunked=False),
    "tensorrt_llm_chunked": TensorRtLlm(budget=2048, sequences=64, chunked=True),
    "static": StaticBatch(sequences=16),
}
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)


def served(model, system, load, name="vllm", **options):
    scheduler = replace(SCHEDULERS[name]) if name in SCHEDULERS else None
    options = {"price": Linear(), "scheduler": scheduler, **options}
    return simulate(model, system, load, engine=ENGINE, **options)


# ------------------------------------------------------------------------------- one request


def test_one_request_is_its_prefill_and_its_decodes(model, system):
    one = Requests([1.0], [1000], [11])
    run = served(model, system, one, price=Linear(0.01, 0.001, 1e-5))
    assert run.ttft_s[0] == pytest.approx(0.01 + 1000e-5)
    assert run.tpot_s[0] == pytest.approx(0.01 + 0.001)
    assert run.e2e_s[0] == pytest.approx(run.ttft_s[0] + 10 * run.tpot_s[0])
    assert run.queue_s[0] == 0.0 and run.seconds == pytest.approx(run.e2e_s[0])


@pytest.mark.parametrize("count", [1, 3])
def test_steps_taken_together_read_the_cache_of_their_middle(count, model, system):
    """Ten tokens of prompt and 1,001 of answer: contexts of 11 to 1,010, whose mean is 510.5."""

    def price(ranks: Sequence[RankWork]) -> StepTime:
        work = max(rank.decodes * 0.0 + rank.tokens * 1e-5 for rank in ranks)
        return StepTime(0.01 + work, 0.01 + work)

    many = Requests(np.zeros(count), np.full(count, 10.0), np.full(count, 1001.0))
    run = served(model, system, many, price=price)
    decoding = run.e2e_s - run.ttft_s
    assert decoding == pytest.approx(1000 * (0.01 + count * 510.5 * 1e-5), rel=2e-3)


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_measured_steps_scale_every_time_of_a_run(scale, model, system):
    one = Requests([0.0], [1000], [11])
    plain = served(model, system, one)
    scaled = served(model, system, one, options=Options(step_scale=scale))
    assert scaled.ttft_s == pytest.approx(scale * plain.ttft_s)
    assert scaled.e2e_s == pytest.approx(scale * plain.e2e_s)


def test_lengths_are_drawn_between_a_share_of_the_nominal_one_and_all_of_it():
    generator = np.random.default_rng(0)
    drawn = draws.uniform_lengths(4000, 100, 0.8, generator)
    assert (drawn.min(), drawn.max()) == (80, 100) and drawn.mean() == pytest.approx(90, abs=0.5)
    assert set(draws.uniform_lengths(100, 3, 1.0, generator)) == {3}
    assert set(draws.uniform_lengths(100, 2, 0.0, generator)) == {1, 2}, "never none"


def test_a_wait_before_the_engine_delays_a_first_token_and_leaves_the_gaps(model, system):
    one = Requests([1.0], [1000], [11])
    run, later = (served(model, system, one, options=Options(wait_s=s)) for s in (0.0, 0.05))
    assert later.ttft_s == pytest.approx(run.ttft_s + 0.05)
    assert later.tpot_s == pytest.approx(run.tpot_s)


def test_cheaper_prompts_shorten_the_steps_that_read_and_no_others(model, system):
    requests = Requests([1.0], [4000], [11])
    run, cheap = (
        served(model, system, requests, options=Options(prompt_scale=scale)) for scale in (1.0, 0.5)
    )
    assert 0.5 * run.ttft_s < cheap.ttft_s < 0.7 * run.ttft_s
    assert cheap.tpot_s == pytest.approx(run.tpot_s)


def test_a_request_of_one_token_ends_with_its_prefill(model, system):
    run = served(model, system, Requests([0.0], [1000], [1]))
    assert run.ttft_s[0] == run.e2e_s[0] and np.isnan(run.tpot_s[0])


def test_our_own_step_model_prices_a_prompt_as_the_static_prefill_does(model, system):
    run = simulate(model, system, Requests([0.0], [512], [1]), engine=ENGINE)
    alone = prefill(model, system, Workload(1, 512, 1), engine=ENGINE).total_s[0]
    assert run.ttft_s[0] == pytest.approx(alone, rel=1e-6)


# ------------------------------------------------------------------------------- laws


@every_scheduler
@given(
    count=st.integers(1, 60),
    isl=st.integers(1, 4000),
    osl=st.integers(1, 200),
    users=st.integers(1, 80),
    seed=st.integers(0, 9),
)
def test_every_request_gets_all_its_tokens(name, model, system, count, isl, osl, users, seed):
    load = requests(count, isl, osl, seed=seed)
    small = replace(system, memory_bytes=system.memory_bytes / 64)
    run = served(model, small, load, name, concurrency=users)
    assert run.ended.all()
    assert run.gap_counts.sum() == (load.output_tokens - 1).sum()
    assert np.all(run.ttft_s > 0) and np.all(run.queue_s >= 0) and np.all(run.queue_s < run.ttft_s)
    assert np.all(run.e2e_s >= run.ttft_s)


@every_scheduler
def test_the_same_requests_give_the_same_answers(name, model, system):
    first, again = (served(model, system, requests(rate=20.0), name) for _ in range(2))
    assert np.array_equal(first.e2e_s, again.e2e_s)


@every_scheduler
def test_equal_steps_taken_together_are_as_long_as_one_by_one(name, model, system):
    """Stretches of decode steps save time and change no result."""
    scheduler = replace(SCHEDULERS[name])

    @dataclass(slots=True)
    class StepByStep:
        reserves: bool = scheduler.reserves
        prompts_alone: bool = scheduler.prompts_alone

        def plan(self, rank, lane, *, more_to_come):
            plan = scheduler.plan(rank, lane, more_to_come=more_to_come)
            if plan:
                plan.steps = 1
            return plan

    for load in (requests(rate=15.0, osl=200), requests(osl=200)):
        together = served(model, system, load, name, concurrency=32)
        apart = served(model, system, load, scheduler=StepByStep(), concurrency=32)
        assert together.steps == apart.steps
        np.testing.assert_allclose(together.e2e_s, apart.e2e_s, rtol=1e-9)
        np.testing.assert_allclose(together.ttft_s, apart.ttft_s, rtol=1e-9)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_prompts_of_one_length_wait_as_in_a_queue_of_one_server(model, system, load):
    """M/D/1: the mean wait is load / (2 (1 - load)) services (Kleinrock 1975, ch. 5)."""
    service = 0.01 + 2000e-5
    prompts = requests(20_000, 2000, 1, rate=load / service, ratio=1.0)
    run = served(model, system, prompts, scheduler=Vllm(budget=2000))
    wait = load / (2.0 * (1.0 - load)) * service
    assert np.mean(run.queue_s) == pytest.approx(wait, rel=0.08)


@every_scheduler
def test_waiting_users_never_lower_the_throughput(name, model, system):
    small = replace(system, memory_bytes=0.42e9)
    rates = []
    for users in (8, 32, 64, 256):
        run = served(model, small, requests(600, 4000, 300, ratio=0.8), name, concurrency=users)
        rates.append(run.summary()["output_tokens_per_s"])
    assert all(more > 0.97 * less for less, more in itertools.pairwise(rates))


@pytest.mark.by_day(2)
@every_scheduler
@pytest.mark.parametrize("pp", [2, 4])
def test_sequences_stopped_in_a_pipeline_end_once(name, pp, model, system):
    """A stopped sequence may go on in another lane: each ends once, with its own tokens."""
    small = replace(system, memory_bytes=0.2e9)
    load = requests(300, 3000, 400, ratio=0.8)
    run = served(model, small, load, name, concurrency=128, parallelism=Parallelism(pp=pp))
    preempts = name.removesuffix("_whole") in ("vllm", "sglang")
    assert run.ended.all() and bool(run.preemptions) == preempts
    gaps = load.output_tokens - 1
    assert run.gap_counts.sum() == gaps.sum()


def test_a_scheduler_keeps_nothing_from_one_simulation_to_the_next(model, system):
    small = replace(system, memory_bytes=0.42e9)
    scheduler = Sglang(budget=2048, sequences=64)
    load = requests(200, 4000, 300, ratio=0.8)
    first, *later = (
        served(model, small, load, scheduler=scheduler, concurrency=64).summary() for _ in range(6)
    )
    assert all(one == first for one in later)


def test_replicas_serve_so_many_times_the_requests_alike(model, system):
    one = served(model, system, requests(300), concurrency=16)
    four = served(model, system, requests(1200), concurrency=64, replicas=4)
    per_one, per_four = (run.summary()["output_tokens_per_s"] for run in (one, four))
    assert per_four == pytest.approx(4 * per_one, rel=0.05)
    assert set(four.rank) == {0, 1, 2, 3}


def test_ranks_without_experts_are_as_good_as_replicas(model, system):
    ranks = served(model, system, requests(400), concurrency=64, parallelism=Parallelism(dp=4))
    copies = served(model, system, requests(400), concurrency=64, replicas=4)
    assert ranks.seconds == pytest.approx(copies.seconds, rel=0.01)


def test_a_pipeline_keeps_every_stage_busy(model, system):
    """Two micro-batches in flight: twice the steps in the same time, each as long as before."""

    class TwoStages(Linear):
        def __call__(self, ranks):
            whole = super().__call__(ranks).latency_s
            return StepTime(whole, whole / 2.0)

    load = requests(192, 100, 400, ratio=1.0)
    alone = served(model, system, load, concurrency=32, price=TwoStages(0.01, 0.0, 0.0))
    piped = served(
        model, system, load, concurrency=32, price=TwoStages(0.01, 0.0, 0.0),
        parallelism=Parallelism(pp=2),
    )  # fmt: skip
    assert piped.steps == pytest.approx(2 * alone.steps, rel=0.02)
    assert piped.seconds == pytest.approx(alone.seconds, rel=0.02)


class Staged:
    """Every stage takes 4 s for a step with more than one token of a prompt, else 1 s."""

    def __init__(self, stages: int, between_s: float = 0.0) -> None:
        self.stages, self.between_s = stages, between_s

    def __call__(self, ranks):
        stage_s = 4.0 if any(new > 1 for rank in ranks for new, _ in rank.prompts) else 1.0
        return StepTime(self.stages * stage_s + (self.stages - 1) * self.between_s, stage_s)


@pytest.mark.parametrize(
    "stages, arrival_s, tokens, others",
    [
        # the prompt is in the stages from 5, 9 to 13; the other lane's step from 9 and 13 to 14
        (2, 4.5, [2, 4, 6, 14, 16], [13, 15, 17]),
        # from 7, 11, 15 to 19; the other lane's step from 11, 15 and 19 to 20
        (3, 6.5, [3, 6, 9, 20, 23], [19, 22, 25]),
    ],
)
def test_no_step_overtakes_a_prompt_in_any_stage_of_a_pipeline(
    stages, arrival_s, tokens, others, model, system
):
    load = Requests([0.0, arrival_s], [1, 1000], [len(tokens), len(others)])
    run = served(model, system, load, price=Staged(stages), parallelism=Parallelism(pp=stages))
    assert run.ttft_s == pytest.approx([tokens[0], others[0] - arrival_s])
    assert run.e2e_s == pytest.approx([tokens[-1], others[-1] - arrival_s])
    assert np.all(run.busy <= 1.0)


@pytest.mark.parametrize("between_s", [0.0, 0.5])
def test_one_user_of_a_pipeline_waits_for_no_stage(between_s, model, system):
    load, price = requests(8, 500, 20), Staged(4, between_s)
    alone = served(model, system, load, concurrency=1, price=price)
    piped = served(model, system, load, concurrency=1, price=price, parallelism=Parallelism(pp=4))
    assert piped.e2e_s == pytest.approx(alone.e2e_s)
    assert piped.ttft_s == pytest.approx(alone.ttft_s)


# ------------------------------------------------------------------------------- the client


def test_no_more_requests_are_open_than_the_client_keeps(model, system):
    run = served(model, system, requests(200), concurrency=8)
    assert run.series["running"].max() + run.series["waiting"].max() <= 16
    starts, ends = np.sort(run.arrival_s), np.sort(run.arrival_s + run.e2e_s)
    assert np.all(starts[8:] >= ends[:-8] - 1e-12)


def test_users_begin_one_after_the_other_over_the_time_that_is_told(model, system):
    run = served(model, system, requests(), concurrency=8, start_s=4.0)
    assert run.arrival_s[:8] == pytest.approx(np.arange(8) * 0.5)
    sent, ended = np.sort(run.arrival_s), np.sort(run.arrival_s + run.e2e_s)
    assert np.all(sent[8:] >= ended[: len(sent) - 8] - 1e-9), "no more than eight are open"


def test_figures_are_of_the_requests_that_count(model, system):
    run = served(model, system, requests(), concurrency=8, counted=range(20, 60))
    figures, counted = run.summary({"ttft_s": 1e9}), slice(20, 60)
    assert figures["requests"] == figures["ended"] == 40 and figures["good_share"] == 1.0
    assert figures["ttft_mean_s"] == pytest.approx(run.ttft_s[counted].mean())
    assert run.seconds == run.arrival_s[60] - run.arrival_s[20]
    assert figures["requests_per_s"] == pytest.approx(40 / run.seconds)
    whole = served(model, system, requests(), concurrency=8)
    assert np.array_equal(run.e2e_s, whole.e2e_s), "what is counted changes nothing"
    assert run.gap_counts.sum() < whole.gap_counts.sum()


def test_a_turn_follows_the_answer_before_it(model, system):
    turns = Requests([0.0, 2.0, 2.0], [100, 300, 500], [20, 20, 20], after=[-1, 0, 1])
    run = served(model, system, turns)
    ends = run.arrival_s + run.e2e_s
    assert run.arrival_s[1] == pytest.approx(ends[0] + 2.0)
    assert run.arrival_s[2] == pytest.approx(ends[1] + 2.0)


def test_a_run_can_be_stopped_and_says_what_has_ended(model, system):
    seen = []
    load = requests(5000)
    run = served(
        model, system, load, concurrency=16,
        progress=lambda done, total: seen.append((done, total)), cancelled=lambda: len(seen) >= 2,
    )  # fmt: skip
    assert seen == [(1000, 5000), (2000, 5000)]
    assert 2000 <= run.ended.sum() < 2100


# ------------------------------------------------------------------------------- what cannot be


def test_a_request_larger_than_the_cache_is_refused_and_the_others_served(model, system):
    load = Requests([0.0, 0.0, 0.0], [100, 10**7, 100], [10, 10, 10])
    run = served(model, system, load)
    assert run.refused.tolist() == [False, True, False]
    assert run.ended.tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (([], [], []), "no requests"),
        (([0.0, 1.0], [10], [10, 10]), "columns of one length"),
        (([1.0, 0.5], [10, 10], [10, 10]), "request 1 arrives at 0.5 s, before"),
        (([0.0], [0], [10]), "request 0: input_tokens = 0"),
        (([0.0], [10], [-3]), "request 0: output_tokens = -3"),
        (([-1.0], [10], [3]), "request 0: arrival_s = -1"),
        (([np.nan], [10], [3]), "request 0: arrival_s = nan"),
    ],
)
def test_requests_that_nobody_could_send_are_named(columns, words):
    with pytest.raises(InvalidValue, match=words):
        Requests(*columns)


def test_a_model_that_does_not_fit_says_what_it_needs(model, system):
    with pytest.raises(OutOfMemory, match="weights"):
        served(model, replace(system, memory_bytes=2 * model.parameters), requests(1))


def test_degrees_that_do_not_divide_the_model_are_refused(model, system):
    with pytest.raises(InvalidParallelism):
        served(model, system, requests(1), parallelism=Parallelism(tp=3))


# ------------------------------------------------------------------------------- the answers


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(1, 9)), min_size=1, max_size=30))
def test_percentiles_of_counted_values_are_those_of_the_values_written_out(pairs):
    values, counts = (np.array(column, dtype=float) for column in zip(*pairs, strict=True))
    written = np.repeat(values, counts.astype(int))
    expected = np.percentile(written, [0, 25, 50, 99, 100])
    np.testing.assert_allclose(percentiles(values, counts, [0, 25, 50, 99, 100]), expected)


def test_goodput_counts_the_requests_that_meet_every_target(model, system):
    run = served(model, system, requests(200, rate=30.0))
    middle = float(np.median(run.ttft_s))
    figures = run.summary({"ttft_s": middle, "e2e_s": 1e9})
    assert figures["good_share"] == pytest.approx(np.mean(run.ttft_s <= middle))
    assert figures["good_requests_per_s"] == pytest.approx(
        figures["good_share"] * figures["requests_per_s"]
    )
    assert run.summary({"ttft_s": 0.0})["good_share"] == 0.0


def test_options_of_the_operator_reach_the_scheduler(model, system):
    few = simulate(model, system, requests(50), engine=ENGINE, options=Options(max_num_seqs=4))
    assert few.series["running"].max() <= 4
    tight = simulate(model, system, requests(50), engine=ENGINE, options=Options(kv_tokens=1200))
    assert tight.series["kv_use"].max() <= 1.0 and tight.series["running"].max() <= 4


@pytest.mark.parametrize("users", [4, 16, 64])
def test_equal_requests_that_are_read_alone_come_in_waves(model, system, users):
    """Simulated ones stay together, measured ones do not: the closed form lies between."""
    first = replace(ENGINE, mixed_steps=False, chunk_tokens=4096)
    load = Requests(np.zeros(20 * users), *(np.full(20 * users, size) for size in (1000, 200)))
    run = simulate(
        model, system, load, engine=first, scheduler=Sglang(budget=4096), concurrency=users
    )
    together = Traffic(isl=1000, osl=200, concurrency=users, waves=20)
    form = serve(model, system, together, engine=first)
    apart = serve(model, system, replace(together, length_ratio=0.8), engine=first)
    assert apart.ttft_s[0] < form.ttft_s[0] < 1.1 * np.mean(run.ttft_s)
    assert form.tpot_s[0] < apart.tpot_s[0] or users == 4
    assert form.tpot_s[0] == pytest.approx(np.mean(run.tpot_s), rel=0.1)
