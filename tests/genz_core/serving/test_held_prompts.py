"""When ranks in lock-step read prompts: the closed form beside the rule, step by step."""

from __future__ import annotations

import numpy as np
import pytest

from genz_core.serving.held_prompts import at_once, of_several_ranks, of_single_rank

ONE = np.ones(1)


def held(prompts, ranks=8.0, most=8.0, longest=60.0, running=1.0):
    given = (prompts, ranks, most, longest, running)
    return of_several_ranks(*(np.atleast_1d(float(value)) for value in given))


def step_by_step(prompts, ranks, most, longest, steps=60_000, seed=1):
    """Mean wait and time between two readings that read something, by the rule itself."""
    rng = np.random.default_rng(seed)
    queues = [[] for _ in range(ranks)]
    waited, read, readings, since = 0.0, 0, 0, 0
    arriving = rng.poisson(prompts, (steps, ranks))
    for step in range(steps):
        for queue, number in zip(queues, arriving[step], strict=True):
            queue += [step] * number
        since += 1
        if not all(queues) and since < longest:
            continue
        since = 0
        readings += any(queues)
        for queue in queues:
            waited += sum(step - came for came in queue[:most])
            read += len(queue[:most])
            del queue[:most]
    return waited / read, steps / readings


@pytest.mark.parametrize(
    ("prompts", "ranks", "most"),
    [(0.001, 8, 8), (0.01, 8, 8), (0.05, 8, 8), (0.2, 8, 8), (0.01, 2, 4), (0.1, 4, 4)],
)
def test_prompts_that_fit_wait_as_the_rule_lets_them(prompts, ranks, most):
    wait, apart = step_by_step(prompts, ranks, most, 60)
    found = held(prompts, ranks, most)
    assert found.wait[0] == pytest.approx(wait, rel=0.1, abs=0.7)  # a step is not divisible
    assert 1.0 / found.busiest[0][0] == pytest.approx(apart, rel=0.15)


@pytest.mark.parametrize("prompts", [0.005, 0.01, 0.015])
def test_prompts_that_do_not_fit_wait_for_the_next_reading(prompts):
    wait, _ = step_by_step(prompts, 8, 1, 60)
    assert held(prompts, most=1).wait[0] == pytest.approx(wait, rel=0.35)


def test_users_that_wait_send_nothing():
    given = [np.atleast_1d(value) for value in (0.015, 8.0, 1.0, 60.0, 1.0)]
    waits = [of_several_ranks(*given, users).wait[0] for users in (4.0, 64.0, np.inf)]
    assert waits == sorted(waits) and waits[0] < 0.6 * waits[2]


def test_a_rare_prompt_waits_half_of_the_longest_time():
    assert held(1e-6).wait[0] == pytest.approx(30.0, rel=1e-3)


def test_frequent_prompts_are_read_at_once():
    assert held(20.0, most=100).wait[0] < 1.0
    assert held(20.0, most=100).busiest[0][0] == pytest.approx(1.0, abs=0.02)


def test_no_prompt_waits_where_nothing_else_runs():
    found, once = held(0.05, running=0.0), at_once(0.05 * ONE, 8.0 * ONE)
    assert found.wait[0] == 0.0
    assert np.ravel(found.busiest) == pytest.approx(np.ravel(once.busiest))


def test_a_longer_time_never_lets_prompts_wait_less():
    waits = [held(0.02, longest=longest).wait[0] for longest in (1, 5, 20, 60, 200)]
    assert waits == sorted(waits)


def test_readings_bring_all_prompts():
    rng = np.random.default_rng(5)
    prompts, ranks = 10 ** rng.uniform(-4, 0, 500), rng.choice([2.0, 4.0, 8.0, 32.0], 500)
    found = of_several_ranks(prompts, ranks, *np.full((3, 500), [[1e3], [50.0], [1.0]]))
    share, busiest = found.busiest
    assert np.all(share * busiest >= prompts * (1 - 1e-9))  # the busiest, the mean
    assert np.all((share > 0) & (share <= 1.0))


def test_a_single_rank_reads_when_prompts_fill_a_step():
    found = of_single_rank(0.1 * ONE, 3.0 * ONE, 60.0 * ONE, ONE)
    assert (found.group[0], found.beside[0]) == (3.0, 2.0)
    assert found.wait[0] == pytest.approx(20.0 * 4.0 / 6.0)
