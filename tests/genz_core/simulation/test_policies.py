"""Which requests prefill or decode: the rules of each scheduler, on ranks set up by hand."""

from __future__ import annotations

import pytest

from genz_core.serving.simulation.cache import KvCache
from genz_core.serving.simulation.policies import Sglang, StaticBatch, TensorRtLlm, Vllm
from genz_core.serving.simulation.rank import Job, Rank
from genz_core.serving.simulation.router import router
from genz_core.serving.simulation.step_price import StepTime
from genz_core.serving.simulation.worker import Worker


def second(ranks):
    return StepTime(1.0, 1.0)


def rank_of(scheduler, tokens=1000.0, *, shares=False, lanes=1, block=16) -> Rank:
    """A rank whose cache holds a number of tokens of one byte."""
    cache = KvCache(tokens, lambda n: max(n, 0.0), 1.0, block_tokens=block, shares=shares)
    return Rank(cache, lanes, reserves=scheduler.reserves)


def job(row, prompt, output=10, prefix=()):
    return Job(row, prompt, output, output - 1, tuple(prefix))


def steps(worker, count):
    """(prompts with their tokens, decoding sequences) of the next steps, one by one."""
    seen, now = [], 0.0
    for _ in range(count):
        flight = worker.start(0, now, more_to_come=True)
        if flight is None:
            seen.append(None)
            continue
        flight.steps = 1
        plan = flight.plans[0]
        lane = worker.ranks[0].lanes[0]
        decodes = lane.count if plan.decodes else 0
        seen.append(({piece.row: new for piece, new in plan.pieces}, decodes))
        now = flight.end_s
        worker.land(flight)
    return seen


def worker_with(scheduler, jobs, tokens=1000.0, **layout):
    rank = rank_of(scheduler, tokens, **layout)
    worker = Worker([rank], scheduler, second)
    for one in jobs:
        worker.accept(rank, one)
    return worker


# ------------------------------------------------------------------------------- vLLM


def test_vllm_cuts_a_prompt_to_its_budget_and_decodes_beside_it():
    worker = worker_with(Vllm(budget=100), [job(0, 50), job(1, 180)])
    assert steps(worker, 4) == [
        ({0: 50, 1: 50}, 0),
        ({1: 99}, 1),
        ({1: 31}, 1),
        ({}, 2),
    ]


@pytest.mark.parametrize("scheduler", [
    Vllm(budget=100, chunked=False), TensorRtLlm(budget=100),
])  # fmt: skip
def test_whole_prompts_wait_until_they_fit_beside_the_decodes(scheduler):
    worker = worker_with(scheduler, [job(0, 50, 3), job(1, 100), job(2, 10)])
    assert steps(worker, 5) == [
        ({0: 50}, 0),
        ({}, 1),
        ({}, 1),
        ({1: 100}, 0),  # the third waits behind the second
        ({2: 10}, 1),
    ]


@pytest.mark.parametrize("scheduler", [
    Vllm(budget=100, chunked=False), TensorRtLlm(budget=100), Sglang(budget=100, chunked=False),
])  # fmt: skip
def test_a_whole_prompt_longer_than_the_budget_has_a_step_without_other_prompts(scheduler):
    worker = worker_with(scheduler, [job(0, 180), job(1, 20)])
    assert [prompts for prompts, _ in steps(worker, 2)] == [{0: 180}, {1: 20}]


def test_tensorrt_llm_told_to_cut_prompts_fills_its_steps_as_vllm_does():
    jobs = [(0, 50), (1, 180), (2, 40)]
    seen = [
        steps(worker_with(scheduler, [job(*one) for one in jobs]), 5)
        for scheduler in (Vllm(budget=100), TensorRtLlm(budget=100, chunked=True))
    ]
    assert seen[0] == seen[1]


def test_vllm_admits_in_order_and_no_more_than_it_may_run():
    worker = worker_with(Vllm(budget=1000, sequences=2), [job(0, 10, 2), job(1, 10), job(2, 10)])
    assert steps(worker, 3) == [({0: 10, 1: 10}, 0), ({}, 2), ({2: 10}, 1)]


def test_vllm_preempts_the_latest_when_the_cache_is_full():
    worker = worker_with(Vllm(budget=1000), [job(0, 46, 20), job(1, 46, 20)], tokens=100)
    seen = steps(worker, 5)
    assert seen[:4] == [({0: 46, 1: 46}, 0), ({}, 2), ({}, 2), ({}, 2)]
    assert seen[4] == ({}, 2)
    assert steps(worker, 1) == [({}, 1)]  # 46 + 46 + 2 * 4 fill the cache
    assert worker.preemptions == 1
    (waits,) = worker.ranks[0].waiting
    assert (waits.row, waits.prompt, waits.steps) == (1, 46 + 4 + 1, 19 - 4 - 1)


def test_a_preempted_sequence_reads_again_what_it_had_written():
    worker = worker_with(Vllm(budget=1000), [job(0, 46, 8), job(1, 46, 20)], tokens=100)
    seen = steps(worker, 12)
    read_again = [step for step in seen if step and step[0].get(1) == 51]
    assert len(read_again) == 1
    assert not worker.ranks[0].cache.used > 100


