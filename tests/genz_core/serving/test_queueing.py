"""Cycle, wait and balance of the closed form by hand, for steps with linear times."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import numpy as np
import pytest

from genz_core.serving.balance import closed_loop
from genz_core.serving.queueing import Batching
from genz_core.serving.queues import at_most, largest

ONE = np.ones(1)


@dataclass(frozen=True)
class Linear:
    """Steps of `step_s`, plus seconds per decode and per prompt token, through `lanes` stages that
    share the time; prompts of at most `tokens`, on `ranks` in lock-step.
    """

    step_s: float = 0.01
    decode_s: float = 1e-3
    token_s: float = 1e-4
    lanes: int = 1
    tokens: float = 1e6
    of: float = 1.0

    @property
    def ranks(self):
        return self.of * ONE

    @property
    def sizes(self):
        return SimpleNamespace(tokens=self.tokens * ONE)

    def picked(self, chosen):
        return self

    def __call__(self, decodes, tokens, elsewhere, launched=None):
        busy = (decodes > 0) | (tokens > 0)
        latency = busy * self.step_s + self.decode_s * decodes + self.token_s * tokens
        return latency, latency / self.lanes

    def of_decodes(self, decodes):
        return self(decodes, 0.0, 0.0)

    def graph_room(self, decodes):
        return None


def batching(times=None, **changed):
    """Eight requests of 100 tokens and 11 steps, prompts and decodes together in steps of 1,000
    tokens.
    """
    usual = {
        "isl": 100.0, "steps": 11.0, "steps_spread": 0.0, "nominal_spread": 0.0,
        "admitted": 8.0, "others": 1.0, "budget": 1000.0, "late_steps": 0.0, "look_every": 1.0,
        "batch_wait": 0.0, "waves": 10.0,
    }  # fmt: skip
    arrays = {name: changed.pop(name, value) * ONE for name, value in usual.items()}
    flags = {
        "lanes": 1, "closed": True, "mixed": True, "whole": False, "ahead_steps": 0.0,
    }  # fmt: skip
    return Batching(times=times or Linear(), host_s=0.0, **(arrays | flags | changed))


# ------------------------------------------------------------------------------- a step


@dataclass(frozen=True)
class Listed(Linear):
    """Notes the steps that are priced: (whether it decodes, whether it reads prompts)."""

    priced: list = field(default_factory=list)

    def __call__(self, decodes, tokens, elsewhere, launched=None):
        self.priced.append((bool(np.any(decodes > 0)), bool(np.any(tokens > 0))))
        return super().__call__(decodes, tokens, elsewhere, launched)


@pytest.mark.parametrize(
    ("decodes", "tokens", "steps"),
    [(4.0, 0.0, [(True, False)]), (0.0, 50.0, [(False, True)]),
     (4.0, 50.0, [(False, True), (True, False)])],
)  # fmt: skip
def test_prompts_apart_price_no_empty_step(decodes, tokens, steps):
    times = Listed()
    batching(times, mixed=False).cycle_s(decodes * ONE, tokens * ONE)
    assert times.priced == steps


def test_nothing_waits_for_the_first_of_requests_that_do_not_return_together():
    """Neither those of one length, nor where prompts and decodes share steps."""
    times = Listed()
    assert batching(times, mixed=False, joined=ONE).first_s() == [0.0]
    assert batching(times, apart_s=1e-3).first_s() == [0.0]
    assert not times.priced
    assert batching(times, mixed=False, joined=ONE, apart_s=1e-3).first_s() > [0.0]


@pytest.mark.parametrize(
    ("changed", "decodes", "room"),
    [
        ({"budget": 100.0}, 40.0, 60.0),
        ({"budget": 100.0, "lanes": 2}, 40.0, 80.0),
        ({"budget": 100.0, "mixed": False}, 40.0, 100.0),
        ({"budget": 100.0, "isl": 30.0, "whole": True}, 40.0, 60.0),
        ({"budget": 100.0, "isl": 45.0, "whole": True}, 40.0, 45.0),
        ({"budget": 100.0, "isl": 200.0, "whole": True}, 40.0, 200.0),  # never cut
        ({"budget": 10.0}, 40.0, 1.0),
        ({"times": Linear(tokens=50.0)}, 40.0, 50.0),
    ],
)
def test_prompts_have_what_the_budget_leaves_beside_the_decodes(changed, decodes, room):
    assert batching(**changed).room(decodes * ONE) == room


def test_a_pipeline_is_as_slow_as_one_way_through_it_or_all_lanes_of_its_slowest_stage():
    """Eight decodes take 18 ms in one lane; four in each of two lanes 14 ms in all, or two times
    10.5.
    """
    assert batching().cycle_s(8 * ONE, 0 * ONE) == pytest.approx(0.018)
    two = batching(Linear(lanes=2), lanes=2)
    assert two.cycle_s(8 * ONE, 0 * ONE) == pytest.approx(0.01 + 4e-3)
    uneven = batching(Linear(lanes=4 / 3), lanes=2)
    assert uneven.cycle_s(8 * ONE, 0 * ONE) == pytest.approx(2 * (0.01 + 4e-3) * 3 / 4)


def test_an_engine_that_reads_alone_takes_a_step_for_prompts_and_one_for_decodes():
    apart = batching(mixed=False)
    assert apart.cycle_s(8 * ONE, 100 * ONE) == pytest.approx(0.018 + 0.02)
    assert batching().cycle_s(8 * ONE, 100 * ONE) == pytest.approx(0.028)


def test_as_many_prompts_enter_as_answers_end():
    """Eight requests decode for ten steps after their first: 0.8 enter per step; 0.6 in a lane of
    two, where three quarters of the load is in others.
    """
    assert batching().prompts(8 * ONE) == pytest.approx(0.8)
    assert batching(lanes=2, others=0.75).prompts(16 * ONE) == pytest.approx(0.6)


def test_a_request_sees_the_steps_that_read_but_its_own():
    """Prompts come in five of eleven steps, one of them its own: in four of ten it waits for
    those of 1.76 others, 0.8 per step on average times 11 / 5.
    """
    plain, reading = 0.018, 0.8 * 11 / 5 * 100 * 1e-4
    mean = batching().pace(8 * ONE, 5 * ONE).cycle_s
    assert mean == pytest.approx(plain + 4 / 10 * reading)
    assert batching().pace(8 * ONE, 11 * ONE).cycle_s == pytest.approx(plain + 0.8 * 100 * 1e-4)


def test_of_requests_that_are_read_together_half_of_the_others_delay_the_first_token():
    """An engine that prefills alone, in steps of one prompt: of four others, two come before."""
    alone = batching(mixed=False, budget=100.0, joined=ONE)
    reading = 0.8 * 11 / 5 * (0.01 + 100e-4)
    mean = alone.pace(8 * ONE, 5 * ONE).cycle_s
    assert mean == pytest.approx(0.018 + (4 - 2) / 10 * reading)


@pytest.mark.parametrize("lanes", [2, 4])
@pytest.mark.parametrize("prompts", [0.02, 0.4, 2.0])
def test_a_cycle_of_a_pipeline_is_that_of_steps_that_keep_their_order_in_every_stage(
    lanes, prompts
):
    """Four decodes a lane: 14 ms through all stages, and each prompt of a step 10 ms more."""
    each_s = (0.014 + 0.01 * np.random.default_rng(0).poisson(prompts, 20_000)) / lanes
    left_s, ended_s = np.zeros(lanes), np.zeros(lanes)  # by stage; by lane
    for number, stage_s in enumerate(each_s):
        at_s = ended_s[number % lanes]
        for stage in range(lanes):
            at_s = left_s[stage] = max(at_s, left_s[stage]) + stage_s
        ended_s[number % lanes] = at_s
    decodes = 4.0 * lanes * ONE
    pipeline = batching(Linear(lanes=lanes), lanes=lanes)
    found = pipeline.mixed_cycle_s(decodes, prompts * ONE)
    assert found == pytest.approx(at_s / each_s.size * lanes, rel=0.03)
    assert pipeline.pace(decodes, 1 * ONE).cycle_s == pytest.approx(0.014)


@pytest.mark.parametrize("mean", [1e-3, 0.5, 3.0, 20.0])
@pytest.mark.parametrize("of", [1, 2, 8])
def test_the_largest_of_several_poisson_numbers_is_that_of_their_distribution(mean, of):
    from scipy.stats import poisson

    any_at_all, most = largest(mean * ONE, of * ONE)
    assert any_at_all == pytest.approx(1 - math.exp(-mean * of))
    more = 1.0 - poisson.cdf(np.arange(200), mean) ** of
    assert most == pytest.approx(more.sum() / (1 - math.exp(-mean * of)), rel=1e-6)


def test_many_prompts_are_as_normal_and_none_is_one():
    from scipy.stats import poisson

    for mean, of in ((31.0, 2.0), (31.0, 64.0), (400.0, 8.0)):
        _, most = largest(mean * ONE, of * ONE)
        more = 1.0 - poisson.cdf(np.arange(2000), mean) ** of
        assert most == pytest.approx(more.sum(), rel=1e-3)
    assert largest(0 * ONE, 8 * ONE) == (0.0, 1.0)


def test_the_share_of_steps_with_at_most_so_many_prompts_is_that_of_poisson_numbers():
    from scipy.stats import poisson

    most, mean = np.meshgrid([-1.0, 0.0, 1.0, 5.0, 40.0, 512.0], [0.0, 1e-3, 0.5, 3.0, 20.0, 100.0])
    together = at_most(most, mean)
    assert together == pytest.approx(poisson.cdf(most, mean))
    apart = [
        at_most(np.array([m]), np.array([a]))[0] for m, a in zip(most.flat, mean.flat, strict=True)
    ]
    assert (together.ravel() == apart).all()  # to the last bit, whatever else is asked


# ------------------------------------------------------------------------------- a first token


@pytest.mark.parametrize(
    ("tokens", "together", "seconds"),
    [
        (80.0, 90.0, 0.01 + 90e-4),
        (250.0, 250.0, 2 * (0.01 + 100e-4) + 0.01 + 50e-4),
        (200.0, 200.0, 2 * (0.01 + 100e-4)),
        (101.0, 101.0, 0.01 + 100e-4 + 0.01 + 2e-4),  # a rest of one is read as two
        (80.0, 500.0, 0.01 + 100e-4),
    ],
)
def test_tokens_are_read_in_whole_steps_and_a_rest(tokens, together, seconds):
    read = batching().reading_s(0 * ONE, tokens * ONE, together * ONE, 100 * ONE, 0 * ONE)
    assert read == pytest.approx(seconds)


def test_decodes_ride_on_the_steps_that_read_where_the_engine_mixes_them():
    mixed, apart = (
        batching(mixed=which).reading_s(5 * ONE, 100 * ONE, 100 * ONE, 100 * ONE, 0 * ONE)
        for which in (True, False)
    )
    assert mixed - apart == pytest.approx(5e-3)


def test_a_first_wave_is_read_in_one_step_or_in_turn():
    """Eight prompts of 100: one step of 800 tokens without decodes; in steps of 200 - 4 tokens,
    with the four that decode by then, a prompt waits for half of all of them and half a step.
    """
    assert batching().first_wave_s() == pytest.approx(0.01 + 0.08)
    tight = batching(budget=200.0)
    step = 0.01 + 4e-3 + 196e-4
    assert tight.first_wave_s() == pytest.approx((800 + 196) / 2 / 196 * step)


def test_prompts_of_one_token_answers_are_read_as_fast_as_steps_are_full():
    assert batching().prompts_per_s() == pytest.approx(1000 / 100 / (0.01 + 0.1))
    two = batching(Linear(lanes=2), lanes=2)
    assert two.prompts_per_s() == pytest.approx(2 * 1000 / 100 / (0.01 + 0.1))


def test_a_step_that_reads_has_a_decode_beside_it_as_often_as_one_decodes():
    """Eight prompts of 100 in steps of 101, and ten steps of 18 ms that answer: reading adds whole
    steps of 20.1 ms where none decodes, the 10 ms of a step's 100 tokens where one does, and
    nearly the mean of both where one decodes half of the time."""
    load = batching(budget=101.0)
    none, half, nearly, one = (
        float(load.wave_s(n * ONE)[0][0]) - 10 * 0.018 for n in (0.0, 0.5, 0.999, 1.0)
    )
    assert none == pytest.approx(800 / 101 * (0.01 + 101e-4))
    assert one == pytest.approx(800 / 100 * 100e-4)
    assert half == pytest.approx((none + one) / 2, rel=0.02)
    assert nearly == pytest.approx(one, rel=0.002)


def test_no_more_decode_than_steps_can_keep_up_with():
    """A step of 1,000 tokens has room for ten prompts less the decodes' share: D/10 prompts per
    step.
    """
    few = batching(admitted=5000.0, budget=1000.0)
    most = float(few.most_decodes()[0])
    room = 1000.0 - most
    assert most / 10 == pytest.approx(room / 100, rel=1e-3)
    assert batching().most_decodes() == 8.0
    assert batching(mixed=False, admitted=5000.0).most_decodes() == 5000.0


def test_whole_prompts_keep_up_with_as_many_decodes_as_leave_room_for_all_of_them():
    """Ten gaps a prompt of 300 tokens: three prompts and 30 decodes fill less than 1,000 tokens;
    of 330 tokens, three fit beside at most 10 decodes, and two keep up with 20."""
    three = batching(admitted=5000.0, isl=300.0, whole=True)
    assert three.most_decodes() == pytest.approx(30.0, rel=1e-3)
    two = batching(admitted=5000.0, isl=330.0, whole=True)
    assert two.most_decodes() == pytest.approx(20.0, rel=1e-3)
    between = batching(admitted=5000.0, isl=325.0, whole=True)
    assert between.most_decodes() == pytest.approx(25.0, rel=1e-3)


@pytest.mark.parametrize("whole", [False, True])
def test_of_users_beyond_what_steps_keep_up_with_no_more_decode(whole):
    """A step of three prompts of 300 tokens: however many wait for it, as many are served."""
    served = []
    for users in (64.0, 512.0, 4096.0):
        load = batching(admitted=users, others=1 - 1 / users, isl=300.0, whole=whole, waves=0.0)
        served.append(float(balanced(load).requests_per_s[0]))
    assert served == pytest.approx([served[0]] * 3, rel=0.02)


# ------------------------------------------------------------------------------- the balance


def balanced(load, users=None):
    users = float(load.admitted[0]) if users is None else users
    limit = load.admitted
    return closed_loop(load, np.zeros(1, int), users * ONE, limit, ONE, ONE)


@pytest.mark.parametrize("steps", [2.0, 3.0, 11.0, 200.0])
@pytest.mark.parametrize("admitted", [4.0, 64.0])
def test_those_that_decode_are_littles_law(steps, admitted):
    """Prompts cost nothing, and a step takes 1 ms per decode: D = X (steps - 1) T with T = D ms."""
    sizes = {"steps": steps, "admitted": admitted, "others": 1 - 1 / admitted, "budget": 1e6}
    load = batching(Linear(0.0, 1e-3, 0.0), **sizes)
    found = balanced(load)
    decodes = float(found.cycle_s[0]) / 1e-3
    served = float(found.requests_per_s[0])
    assert decodes == pytest.approx(served * (steps - 1) * float(found.cycle_s[0]), rel=0.01)
    inside = decodes + served * float(found.ttft_s[0] - burst(load, found))
    assert inside == pytest.approx(admitted, rel=0.01)


def test_what_is_not_plain_decoding_is_in_use():
    """Two users with prompts that take time: the share of a cycle in addition to the decodes' own
    step.
    """
    load = batching(Linear(0.01, 1e-3, 1e-3), admitted=2.0, others=0.5)
    found = balanced(load)
    decodes = float(found.requests_per_s[0]) * 10 * float(found.cycle_s[0])
    assert 1 < decodes < 2
    fewest, most = (1 - (0.01 + 1e-3 * many) / found.cycle_s for many in (2.0, decodes))
    assert fewest < found.prompt_share < most  # more of them decode in a step than at a time


def burst(load, found):
    """The addition of a closed loop's start to the mean first token over its waves."""
    gaps = (load.steps - 1.0) * found.cycle_s
    mean = load.admitted / found.requests_per_s - gaps
    return found.ttft_s[0] - mean[0]


