"""The assignment beside brute force, and its laws over random fleets.

What is tried by brute force is written out by plain loops, machine by machine, without a line of
the solver: every way to fill each machine, all of them together, and the best by priority.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from app.fleets.assignment import Choice, Demand, Kind, Problem, assign
from tests import draws

pytestmark = pytest.mark.draws


def fleet(rng: random.Random, models: int = 3, distinct: bool = False) -> Problem:
    """A random fleet that brute force can write out."""
    kinds = tuple(
        Kind(rng.choice((1, 2, 4)), rng.randint(0, 2), rng.choice((0.0, 1.0, 2.5)))
        for _ in range(rng.randint(1, 2))
    )
    ranks = rng.sample(range(1, 9), models) if distinct else rng.choices((1, 2), k=models)
    demands = tuple(
        Demand(rng.uniform(1.0, 10.0), rank, rng.choice((None, None, 2, 4))) for rank in ranks
    )
    choices = [
        Choice(model, kind, rng.choice((1, 2, 3, 4)), rng.choice((2.0, rng.uniform(0.5, 8.0))))
        for model in range(models)
        for kind in range(len(kinds))
        for _ in range(rng.randint(0, 2))
    ]
    budget = rng.choice((None, None, 3.0, 6.0))
    return Problem(demands, kinds, tuple(choices), budget)


# ------------------------------------------------------------------------------- brute force


def ways(problem: Problem, kind: int) -> set[tuple[tuple[int, ...], int]]:
    """(replicas of each choice, machines in use) of every way to fill the machines of a kind."""
    devices, count = problem.kinds[kind].devices, problem.kinds[kind].count
    none = (0,) * len(problem.choices)
    one_machine = {none}
    grown = {none}
    while grown:
        wider = set()
        for counts in grown:
            for at, choice in enumerate(problem.choices):
                if choice.kind != kind or choice.devices > devices:
                    continue
                more = tuple(n + (place == at) for place, n in enumerate(counts))
                room = sum(n * c.devices for n, c in zip(more, problem.choices, strict=True))
                if room <= devices:
                    wider.add(more)
        grown = wider - one_machine
        one_machine |= wider
    found = {(none, 0)}
    frontier = set(found)
    while frontier:
        wider = set()
        for counts, used in frontier:
            for more in one_machine - {none} if used < count else ():
                wider.add((tuple(map(sum, zip(counts, more, strict=True))), used + 1))
            for at, choice in enumerate(problem.choices):
                many = -(-choice.devices // devices)
                if choice.kind == kind and many > 1 and used + many <= count:
                    more = tuple(n + (place == at) for place, n in enumerate(counts))
                    wider.add((more, used + many))
        frontier = wider - found
        found |= wider
    return found


def shares(problem: Problem, counts: tuple[int, ...]) -> list[float]:
    loads = [0.0] * len(problem.demands)
    for n, choice in zip(counts, problem.choices, strict=True):
        loads[choice.model] += n * choice.load
    return [min(load / d.load, 1.0) for load, d in zip(loads, problem.demands, strict=True)]


def best_by_hand(problem: Problem) -> tuple[list[float], float]:
    """(sum of the served shares of each priority, rent an hour) of the best of all ways."""
    best = None
    for parts in itertools.product(*(ways(problem, kind) for kind in range(len(problem.kinds)))):
        counts = tuple(map(sum, zip(*(part[0] for part in parts), strict=True)))
        rent = sum(k.usd_per_hour * part[1] for k, part in zip(problem.kinds, parts, strict=True))
        if problem.budget is not None and rent > problem.budget + 1e-9:
            continue
        devices = [0] * len(problem.demands)
        for n, choice in zip(counts, problem.choices, strict=True):
            devices[choice.model] += n * choice.devices
        if any(d.most_devices is not None and used > d.most_devices
               for used, d in zip(devices, problem.demands, strict=True)):  # fmt: skip
            continue
        served = shares(problem, counts)
        sums = [round(one, 9) for one in by_level(problem, served)]
        value = ([-one for one in sums], rent)
        if best is None or value < best:
            best = value
    assert best is not None
    return [-one for one in best[0]], best[1]


def by_level(problem: Problem, served: Sequence[float]) -> list[float]:
    """The sum of the shares of each priority; a later model counts a ten-thousandth less."""
    sums = []
    for level in sorted({demand.priority for demand in problem.demands}):
        mine = [s for s, d in zip(served, problem.demands, strict=True) if d.priority == level]
        sums.append(sum(share * (1.0 - 1e-4 * at) for at, share in enumerate(mine)))
    return sums


@pytest.mark.parametrize("number", range(draws.cases(20)))
def test_the_assignment_is_that_of_brute_force(number):
    problem = fleet(random.Random(draws.seed(100) + number))
    found, (sums, rent) = assign(problem), best_by_hand(problem)
    assert by_level(problem, found.share) == pytest.approx(sums, abs=5e-6)
    assert found.usd_per_hour == pytest.approx(rent, abs=5e-6)


# ------------------------------------------------------------------------------- what holds


def not_less(first: list[float], second: list[float]) -> bool:
    """Whether `first` is no less than `second`, the first difference deciding."""
    for one, other in zip(first, second, strict=True):
        if abs(one - other) > 5e-6:
            return one > other
    return True


def drawn(start: int, *, distinct: bool = False):
    for number in range(draws.cases(50)):
        rng = random.Random(draws.seed(start) + number)
        yield rng, fleet(rng, rng.randint(1, 5), distinct)


def test_machines_hold_what_they_are_given():
    for _, problem in drawn(1000):
        found = assign(problem)
        for kind, used in zip(problem.kinds, found.placed, strict=True):
            assert len(used) <= kind.count
            assert all(sum(devices for _, devices in slots) <= kind.devices for slots in used)
        devices = [0] * len(problem.choices)
        for at, size in itertools.chain(*itertools.chain(*found.placed)):
            devices[at] += size
        wanted = [n * c.devices for n, c in zip(found.replicas, problem.choices, strict=True)]
        assert devices == wanted
        assert list(found.share) == pytest.approx(shares(problem, found.replicas))


def test_no_model_is_worse_off_for_those_of_lower_priority():
    for rng, problem in drawn(2000):
        least = max(demand.priority for demand in problem.demands)
        kept = [m for m, d in enumerate(problem.demands) if d.priority < least]
        alone = replace(
            problem,
            demands=tuple(problem.demands[m] for m in kept),
            choices=tuple(
                replace(c, model=kept.index(c.model)) for c in problem.choices if c.model in kept
            ),
        )
        louder = [
            d if d.priority < least else replace(d, load=d.load * rng.uniform(0.1, 10.0))
            for d in problem.demands
        ]
        before = assign(alone).share
        for other in (problem, replace(problem, demands=tuple(louder))):
            after = assign(other).share
            assert [after[m] for m in kept] == pytest.approx(list(before), abs=5e-6)


def test_one_more_machine_never_lowers_what_is_served_and_a_lost_one_never_helps():
    for rng, problem in drawn(3000):
        at = rng.randrange(len(problem.kinds))
        kinds = list(problem.kinds)
        kinds[at] = replace(kinds[at], count=kinds[at].count + 1)
        more = assign(replace(problem, kinds=tuple(kinds))).share
        before = assign(problem)
        assert not_less(by_level(problem, more), by_level(problem, before.share))
        again = assign(replace(problem, kinds=tuple(kinds)), start=before)
        assert by_level(problem, again.share) == pytest.approx(by_level(problem, more), abs=5e-6)


def test_a_machine_more_may_go_to_a_higher_priority_with_those_of_a_lower_one():
    """The lower one is served in full before, and no longer: the higher one, which is not, needs
    the whole of its machine beside the new one."""
    demands = (Demand(7.3), Demand(6.7, most_devices=4), Demand(5.2, 2))
    choices = (
        Choice(0, 0, 1, 6.7),
        Choice(0, 1, 3, 2.0),
        Choice(1, 0, 4, 3.8),
        Choice(2, 1, 1, 2.0),
    )
    fewer = Problem(demands, (Kind(4, 1), Kind(4, 1, 1.0)), choices)
    more = replace(fewer, kinds=(Kind(4, 1), Kind(4, 2, 1.0)))
    before, alone = assign(fewer), assign(more)
    assert before.share[2] == 1.0 > alone.share[2] > 0.0
    again = assign(more, start=before)
    assert again.proven and again.share == pytest.approx(alone.share, abs=5e-6)


def test_a_higher_demand_is_never_served_more_fully():
    for rng, problem in drawn(4000, distinct=True):
        at = rng.randrange(len(problem.demands))
        demands = list(problem.demands)
        demands[at] = replace(demands[at], load=demands[at].load * rng.uniform(1.0, 4.0))
        more = assign(replace(problem, demands=tuple(demands))).share[at]
        assert more <= assign(problem).share[at] + 5e-6


def test_a_higher_budget_never_lowers_what_is_served():
    for rng, problem in drawn(5000):
        less = replace(problem, budget=rng.uniform(0.0, 8.0))
        served = [by_level(problem, assign(one).share)
                  for one in (replace(less, budget=less.budget * 1.5), less)]  # fmt: skip
        assert not_less(*served)


def test_the_first_of_equal_priority_is_served_where_one_machine_serves_either():
    demands = (Demand(1.0), Demand(1.0))
    choices = (Choice(0, 0, 1, 1.0), Choice(1, 0, 1, 1.0))
    assert assign(Problem(demands, (Kind(1, 1),), choices)).share == (1.0, 0.0)


def test_owned_machines_are_filled_before_rented_ones():
    kinds = (Kind(8, 1, 10.0), Kind(8, 1, 0.0))
    choices = (Choice(0, 0, 8, 1.0), Choice(0, 1, 8, 1.0))
    found = assign(Problem((Demand(1.0),), kinds, choices))
    assert found.machines == (0, 1) and found.usd_per_hour == 0.0


@pytest.mark.parametrize(("first", "second"), [(12, 16), (16, 12), (16, 16)])
def test_of_two_replicas_that_replace_each_other_one_is_left(first, second):
    choices = (Choice(0, 0, first, 1.0), Choice(0, 0, second, 1.0))
    found = assign(Problem((Demand(1.0),), (Kind(8, 2),), choices))
    assert found.share == (1.0,) and sum(found.replicas) == 1
    assert sum(devices for slots in found.placed[0] for _, devices in slots) == min(first, second)


def test_a_fleet_that_nothing_runs_on_serves_nothing():
    found = assign(Problem((Demand(1.0),), (Kind(8, 1),), ()))
    assert found.share == (0.0,) and found.machines == (0,)
