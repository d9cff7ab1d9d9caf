"""Which replicas run on which machines: one integer program per priority, solved by HiGHS.

HiGHS (MIT licence) comes with SciPy, which is installed already: `scipy.optimize.milp`.  The
package `highspy` is the same solver, and OR-Tools adds 90 MB of solvers and its own release cycle;
neither would solve these programs noticeably better.

Priorities are lexicographic.  Models of one priority share what higher priorities left over: the
sum of their served shares is maximised.  Each model weighs one ten-thousandth less than the one
before it in the list, so that the first of two equal models is served.  The served shares are fixed
before the next priority is solved, and programs do not contain models of lower priority, so lower
demands cannot change them.  With all served shares fixed, rent is minimised, then the number of
devices in use.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.fleets.packing import Arc, arcs, filled, machines
from genz_core.common.progress import Cancel, Cancelled, never
from genz_core.types import Array

#: Tolerance of fixed values: that of the solver's own constraints.
_ROUNDING = 2e-6
#: Relative weight lost from each model to the next one of the same priority.
_EARLIER = 1e-4
#: Weight of a machine in use relative to a device in use.
_OPENED = 1e-2
#: Relative gap accepted for the number of devices in use, the last criterion.
_CLOSE = 1e-3
_LIMIT_S = 20.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Equal machines.  usd_per_hour: of one machine in use, 0 if owned."""

    devices: int
    count: int
    usd_per_hour: float = 0.0


@dataclass(frozen=True, slots=True)
class Choice:
    """A replica that may run, in any number that the machines can hold.

    model, kind: their indices.  devices: of the replica; a replica larger than a machine uses whole
    machines.  load: part of the model's load that it serves within its targets.
    """

    model: int
    kind: int
    devices: int
    load: float


