"""The answer to a fleet question: what runs where, what is refused and why, and the value of more
machines.

A replica starts with its load from the closed form.  Once it is chosen, it is simulated as by
`plan`, and the assignment is solved again with the simulated load.  A simulation can only lower a
load, so when everything chosen has been simulated, the assignment is optimal for the simulated
loads.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from app.fleets.assignment import Assignment, Choice, Demand, Kind, Problem, assign
from app.fleets.fleet_question import FleetModel, FleetQuestion
from app.fleets.replicas import Possible, Replica, possible
from app.planning.answer import Answer
from app.wording import quantities
from genz_core.common.progress import Cancel, Cancelled, Progress, never, part, silent

#: Share below which a model does not count as served in full.
FULL = 1.0 - 1e-5


@dataclass(slots=True)
class _Tried:
    """What is known about a replica.  load: the largest so far; simulated: whether `plan` was run
    for it.
    """

    replica: Replica
    load: float
    simulated: bool = False
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Runs:
    """Equal replicas of a model on machines of one kind.

    model, machine: their indices.  most: load that each can serve within its targets.  load: its
    actual load.  answer: result of `plan` for one replica under a load `of`, which is one of these
    two loads if a simulation held there.
    """

    model: int
    machine: int
    count: int
    replica: Replica
    most: float
    load: float
    of: float
    answer: Answer


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a model does not run on machines of one kind."""

    model: int
    machine: int
    why: str


@dataclass(frozen=True, slots=True)
class OneMore:
    """The effect of one more machine of a kind.

    shares: served share of each model's load.  usd_per_hour: rent of all machines then.
    """

    machine: int
    shares: tuple[float, ...]
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """A solved fleet question.

    runs: what runs.  choices: of the assignment, (model, machine, replica).  refusals: where models
    do not run.  unserved: {model: why its load is not fully served}.  more: effect of one more
    machine of each kind.
    """

    question: FleetQuestion
    assignment: Assignment
    choices: tuple[tuple[int, int, Replica], ...]
    runs: tuple[Runs, ...]
    refusals: tuple[Refusal, ...]
    unserved: dict[int, str]
    more: tuple[OneMore, ...]


@dataclass(slots=True)
class _Search:
    """The state of the search: the known replicas of each model on each kind of machine."""

    question: FleetQuestion
    pools: dict[tuple[int, int], list[_Tried]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)
    cancelled: Cancel = never

    def problem(self) -> tuple[Problem, list[_Tried]]:
        """The assignment problem, and the replica of each of its choices.

        Among replicas of one size on one kind of machine, only the one with the highest load is
        used.
        """
        q = self.question
        choices: list[Choice] = []
        tried: list[_Tried] = []
        for (model, machine), pool in self.pools.items():
            best: dict[int, _Tried] = {}
            for one in pool:
                size = one.replica.devices
                if one.load > (best[size].load if size in best else 0.0):
                    best[size] = one
            for size, one in sorted(best.items()):
                choices.append(Choice(model, machine, size, one.load))
                tried.append(one)
        demands = tuple(Demand(m.load, m.priority, m.most_devices) for m in q.models)
        kinds = tuple(Kind(m.devices, m.count, m.usd_per_hour) for m in q.machines)
        return Problem(demands, kinds, tuple(choices), q.budget), tried

    def settled(
        self,
        change: Callable[[Problem], Problem],
        start: Assignment | None,
        progress: Progress,
    ) -> tuple[Assignment, list[_Tried], Problem]:
        """The assignment of a changed problem once everything that it chooses has been simulated.

        start: assignment of the same problem with no more machines, with all its choices simulated.
        """
        rounds = 0
        while True:  # each round except the last simulates replicas not simulated before
            problem, tried = self.problem()
            problem = change(problem)
            # the choices of `start` stay valid while none of their loads changes
            same = start if start and len(start.replicas) == len(tried) else None
            found = assign(problem, self.cancelled, same)
            new = [one for one, many in zip(tried, found.replicas, strict=True)
                   if many and not one.simulated]  # fmt: skip
            if not new:
                return found, tried, problem
            for place, one in enumerate(new):
                if self.cancelled():
                    raise Cancelled("simulating replicas")
                share = 1.0 - 0.5 ** (rounds + place / len(new))
                progress(share, f"simulating replicas, round {rounds + 1}")
                one.load, one.answer = one.replica.sustained()
                one.simulated = True
            rounds += 1


def answer(
    question: FleetQuestion, progress: Progress = silent, cancelled: Cancel = never
) -> FleetAnswer:
    """Choose what runs where, simulate it, and explain the result.

    Raises:
        Cancelled: between two models, programs or simulations.
    """
    search = _Search(question, cancelled=cancelled)
    _price(search, part(progress, 0.0, 0.4))
    found, tried, problem = search.settled(lambda one: one, None, part(progress, 0.4, 0.7))
    progress(0.7, "one more machine of each kind")
    more = _one_more(search, found, part(progress, 0.7, 0.9))
    progress(0.9, "reasons")
    unserved = _unserved(search, problem, found)
    runs = _runs(search, problem, found, tried)
    choices = tuple(
        (one.model, one.kind, each.replica)
        for one, each in zip(problem.choices, tried, strict=True)
    )
    refusals = (*search.refusals, *_rejected(search))
    return FleetAnswer(question, found, choices, runs, refusals, unserved, more)


