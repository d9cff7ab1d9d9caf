"""Replicas that come and go: by hand, beside queue formulas, and as laws."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest

from genz_core.errors import InvalidValue
from genz_core.serving.cache_tiers import CacheTier
from genz_core.serving.simulation import (
    Options,
    ReplicaSetPlan,
    Requests,
    simulate_replica_set,
)
from genz_core.serving.simulation.policies import Vllm
from genz_core.serving.simulation.scaling import Fixed
from genz_core.types import Parallelism
from tests import draws
from tests.genz_core.simulation.loads import ENGINE, Linear

#: A step of 10 ms, 1 ms for a decode, and 100 us for a token of a prompt.
STEPS = Linear(decode_s=1e-3, token_s=1e-4)


@dataclass
class Script:
    """Replicas by time: the last number whose time has come."""

    numbers: dict[float, int]
    interval_s: float = 1.0
    seen: list = field(default_factory=list)

    def wanted(self, seen) -> int:
        self.seen.append(seen)
        return [number for time, number in self.numbers.items() if time <= seen.now_s][-1]


def served(model, system, requests, plan, price=None, sequences=64, **more):
    return simulate_replica_set(
        model, system, requests, plan, engine=ENGINE, price=price or STEPS,
        scheduler=Vllm(budget=100_000, sequences=sequences),
        options=Options(kv_tokens=1e9, prefix_caching=False), **more,
    )  # fmt: skip


ONE = Requests([1.0], [1000], [11])
PREFILL_S, DECODE_S = 0.11, 0.011


# ------------------------------------------------------------------------------- by hand


def test_a_request_waits_for_the_start_of_its_replica(model, system):
    run, course = served(model, system, ONE, ReplicaSetPlan(Script({0.0: 0, 5.0: 1}), 0, 30.0))
    assert run.ttft_s[0] == pytest.approx(5.0 + 30.0 - 1.0 + PREFILL_S)
    assert run.e2e_s[0] == pytest.approx(run.ttft_s[0] + 10 * DECODE_S)
    assert course.held == 1 and course.starts == 1
    assert course.replica_s == pytest.approx(30.0 + PREFILL_S + 10 * DECODE_S)


def test_a_replica_that_is_not_wanted_ends_its_requests_and_takes_none(model, system):
    two = Requests([0.0, 0.5, 1.1], [1000] * 3, [101] * 3)
    run, course = served(model, system, two, ReplicaSetPlan(Script({0.0: 2, 1.0: 1}), 2))
    assert run.rank.tolist() == [0, 1, 0]
    assert run.ended.all() and course.ready[-1] == 1
    left = 0.5 + PREFILL_S + 100 * DECODE_S  # the second replica ends with its request
    whole = float(np.max(run.arrival_s + run.e2e_s))
    assert course.replica_s == pytest.approx(whole + left)


def test_what_a_lost_replica_had_is_read_again_elsewhere_and_goes_on(model, system):
    """Lost in its sixth decode: six tokens were written, 1,006 are read again, five are left."""
    lost_s = PREFILL_S + 5.5 * DECODE_S
    plan = ReplicaSetPlan(Fixed(2), 2, 1.0, [(1.0 + lost_s, 0)], 7.0)
    run, course = served(model, system, ONE, plan)
    again_s = 0.01 + 1006 * 1e-4
    assert run.ttft_s[0] == pytest.approx(PREFILL_S)
    assert run.e2e_s[0] == pytest.approx(lost_s + again_s + 4 * DECODE_S)
    assert (course.losses, course.moved) == (1, 1)


def test_a_lost_replica_is_back_after_its_replacement_and_start(model, system):
    late = Requests([0.0, 1.0], [1000] * 2, [1] * 2)
    run, course = served(model, system, late, ReplicaSetPlan(Fixed(1), 1, 3.0, [(0.5, 0)], 7.0))
    assert run.ttft_s[1] == pytest.approx(0.5 + 7.0 + 3.0 - 1.0 + PREFILL_S)
    assert course.replica_s == pytest.approx(10.5 + PREFILL_S)  # it is paid for all the time


def test_a_prompt_on_its_way_from_a_tier_of_a_lost_replica_begins_again(model, system):
    """A host is lost with its replica; what all share is read once more."""
    prefix = [range(32), range(1000, 1062), range(32)]  # the second fills the device
    load = Requests([0.0, 1.0, 2.0], [513, 993, 513], [1] * 3, prefix=prefix, block_tokens=16)
    token = 4 * 2 * 4 * 64 * 2.0
    tiers = (CacheTier("host", 1e9, 1e6), CacheTier("remote", 1e9, 1e6, shared=True))
    for tier, ends_s in ((tiers[0], 513e-4), (tiers[1], 512 * token / 1e6 + 1e-4)):
        run, course = simulate_replica_set(
            model, system, load, ReplicaSetPlan(Fixed(2), 2, 1.0, [(3.0, 0)], 7.0), engine=ENGINE,
            price=STEPS, routing="prefix", scheduler=Vllm(budget=100_000),
            options=Options(kv_tokens=1200.25, tiers=(tier,)),
        )  # fmt: skip
        assert course.moved == 1 and run.ended.all()
        assert run.e2e_s[2] == pytest.approx(3.0 - 2.0 + ends_s + 0.01)
        assert run.written_bytes[tier.name] >= (512 + 992) * token


def test_a_loss_where_no_replica_serves_is_none(model, system):
    plan = ReplicaSetPlan(Fixed(1), 1, 0.0, [(0.5, 3), (0.6, 1)])
    run, course = served(model, system, ONE, plan)
    assert course.losses == 0 and run.e2e_s[0] == pytest.approx(PREFILL_S + 10 * DECODE_S)


def test_the_policy_sees_what_is_open_and_what_came(model, system):
    script = Script({0.0: 1}, interval_s=2.0)
    load = Requests([0.5, 1.0, 1.5], [100, 200, 300], [400, 500, 600])
    served(model, system, load, ReplicaSetPlan(script, 1, 0.0))
    first, second = script.seen[:2]
    assert (first.open, first.arrived, first.seconds) == (0, 0, 0.0)
    assert (second.open, second.arrived, second.seconds) == (3, 3, 2.0)
    assert (second.isl, second.osl, second.ready) == (200.0, 500.0, 1)
    assert 0.0 < second.kv_use < 1.0 and second.waiting == 0


def test_requests_beyond_those_of_a_replica_wait_before_the_router(model, system):
    load = Requests([0.0] * 3, [1000] * 3, [1] * 3)
    run, course = served(model, system, load, ReplicaSetPlan(Fixed(1), 1, open_each=1))
    assert run.ttft_s == pytest.approx([PREFILL_S, 2 * PREFILL_S, 3 * PREFILL_S])
    assert course.held == 2


def test_a_replica_of_two_ranks_has_as_many_requests_as_one_of_a_rank(model, system):
    load, pair = Requests([0.0] * 3, [1000] * 3, [1] * 3), Parallelism(dp=2)
    plan = ReplicaSetPlan(Fixed(1), 1, open_each=2)
    run, course = served(model, system, load, plan, parallelism=pair)
    assert run.ttft_s == pytest.approx([PREFILL_S, PREFILL_S, 2 * PREFILL_S])
    assert course.held == 1


def test_a_round_robin_counts_replicas_and_takes_the_least_loaded_rank_of_each(model, system):
    load, pair = Requests([0.0] * 4, [1000] * 4, [1] * 4), Parallelism(dp=2)
    plan = ReplicaSetPlan(Fixed(2), 2)
    run, _ = served(model, system, load, plan, parallelism=pair, routing="round_robin")
    assert run.rank.tolist() == [0, 1, 0, 1] and run.ttft_s == pytest.approx([PREFILL_S] * 4)


def test_requests_that_no_scheduler_admits_are_refused_not_waited_for(model, system):
    with pytest.raises(InvalidValue, match="can never run"):
        served(model, system, ONE, ReplicaSetPlan(Script({0.0: 1}), 1), sequences=0)


# ------------------------------------------------------------------------------- queues


def erlang_c_wait_s(rate: float, service_s: float, servers: int) -> float:
    """Mean wait of M/M/c: C(c, a) / (c mu - lambda); Erlang, 1917."""
    load = rate * service_s
    terms = [load**k / math.factorial(k) for k in range(servers)]
    last = load**servers / math.factorial(servers) * servers / (servers - load)
    waits = last / (sum(terms) + last)
    return waits / (servers / service_s - rate)


def exponential(count: int, rate: float, seed: int) -> Requests:
    """Poisson arrivals, and answers whose length is geometric: 500 steps of 2 ms on average."""
    chance = np.random.default_rng(seed)
    arrival = np.cumsum(chance.exponential(1.0 / rate, count))
    return Requests(arrival, np.ones(count), chance.geometric(1.0 / 500.0, count))


CLOCK = Linear(0.002, 0.0, 0.0)


@pytest.mark.draws
@pytest.mark.by_day(1)
@pytest.mark.parametrize(("servers", "rate"), [(3, 2.3), (1, 0.6), (6, 5.0)])
def test_one_at_a_time_they_wait_as_erlang_says(model, system, servers: int, rate: float):
    waits = []
    for draw in range(draws.cases(4)):
        load = exponential(2000, rate, draws.seed(100 * draw + servers))
        plan = ReplicaSetPlan(Fixed(servers), servers, open_each=1)
        waits.append(served(model, system, load, plan, CLOCK)[0].queue_s.mean())
    error = np.std(waits) / math.sqrt(len(waits))
    assert np.mean(waits) == pytest.approx(erlang_c_wait_s(rate, 1.0, servers), abs=5.0 * error)


@pytest.mark.draws
def test_with_lost_servers_they_wait_as_erlang_says_of_those_that_are_left(model, system):
    """Four servers, of which one after the other is lost for good: M/M/4, M/M/3, M/M/2, M/M/1."""
    rate, phase_s, settled_s = 0.5, 6000.0, 200.0
    losses = [(phase_s * lost, 4 - lost) for lost in (1, 2, 3)]
    waits = {servers: [] for servers in (4, 3, 2, 1)}
    for draw in range(draws.cases(1)):
        load = exponential(12_500, rate, draws.seed(50 + draw))
        plan = ReplicaSetPlan(Fixed(4), 4, 0.0, losses, 1e9, open_each=1)
        run, course = served(model, system, load, plan, CLOCK)
        assert course.losses == 3
        for servers, found in waits.items():
            start = (4 - servers) * phase_s
            here = (run.arrival_s > start + settled_s) & (run.arrival_s < start + phase_s)
            found.append(run.queue_s[here].mean())
    for servers, found in waits.items():
        expected = erlang_c_wait_s(rate, 1.0, servers)
        assert np.mean(found) == pytest.approx(expected, rel=0.3, abs=0.003), servers


# ------------------------------------------------------------------------------- laws


@dataclass(frozen=True)
class Case:
    load: Requests
    price: Linear
    replicas: int
    losses: tuple
    replace_s: float
    start_s: float

    @classmethod
    def drawn(cls, chance) -> Case:
        count = int(chance.integers(10, 60))
        replicas = int(chance.integers(1, 6))
        price = Linear(*chance.uniform([0.005, 0.0, 1e-5], [0.02, 2e-3, 2e-4]))
        arrival = np.cumsum(chance.gamma(chance.uniform(0.3, 2.0), 0.3, count))
        lengths = chance.integers(1, 2000, count), chance.integers(1, 60, count)
        losses = sorted(
            (float(chance.uniform(0.0, arrival[-1])), int(chance.integers(0, replicas)))
            for _ in range(int(chance.integers(1, 5)))
        )
        return cls(
            Requests(arrival, *lengths), price, replicas, tuple(losses),
            float(chance.uniform(0.0, 20.0)), float(chance.uniform(0.0, 5.0)),
        )  # fmt: skip


def cases(number: int, seed: int):
    chance = np.random.default_rng(draws.seed(seed))
    return (Case.drawn(chance) for _ in range(draws.cases(number)))


SOONER_S = 1e-7


def ends(model, system, case, replicas, losses=(), open_each=1, routing="least_loaded"):
    plan = ReplicaSetPlan(
        Fixed(replicas), replicas, case.start_s, losses, case.replace_s, open_each
    )
    run, _ = served(model, system, case.load, plan, case.price, routing=routing)
    return run.arrival_s + run.e2e_s


@pytest.mark.draws
def test_with_more_replicas_no_request_ends_later(model, system):
    """One request at a time and one queue (G/G/c in order of arrival): for every single request.

    With batches or a queue a replica this need not hold of one sample: a request may join another
    step.  See the law of all samples together below.
    """
    for case in cases(50, 11):
        few = ends(model, system, case, case.replicas)
        more = ends(model, system, case, case.replicas + 1)
        assert np.all(more <= few + SOONER_S)


@pytest.mark.draws
def test_with_a_loss_no_request_ends_earlier(model, system):
    """As above; what was lost goes first, so that every start is at least as late."""
    for case in cases(50, 12):
        whole = ends(model, system, case, case.replicas)
        for count in range(1, len(case.losses) + 1):
            lost = ends(model, system, case, case.replicas, case.losses[:count])
            assert np.all(lost >= whole - SOONER_S)


@pytest.mark.draws
def test_twice_as_many_in_turns_delay_nobody(model, system):
    """In turns, a replica of twice as many has a part of what it had: one request at a time."""
    one = Vllm(budget=100_000, sequences=1)
    for case in cases(50, 14):
        both = []
        for replicas in (case.replicas, 2 * case.replicas):
            run, _ = simulate_replica_set(
                model, system, case.load, ReplicaSetPlan(Fixed(replicas), replicas), engine=ENGINE,
                price=case.price, scheduler=one, routing="round_robin",
                options=Options(kv_tokens=1e9, prefix_caching=False),
            )  # fmt: skip
            both.append(run.e2e_s)
        assert np.all(both[1] <= both[0] + SOONER_S)


@pytest.mark.draws
def test_with_batches_more_replicas_miss_no_more_of_all_requests(model, system):
    """Batches, the fewest open requests: not of each sample, but of all draws together.

    The same arrivals and lengths for both; a target drawn among the latencies of the fewer.
    """
    missed = np.zeros(3)
    for case in cases(60, 15):
        few = ends(model, system, case, case.replicas, open_each=0) - case.load.arrival_s
        more = ends(model, system, case, case.replicas + 1, open_each=0) - case.load.arrival_s
        lost = ends(model, system, case, case.replicas, case.losses, 0) - case.load.arrival_s
        for quantile in (0.5, 0.9, 0.99):
            target = np.quantile(few, quantile)
            missed += [np.mean(each > target + SOONER_S) for each in (more, few, lost)]
    assert missed[0] <= missed[1] <= missed[2]