@dataclass(frozen=True, slots=True)
class Demand:
    """The demand of a model.

    load: in total.  priority: 1 is served first.  most_devices: limit on its devices, None for no
    limit.
    """

    load: float
    priority: int = 1
    most_devices: int | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Models, machines and choices; budget: dollars per hour in all, None for no limit."""

    demands: tuple[Demand, ...]
    kinds: tuple[Kind, ...]
    choices: tuple[Choice, ...]
    budget: float | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """An assignment of replicas to machines.

    replicas: of each choice.  share: served share of each model's load.  machines: in use, of each
    kind.  placed: for each kind, the machines in use as lists of (choice, devices), one entry per
    replica; a replica on several machines appears in each of them.  usd_per_hour: of the machines
    in use.
    proven: whether the solver has proven optimality; False if it ran out of time.
    """

    replicas: tuple[int, ...]
    share: tuple[float, ...]
    machines: tuple[int, ...]
    placed: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]
    usd_per_hour: float
    proven: bool = True


def assign(
    problem: Problem, cancelled: Cancel = never, start: Assignment | None = None
) -> Assignment:
    """The best assignment of a problem.

    start: the best for the same problem with no more machines; models fully served there stay so
    if all models of higher priority were, too (else more may go to these).

    Raises:
        Cancelled: between two programs.
    """
    program = _Program(problem, start)
    full = np.array(start.share if start else np.zeros(len(problem.demands))) >= 1.0 - _ROUNDING
    held = np.zeros(len(problem.demands))
    for priority in sorted({demand.priority for demand in problem.demands}):
        known = [m for m, one in enumerate(problem.demands) if one.priority <= priority]
        level = [m for m in known if problem.demands[m].priority == priority]
        if cancelled():
            raise Cancelled(f"priority {priority}")
        if full[known].all():
            held[level] = 1.0
        else:
            held[level] = program.served(level, known, held)[level]
    return program.cheapest(held)


def undominated(problem: Problem) -> list[int]:
    """Choices that no other choice of the same model and kind can replace.

    Of equal choices the first is kept.
    """
    kept: list[int] = []
    order = sorted(range(len(problem.choices)), key=lambda at: (problem.choices[at].devices, at))
    for at in order:
        one = problem.choices[at]
        fits = _machines_of(problem, one) <= problem.kinds[one.kind].count
        if one.load <= 0.0 or not fits:
            continue
        rivals = [o for o in order if o != at and _same(problem.choices[o], one)]
        if not any(_replaces(problem, rival, at) for rival in rivals):
            kept.append(at)
    return sorted(kept)


def _same(one: Choice, other: Choice) -> bool:
    return (one.model, one.kind) == (other.model, other.kind)


def _replaces(problem: Problem, rival: int, at: int) -> bool:
    """Whether copies of a rival that fit in a choice's devices serve at least as much.

    If each can replace the other, the one with fewer devices is kept, then the first.
    """
    one, other = problem.choices[at], problem.choices[rival]
    many, least = _machines_of(problem, one), _machines_of(problem, other)
    devices = problem.kinds[one.kind].devices
    if many > 1:
        copies = many // least if least > 1 else many * (devices // other.devices)
    else:
        copies = one.devices // other.devices
    if problem.demands[one.model].most_devices is not None:
        copies = min(copies, one.devices // other.devices)
    if not copies or copies * other.load < one.load:
        return False
    alike = other.load == one.load and (many == least > 1 or other.devices == one.devices)
    return (other.devices, rival) < (one.devices, at) if alike else True


def _machines_of(problem: Problem, one: Choice) -> int:
    """Number of machines that a replica occupies."""
    return -(-one.devices // problem.kinds[one.kind].devices)


@dataclass(slots=True)
class _Rows:
    """Collected rows of constraints: coefficients by variable, and both limits."""

    cells: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, terms: Mapping[int, float], low: float, high: float) -> None:
        """Add the row low <= sum of terms <= high."""
        self.cells += [(len(self.low), at, value) for at, value in terms.items() if value]
        self.low.append(low)
        self.high.append(high)


class _Program:
    """The integer programs of a problem; variables are replicas, slots and served shares."""

    def __init__(self, problem: Problem, start: Assignment | None = None) -> None:
        self.problem = problem
        self.kept = undominated(problem)
        self.choices = [problem.choices[at] for at in self.kept]
        self.slots = [self._arcs(kind) for kind in range(len(problem.kinds))]
        self.flat = [(kind, arc) for kind, mine in enumerate(self.slots) for arc in mine]
        self.first_arc = len(self.choices)
        self.first_share = self.first_arc + len(self.flat)
        self.size = self.first_share + len(problem.demands)
        self.proven = True
        self.latest = self._variables(start) if start else np.zeros(self.size)
        self.rows = self._rows()

    def _arcs(self, kind: int) -> tuple[Arc, ...]:
        devices = self.problem.kinds[kind].devices
        sizes = {one.devices for one in self.choices if one.kind == kind}
        return arcs(devices, (size for size in sizes if size <= devices))

    def _opened(self, kind: int) -> dict[int, float]:
        """Terms whose sum is the number of machines of a kind in use."""
        terms: dict[int, float] = {
            self.first_arc + at: 1.0
            for at, (of, arc) in enumerate(self.flat)
            if of == kind and arc.start == 0
        }
        for at, one in enumerate(self.choices):
            if one.kind == kind and (many := _machines_of(self.problem, one)) > 1:
                terms[at] = float(many)
        return terms

    def _rows(self) -> _Rows:
        rows, problem = _Rows(), self.problem
        for kind, machine in enumerate(problem.kinds):
            rows.add(self._opened(kind), -np.inf, machine.count)
            offered = [(self.first_arc + at, arc) for at, (of, arc) in enumerate(self.flat)
                      if of == kind]  # fmt: skip
            for device in sorted({arc.start for _, arc in offered} - {0}):
                ends = {at: 1.0 for at, arc in offered if arc.start + arc.size == device}
                begins = {at: -1.0 for at, arc in offered if arc.start == device}
                rows.add({**ends, **begins}, 0.0, np.inf)
            for size in sorted({arc.size for _, arc in offered}):
                slots = {at: 1.0 for at, arc in offered if arc.size == size}
                runs = {at: -1.0 for at, one in enumerate(self.choices)
                        if one.kind == kind and one.devices == size}  # fmt: skip
                rows.add({**slots, **runs}, 0.0, np.inf)
        for model, demand in enumerate(problem.demands):
            mine = {at: one for at, one in enumerate(self.choices) if one.model == model}
            served = {at: one.load / demand.load for at, one in mine.items()}
            rows.add({**served, self.first_share + model: -1.0}, 0.0, np.inf)
            if demand.most_devices is not None:
                devices = {at: float(one.devices) for at, one in mine.items()}
                rows.add(devices, -np.inf, demand.most_devices)
        if problem.budget is not None:
            rows.add(self._rent(), -np.inf, problem.budget)
        return rows

    def _rent(self) -> dict[int, float]:
        """Terms whose sum is the rent per hour."""
        return {
            at: count * machine.usd_per_hour
            for kind, machine in enumerate(self.problem.kinds)
            for at, count in self._opened(kind).items()
        }

    def _variables(self, start: Assignment) -> Array:
        """The variables of an assignment with the same choices."""
        found = np.zeros(self.size)
        place = {at: number for number, at in enumerate(self.kept)}
        for at, many in enumerate(start.replicas):
            if many:
                found[place[at]] = many
        number = {pair: self.first_arc + at for at, pair in enumerate(self.flat)}
        for kind, used in enumerate(start.placed):
            devices = self.problem.kinds[kind].devices
            for slots in used:
                begin = 0
                for at, size in sorted(slots, key=lambda slot: -slot[1]):
                    if self.problem.choices[at].devices <= devices:
                        found[number[kind, Arc(begin, size)]] += 1.0
                        begin += size
        found[self.first_share :] = start.share
        return found

    def served(self, level: Sequence[int], known: Sequence[int], held: Array) -> Array:
        """The served shares that maximise those of `level`.

        known: models that may run.  held: least share of each.
        """
        cost = np.zeros(self.size)
        for place, model in enumerate(level):
            cost[self.first_share + model] = _EARLIER * place - 1.0
        return self._shares(self._solved(cost, known, held))

    def cheapest(self, held: Array) -> Assignment:
        """The assignment that serves at least these shares with the least rent, then the fewest
        devices.

        The rent is fixed before devices are minimised.
        """
        every = range(len(self.problem.demands))
        rent = self._rent()
        limits: list[tuple[Mapping[int, float], float]] = []
        if any(rent.values()):
            cost = np.zeros(self.size)
            cost[list(rent)] = list(rent.values())
            found = self._solved(cost, every, held)
            spent = sum(value * found[at] for at, value in rent.items())
            limits.append((rent, spent + _ROUNDING * max(spent, 1.0)))
        cost = np.zeros(self.size)
        for at, one in enumerate(self.choices):
            cost[at] = float(one.devices)
        for kind in range(len(self.problem.kinds)):
            for at, count in self._opened(kind).items():
                cost[at] += _OPENED * count
        return self._assignment(self._solved(cost, every, held, limits=limits, gap=_CLOSE))

    def _shares(self, found: Array) -> Array:
        """Served shares, given whole numbers of replicas."""
        demands = self.problem.demands
        served = np.zeros(len(demands))
        for at, one in enumerate(self.choices):
            served[one.model] += found[at] * one.load / demands[one.model].load
        return np.minimum(served, 1.0)

    def _solved(
        self,
        cost: Array,
        known: Sequence[int],
        held: Array,
        limits: Sequence[tuple[Mapping[int, float], float]] = (),
        gap: float = 0.0,
    ) -> Array:
        """Variables of least cost, within a relative `gap`; replicas and slots are integers.

        If the solver runs out of time, its best solution so far is used, which respects `held`.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import coo_array

        if not self.choices:
            return np.zeros(self.size)
        rows = _Rows(list(self.rows.cells), list(self.rows.low), list(self.rows.high))
        for terms, most in limits:
            rows.add(terms, -np.inf, most)
        low, high = np.zeros(self.size), np.full(self.size, np.inf)
        low[self.first_share :] = np.maximum(held - _ROUNDING, 0.0)
        high[self.first_share :] = 1.0
        able = set(known)
        for at, one in enumerate(self.choices):
            if one.model not in able:
                high[at] = 0.0
        for model in set(range(len(self.problem.demands))) - able:
            high[self.first_share + model] = 0.0
        whole = np.ones(self.size)
        whole[self.first_share :] = 0.0
        row, column, value = zip(*rows.cells, strict=True)
        matrix = coo_array((value, (row, column)), shape=(len(rows.low), self.size)).tocsr()
        answer: Any = milp(
            cost, integrality=whole, bounds=Bounds(low, high),
            constraints=LinearConstraint(matrix, rows.low, rows.high),
            options={"mip_rel_gap": gap, "time_limit": _LIMIT_S},
        )  # fmt: skip
        if answer.status != 0:  # out of time: use the best solution so far
            self.proven = False
        if answer.x is not None:  # otherwise the previous program's solution respects `held` too
            found = np.asarray(answer.x, dtype=float)
            found[: self.first_share] = np.round(found[: self.first_share])
            self.latest = found
        return self.latest

    def _assignment(self, found: Array) -> Assignment:
        problem = self.problem
        replicas = np.zeros(len(problem.choices), dtype=int)
        replicas[self.kept] = found[: self.first_arc].astype(int)
        placed = [self._placed(kind, found, replicas) for kind in range(len(problem.kinds))]
        used = tuple(len(machines_) for machines_ in placed)
        rents = (kind.usd_per_hour * many for kind, many in zip(problem.kinds, used, strict=True))
        return Assignment(
            tuple(map(int, replicas)),
            tuple(map(float, self._shares(found))),
            used,
            tuple(tuple(tuple(each) for each in machines_) for machines_ in placed),
            float(sum(rents)),
            self.proven,
        )

    def _placed(self, kind: int, found: Array, replicas: Any) -> list[list[tuple[int, int]]]:
        """The machines of a kind in use, with the contents of each."""
        flow = {arc: int(found[self.first_arc + at]) for at, (of, arc) in enumerate(self.flat)
                if of == kind}  # fmt: skip
        waiting: dict[int, list[int]] = {}
        wide: list[list[tuple[int, int]]] = []
        devices = self.problem.kinds[kind].devices
        for at in np.flatnonzero(replicas):
            one = self.problem.choices[at]
            if one.kind != kind:
                continue
            if one.devices <= devices:
                waiting.setdefault(one.devices, []).extend([int(at)] * int(replicas[at]))
                continue
            for _ in range(int(replicas[at])):
                full, rest = divmod(one.devices, devices)
                wide += [[(int(at), devices)]] * full + ([[(int(at), rest)]] if rest else [])
        return filled(machines(flow), waiting) + wide