def _price(search: _Search, progress: Progress) -> None:
    """Find the replicas of every model on every kind of machine; equal pairs are priced once."""
    q, known = search.question, dict[object, Possible]()
    pairs = [(m, k) for m in range(len(q.models)) for k in range(len(q.machines))]
    for number, (model, machine) in enumerate(pairs):
        named, kind = q.models[model], q.machines[machine]
        if search.cancelled():
            raise Cancelled(f"{named.name} on {kind.name}")
        progress(number / len(pairs), f"{named.name} on {kind.name}")
        source = kind.source if isinstance(kind.source, str) else id(kind.source)
        key = (model, source, kind.devices, kind.count)
        if key not in known:
            known[key] = possible(named, kind)
        if known[key].why:
            search.refusals.append(Refusal(model, machine, known[key].why))
        search.pools[model, machine] = [_Tried(one, one.load) for one in known[key].replicas]


def _one_more(search: _Search, found: Assignment, progress: Progress) -> tuple[OneMore, ...]:
    """The effect of one more machine of each kind."""
    more = []
    kinds = search.question.machines
    for at in range(len(kinds)):
        progress(at / len(kinds), f"one more {kinds[at].name}")

        def grown(problem: Problem, at: int = at) -> Problem:
            kind = problem.kinds[at]
            changed = (*problem.kinds[:at], replace(kind, count=kind.count + 1),
                       *problem.kinds[at + 1 :])  # fmt: skip
            return replace(problem, kinds=changed)

        after, _, _ = search.settled(grown, found, silent)
        more.append(OneMore(at, after.share, after.usd_per_hour))
    return tuple(more)


def _rejected(search: _Search) -> list[Refusal]:
    """Models for which simulation left no replica on machines of a kind."""
    return [
        Refusal(model, machine, "misses its targets in simulation even at a tenth of the load")
        for (model, machine), pool in search.pools.items()
        if pool and all(one.load <= 0.0 for one in pool)
    ]


def _unserved(search: _Search, problem: Problem, found: Assignment) -> dict[int, str]:
    """For each model that is not served in full, the reason."""
    return {
        model: _why(search, problem, found, model)
        for model, share in enumerate(found.share)
        if share < FULL
    }


def _why(search: _Search, problem: Problem, found: Assignment, model: int) -> str:
    q = search.question
    named, share = q.models[model], found.share[model]
    mine = tuple(one for one in problem.choices if one.model == model)
    able = {one.kind for one in mine if q.machines[one.kind].count}
    if not able:
        return "cannot run on any of the machines"
    only = replace(problem, choices=mine)
    alone = assign(only, search.cancelled).share[model]
    if alone > share + 1e-4:
        return f"displaced by {_displacing(q, problem, found, model, able)}: alone it would be " + (
            "served in full" if alone >= FULL else f"served to {quantities.percent(alone)}"
        )
    if named.most_devices is not None:
        free = (*problem.demands[:model], replace(problem.demands[model], most_devices=None),
                *problem.demands[model + 1 :])  # fmt: skip
        if assign(replace(only, demands=free), search.cancelled).share[model] > share + 1e-4:
            return f"the devices it may use ({named.most_devices}) cannot serve more"
    freed = replace(only, budget=None)
    if problem.budget is not None and assign(freed, search.cancelled).share[model] > share + 1e-4:
        return f"the budget of {quantities.dollars(problem.budget)} an hour does not pay for more"
    return "the machines cannot serve more of it even without other models"


def _displacing(
    q: FleetQuestion, problem: Problem, found: Assignment, model: int, able: set[int]
) -> str:
    """Which models use the machines or the budget that a model needs: those preferred to it, by
    priority.
    """
    mine = q.models[model].priority
    running = [
        one
        for one, many in zip(problem.choices, found.replicas, strict=True)
        if many and one.model != model and q.models[one.model].priority <= mine
    ]
    there = [one for one in running if one.kind in able] or running
    names = {one.model: q.models[one.model] for one in sorted(there, key=lambda one: one.model)}
    higher = [named.name for named in names.values() if named.priority < mine]
    equal = [named.name for named in names.values() if named.priority == mine]
    said = [f"the priority of {', '.join(higher)}"] if higher else []
    return " and ".join([*said, *([f"{', '.join(equal)} of the same priority"] if equal else [])])


def _runs(
    search: _Search, problem: Problem, found: Assignment, tried: list[_Tried]
) -> tuple[Runs, ...]:
    """What runs, each with its part of the load, in proportion to what it can serve."""
    q = search.question
    held = [0.0] * len(q.models)
    for one, many in zip(problem.choices, found.replicas, strict=True):
        held[one.model] += one.load * many
    runs: list[Runs] = []
    for choice, many, chosen in zip(problem.choices, found.replicas, tried, strict=True):
        if not many:
            continue
        if search.cancelled():
            raise Cancelled("figures of replicas")
        assert chosen.answer is not None  # by `_Search.settled`
        named, replica = q.models[choice.model], chosen.replica
        load = choice.load * min(named.load / held[choice.model], 1.0)
        of, said, asked = choice.load, chosen.answer, _whole(named, load)
        if asked < choice.load * FULL:
            lighter = replica.answer_at(asked)
            if lighter.short.plans:
                of, said = asked, lighter
        runs.append(Runs(choice.model, choice.kind, many, replica, choice.load, load, of, said))
    return tuple(sorted(runs, key=lambda run: (q.models[run.model].priority, run.model)))


def _whole(model: FleetModel, load: float) -> float:
    """The load of a replica as a question can state it: a whole number of requests in a closed
    loop.
    """
    return float(math.ceil(load)) if model.unit == "open requests" else load