# ------------------------------------------------------------------------------- SGLang


def test_sglang_reads_prompts_first_and_alone():
    worker = worker_with(Sglang(budget=100), [job(0, 50), job(1, 180)])
    assert steps(worker, 4) == [({0: 50, 1: 50}, 0), ({1: 100}, 0), ({1: 30}, 0), ({}, 2)]


def test_sglang_keeps_room_for_what_runs_to_end():
    """0.7 of the running outputs are still expected: 50 + 70 + 110 > 200, 50 + 7 + 110 < 200."""
    full = worker_with(Sglang(), [job(0, 50, 101), job(1, 60, 50)], tokens=200)
    assert steps(full, 2) == [({0: 50}, 0), ({}, 1)]
    room = worker_with(Sglang(), [job(0, 50, 11), job(1, 60, 50)], tokens=200)
    assert steps(room, 1) == [({0: 50, 1: 60}, 0)]


# ------------------------------------------------------------------------------- TensorRT-LLM


def test_tensorrt_llm_reads_whole_prompts_beside_decodes():
    worker = worker_with(TensorRtLlm(budget=100), [job(0, 60), job(1, 60), job(2, 300)])
    assert steps(worker, 4) == [({0: 60}, 0), ({1: 60}, 1), ({2: 300}, 2), ({}, 3)]


def test_tensorrt_llm_chunks_where_told():
    worker = worker_with(TensorRtLlm(budget=100, chunked=True), [job(0, 60), job(1, 60)])
    assert steps(worker, 2) == [({0: 60, 1: 40}, 0), ({1: 20}, 1)]


def test_no_evict_promises_the_whole_output_and_max_utilization_pauses():
    jobs = [job(0, 50, 50), job(1, 50, 50)]
    promised = worker_with(TensorRtLlm(), jobs, tokens=150)
    assert steps(promised, 2) == [({0: 50}, 0), ({}, 1)] and promised.preemptions == 0
    jobs = [job(0, 50, 50), job(1, 50, 50)]
    paused = worker_with(TensorRtLlm(capacity="max_utilization"), jobs, tokens=150)
    steps(paused, 40)
    assert paused.preemptions == 1


# ------------------------------------------------------------------------------- a static batch


def test_a_static_batch_waits_until_it_is_full_and_ends_before_the_next():
    worker = worker_with(StaticBatch(sequences=2), [job(0, 10, 2)])
    assert steps(worker, 1) == [None]
    for one in (job(1, 20, 4), job(2, 30, 2)):
        worker.accept(worker.ranks[0], one)
    assert steps(worker, 5) == [({0: 10, 1: 20}, 0), ({}, 2), ({}, 1), ({}, 1), None]


# ------------------------------------------------------------------------------- shared prefixes


@pytest.mark.parametrize("scheduler", [Vllm(), Sglang(), TensorRtLlm()], ids=["v", "s", "t"])
def test_a_prompt_known_from_before_is_not_read_again(scheduler):
    first, again = job(0, 100, 2, range(6)), job(1, 100, 2, range(6))
    worker = worker_with(scheduler, [first], shares=True)
    assert steps(worker, 3)[0][0] == {0: 100}
    worker.accept(worker.ranks[0], again)
    assert steps(worker, 1)[0][0] == {1: 100 - 6 * 16}


def test_the_last_token_of_a_prompt_is_always_read():
    worker = worker_with(Vllm(), [job(0, 96, 1, range(6))], shares=True)
    steps(worker, 2)
    worker.accept(worker.ranks[0], job(1, 96, 1, range(6)))
    assert steps(worker, 1)[0][0] == {1: 16}


def test_blocks_that_nobody_holds_go_when_room_is_needed_the_oldest_first():
    worker = worker_with(Vllm(), [job(0, 64, 1, range(4))], tokens=200, shares=True)
    steps(worker, 1)
    for row, first in ((1, 10), (2, 20)):
        worker.accept(worker.ranks[0], job(row, 64, 1, range(first, first + 4)))
        steps(worker, 1)
    cache = worker.ranks[0].cache
    assert cache.used == 0.0 and cache.kept <= 200
    assert cache.hits(tuple(range(20, 24)), 9) == 4
    worker.accept(worker.ranks[0], job(3, 150, 1))
    steps(worker, 1)
    assert cache.hits(tuple(range(4)), 9) == 0 and cache.hits(tuple(range(10, 14)), 9) < 4


def test_two_that_share_a_prefix_hold_it_once():
    worker = worker_with(Vllm(), [job(0, 100, 50, range(6))], shares=True)
    steps(worker, 1)
    worker.accept(worker.ranks[0], job(1, 100, 50, range(6)))
    steps(worker, 1)
    cache = worker.ranks[0].cache
    assert cache.used == pytest.approx(100 + 1 + (100 - 96))
    steps(worker, 60)
    assert cache.used == pytest.approx(0.0, abs=1e-9)