def test_users_beyond_the_room_wait_for_it():
    load = batching(others=1 - 1 / 8)
    alone, crowded = balanced(load), balanced(load, users=24.0)
    assert crowded.requests_per_s == pytest.approx(alone.requests_per_s)
    wait = crowded.ttft_s - alone.ttft_s
    assert wait == pytest.approx((24 - 8) / alone.requests_per_s)
    assert (alone.running, crowded.running) == (8.0, 8.0)


@pytest.mark.parametrize("admitted", [0.4, 0.7, 1.0])
def test_of_fewer_readers_than_ranks_each_waits_for_its_own_prompt_alone(admitted):
    """A prompt of 400 tokens takes four steps of 20 ms: of one request the next step is its own."""
    load = batching(steps=1.0, isl=400.0, budget=100.0, admitted=admitted, others=0.0)
    found = balanced(load)
    assert found.ttft_s == pytest.approx(0.08, rel=0.01)
    assert found.requests_per_s == pytest.approx(admitted / 0.08, rel=0.01)


@pytest.mark.parametrize("waiting", [0.0, 0.3, 0.9])
def test_a_wait_outside_of_the_engine_lets_no_more_be_served_than_the_work_on_all_admitted(waiting):
    """64 requests of a prompt of 20 ms and ten steps of 74 ms, whose first token comes sooner where
    those read before others decode: 64 in 2.02 s."""
    load = batching(mixed=False, admitted=64.0, budget=100.0, others=63 / 64, waves=0.0)
    most = 64 / (64 * 0.02 + 10 * 0.074)
    served = []
    for users in (64.0, 80.0, 100.0, 130.0, 200.0):
        late = replace(load, wait=waiting * ONE, users=users * ONE)
        served.append(float(balanced(late, users).requests_per_s[0]))
    assert np.all(np.array(served) <= most * 1.0001)
    assert np.all(np.diff(served) >= -1e-6 * most)