# ------------------------------------------------------------------------------- routing


def test_routers_choose_in_turn_by_load_or_by_what_a_cache_knows():
    ranks = [rank_of(Vllm(), shares=True) for _ in range(3)]
    turns = router("round_robin")
    assert [turns(job(n, 10), ranks, 3) for n in range(4)] == [0, 1, 2, 0]
    ranks[0].mail.append(job(9, 10))
    assert router("least_loaded")(job(1, 10), ranks, 3) == 1
    worker = Worker([ranks[2]], Vllm(), second)
    worker.accept(ranks[2], job(5, 100, 1, range(6)))
    steps(worker, 1)
    assert router("prefix")(job(6, 100, 1, range(6)), ranks, 3) == 2
    assert router("prefix")(job(7, 100, 1, range(90, 96)), ranks, 3) == 1


def test_a_round_robin_counts_deployments_and_takes_the_least_loaded_rank_of_each():
    ranks = [rank_of(Vllm()) for _ in range(4)]  # two deployments of two: 0 and 2, 1 and 3
    ranks[0].mail.append(job(9, 10))
    turns = router("round_robin")
    assert [turns(job(n, 10), ranks, 2) for n in range(3)] == [2, 1, 2]


def test_front_ends_count_each_for_itself():
    ranks = [rank_of(Vllm()) for _ in range(3)]
    turns = router("round_robin", (2, 2))
    assert [turns(job(n, 10), ranks, 3) for n in range(5)] == [2, 2, 0, 0, 1]


def test_a_scheduler_that_looks_seldom_lets_requests_wait():
    scheduler = Vllm()
    rank = rank_of(scheduler)
    worker = Worker([rank], scheduler, second, recv_interval=4)
    worker.accept(rank, job(0, 10, 50))
    steps(worker, 2)
    worker.accept(rank, job(1, 10, 50))
    read = [step[0] for step in steps(worker, 5)]
    assert [bool(pieces) for pieces in read] == [True, False, False, False, False]
    worker.accept(rank, job(2, 10, 50))
    read = [bool(step[0]) for step in steps(worker, 6)]
    assert read.index(True) <= 4


# ------------------------------------------------------------------------------- lanes


def test_a_sequence_that_goes_on_in_another_lane_ends_there_alone():
    """If stopped at once, it ends at the corresponding step of the other lane."""
    first, other = rank_of(Vllm(), lanes=2).lanes
    stopped = job(0, 10, 6)
    first.enter(stopped)
    assert first.last() is stopped
    other.enter(stopped)
    first.advance(5)
    assert first.ended() == [] and (first.count, other.count) == (0, 1)
    other.advance(5)
    assert other.ended() == [stopped]


# ------------------------------------------------------------------------------- waiting prompts


def ranks_that_wait(count, longest):
    scheduler = TensorRtLlm(budget=100)
    ranks = [rank_of(scheduler) for _ in range(count)]
    worker = Worker(ranks, scheduler, second, batch_wait=longest)
    for row, rank in enumerate(ranks):
        worker.accept(rank, job(row, 50, 100))
    return worker


def read_in(worker, count):
    """The rows whose prompts are read in each of the next steps."""
    rows = []
    for now in range(count):
        flight = worker.start(0, float(now), more_to_come=True)
        flight.steps = 1
        worker.land(flight)
        rows.append({piece.row for plan in flight.plans if plan for piece, _ in plan.pieces})
    return rows


def test_ranks_read_when_each_has_a_prompt():
    worker = ranks_that_wait(2, 10)
    assert read_in(worker, 1) == [{0, 1}]
    worker.accept(worker.ranks[0], job(2, 50))
    assert read_in(worker, 3) == [set(), set(), set()]
    worker.accept(worker.ranks[1], job(3, 50))
    assert read_in(worker, 1) == [{2, 3}]


def test_ranks_read_each_time_that_the_longest_wait_has_passed():
    """The wait counts from the last reading, even an empty one, not from the prompt's arrival."""
    worker = ranks_that_wait(2, 10)
    assert read_in(worker, 1) == [{0, 1}]
    assert read_in(worker, 16) == [set()] * 16
    worker.accept(worker.ranks[0], job(2, 50))
    assert read_in(worker, 5).index({2}) == 3


def test_a_prompt_that_does_not_fit_waits_for_the_next_reading():
    worker = ranks_that_wait(2, 10)
    read_in(worker, 1)
    for row in (2, 3):
        worker.accept(worker.ranks[0], job(row, 60))
    seen = read_in(worker, 25)
    assert [at for at, rows in enumerate(seen) if rows] == [9, 19]


def test_a_rank_whose_only_requests_are_new_waits_for_nothing():
    worker = ranks_that_wait(2, 10)
    read_in(worker, 1)
    worker.ranks[1].lanes[0] = type(worker.ranks[1].lanes[0])()  # its sequence is gone
    worker.accept(worker.ranks[1], job(2, 50))
    assert read_in(worker, 1) == [{2}]