def test_two_groups_of_users_take_turns_in_answers_of_one_and_of_two_tokens():
    """Four prompts take 50 ms, four decodes 14 ms: eight users wait for two such steps of prompts,
    and where the next step is planned meanwhile, of decodes.
    """
    one = batching(steps=1.0, ahead_steps=1.0)
    found = balanced(one)
    assert found.ttft_s == pytest.approx(2 * 0.05)
    assert found.requests_per_s == pytest.approx(8 / (2 * 0.05))
    two = balanced(replace(one, steps=2.0 * ONE))
    assert two.cycle_s == pytest.approx(0.014)
    assert two.ttft_s == pytest.approx(2 * (0.05 + 0.014) - 0.014)
    assert two.requests_per_s == pytest.approx(8 / (2 * (0.05 + 0.014)))


def test_more_users_of_one_token_answers_shorten_no_first_token():
    users = np.unique(np.round(np.geomspace(1, 400, 60)))
    for lanes in (1, 2, 4):
        times = Linear(lanes=lanes)
        first = [
            float(balanced(batching(times, steps=1.0, lanes=lanes, admitted=n)).ttft_s[0])
            for n in users
        ]
        assert np.all(np.diff(first) > -1e-9)


def test_one_token_answers_are_served_at_the_rate_of_reading():
    load = batching(steps=1.0, admitted=100.0)
    found = balanced(load)
    assert found.requests_per_s == pytest.approx(float(load.prompts_per_s()[0]))
    assert found.prompt_share == 1.0
    idle = balanced(replace(load, admitted=1.0 * ONE, others=0 * ONE))
    assert idle.requests_per_s == pytest.approx(1 / (0.01 + 100e-4), rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "running"),
    [
        ({}, 64),  # 2 prompts begin in each step, and each request runs for 32 steps
        ({"isl": 16384.0}, 16.5),  # a prompt takes 2 steps, and the next one waits for them
        ({"isl": 100.0}, 128),  # a step has room for the prompts of all who return
        ({"whole": True}, 32),  # a second whole prompt has no room beside any decode
        ({"mixed": False}, 128),  # prompts come first: all are read before any ends
    ],
)
def test_requests_run_for_whose_prompts_steps_have_tokens(kind, running):
    given = {"isl": 4096.0, "steps": 32.0, "budget": 8192.0, "admitted": 128.0, "others": 127 / 128}
    load = batching(**(given | kind))
    assert load.most_running() == pytest.approx(running, rel=0.02)
