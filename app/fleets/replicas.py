"""Replicas that may run on machines of one kind, and the largest load of each within its targets.

Shapes, figures and the check of targets come from `app.planning`, with many loads for one replica
instead of many replicas for one load.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.fleets.fleet_question import FleetModel, Machine
from app.planning import aggregated, demand, why_not
from app.planning.answer import Answer, answer
from app.planning.candidates import joined
from app.planning.families import Family, asking_for, families
from app.planning.probability import likely
from app.planning.ranking import ranking
from app.planning.search import search, targets_of
from app.planning.shortlist import hopeful
from app.planning.space import batch_limits, shapes
from app.question.query import Query
from genz_core.errors import OutOfMemory, RidgelineError, UnknownName
from genz_core.types import Array, Mask

_MOST_DEVICES = 4096
#: Number of times a rate is halved to represent a request alone.
_HALVINGS = 16
#: Number of loads tried between the last one within the targets and its double; they include equal
#: shares of the whole load.
_BETWEEN, _EQUAL = 24, 32
#: Shares of the closed form's largest load that are tried if a simulation misses a target there.
_LADDER = (1.0, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A replica that may run.

    asked: the question of its model on its machines.  family: its system, engine and formats.
    row: one replica in the form of `space.replicated`.  load: largest within its targets by the
    closed form, at most the model's whole load.
    """

    query: Query
    family: Family
    row: Array
    load: float

    @property
    def devices(self) -> int:
        """Devices of the replica."""
        return int(self.row[4])

    def answer_at(self, load: float) -> Answer:
        """The answer of `plan` for this replica alone under a load, simulated if the question asks
        for it.

        The answer has a plan if the replica serves the load within the targets.
        """
        query = _with_load(self.query, load)
        q = query.question
        family = asking_for(self.family.resolved, rate=q.rate, concurrency=q.concurrency)
        priced = aggregated.of_table(replace(self.family, resolved=family), self.row[:, None])
        return answer(query, priced=(priced, ()), with_changes=False)

    def sustained(self) -> tuple[float, Answer | None]:
        """The largest load at which `plan` recommends the replica, and that answer; 0 for none.

        Simulations may lower the closed form's load, but never raise it.
        """
        low, high = 0, len(_LADDER)
        best: tuple[float, Answer | None] = (0.0, None)
        at, step = 0, 1
        while low < high:  # nearby shares first: most answers are among them
            load = self._part(_LADDER[at])
            found = self.answer_at(load)
            if found.short.plans:
                high, best = at, (load, found)
            else:
                low = at + 1
            at, step = min(low + step - 1, (low + high) // 2), 2 * step
        return best

    def _part(self, share: float) -> float:
        load = self.load * share
        return float(max(int(load), 1)) if demand.is_closed(self.query.question) else load


@dataclass(frozen=True, slots=True)
class Possible:
    """The replicas of a model on machines of one kind; why: the reason if there are none, else
    "".
    """

    replicas: tuple[Replica, ...]
    why: str = ""


def possible(model: FleetModel, machine: Machine) -> Possible:
    """Every replica of a model that the machines can hold and that meets its targets at some load.

    Raises:
        UnknownName: an unknown model, engine or format.
    """
    if model.systems and machine.system.slug not in model.systems:
        return Possible((), "its question names other systems")
    query = _on(model.query, machine)
    try:
        found, left = families(query)
    except UnknownName as error:
        error.where = f"model {model.name[:60]!r} of the fleet"
        raise
    except RidgelineError as error:
        return Possible((), str(error))
    replicas: list[Replica] = []
    whys = [f"{one.what}: {one.why}" for one in left]
    for family in found:
        try:
            replicas += _of_family(family, query)
        except RidgelineError as error:
            whys.append(f"{family}: {error}")
    return Possible(tuple(replicas), "" if replicas else _why_none(query, found, whys))


def _on(query: Query, machine: Machine) -> Query:
    """The question of a model on machines of one kind: their system and their devices."""
    most = machine.devices
    nearest = machine.system.links[0].domain if machine.system.links else 0
    if nearest and most % nearest == 0:  # only splits that keep the fastest links whole
        most = min(most * max(machine.count, 1), _MOST_DEVICES)
    named = machine.source if isinstance(machine.source, str) else machine.system.slug
    several = {name: values for name, values in query.several.items() if name != "system"}
    objects = {name: one for name, one in query.objects.items() if name not in ("system", "trace")}
    if not isinstance(machine.source, str):
        objects["system"] = machine.system
    question = replace(query.question, system=named, devices=(1, most))
    return replace(query, question=question, several=several, objects=objects)


def _with_load(query: Query, load: float) -> Query:
    q = query.question
    changed: dict[str, Any] = {"concurrency": int(load)} if demand.is_closed(q) else {"rate": load}
    return replace(query, question=replace(q, **changed))


def _of_family(family: Family, query: Query) -> list[Replica]:
    """The replicas of a family that serve some load within the targets."""
    table = _rows(family, query)
    table = table[:, aggregated.holds(family, table[:4])] if table.size else table
    if not table.size:
        return []
    loads = _most_loads(family, table, query)
    pairs = zip(table.T, loads, strict=True)
    return [Replica(query, family, row, float(load)) for row, load in pairs if load > 0.0]


def _rows(family: Family, query: Query) -> Array:
    """Every shape of one replica with every batch limit, [7, replicas]."""
    resolved = family.resolved
    degrees = shapes(resolved.model, resolved.system, query, resolved.engine.name, family.copies)
    each = degrees[0] * degrees[1] * degrees[2]
    limits = batch_limits(query, spills=bool(family.spill))
    return np.concatenate(
        [np.vstack([degrees, each, np.ones_like(each), np.full_like(each, one)]) for one in limits],
        axis=1,
    )


def _lowest(query: Query) -> float:
    """A load at which requests effectively run alone."""
    whole = demand.amount(query.question)
    return 1.0 if demand.is_closed(query.question) else whole / 2.0**_HALVINGS


def _most_loads(family: Family, table: Array, query: Query) -> Array:
    """The largest load of each replica that meets every target, 0 for none, [replicas]."""
    whole, closed = demand.amount(query.question), demand.is_closed(query.question)
    halved = whole / 2.0 ** np.arange(_HALVINGS, -1, -1)
    marks = np.unique(np.floor(halved[halved >= 1.0])) if closed else halved
    marks = np.unique(np.append(marks, _lowest(query)))
    good = _in_targets(family, table, query, np.tile(marks, (table.shape[1], 1)))
    many = good.argmin(axis=1)
    many[good.all(axis=1)] = len(marks)
    some, reach_ = many > 0, many < len(marks)
    low = np.where(some, marks[np.maximum(many - 1, 0)], 0.0)
    open_ = some & reach_
    if open_.any():
        high = marks[np.minimum(many, len(marks) - 1)][open_]
        between = np.stack([_between(*ends, query) for ends in zip(low[open_], high, strict=True)])
        good = _in_targets(family, table[:, open_], query, between)
        last = np.where(good.all(axis=1), good.shape[1], good.argmin(axis=1)) - 1
        finer = between[np.arange(len(last)), np.maximum(last, 0)]
        low[open_] = np.where(last >= 0, finer, low[open_])
    return low


def _between(low: float, high: float, query: Query) -> Array:
    """Increasing loads between one within the targets and one that misses them: `_BETWEEN` and
    `_EQUAL`.
    """
    whole = demand.amount(query.question)
    replicas = max(np.ceil(whole / high), 1.0) + np.arange(_EQUAL)
    loads = np.append(np.geomspace(low, high, _BETWEEN + 2)[1:-1], whole / replicas)
    if demand.is_closed(query.question):
        loads = np.ceil(loads)
    return np.sort(np.where((loads > low) & (loads < high), loads, low))


def _in_targets(family: Family, table: Array, query: Query, loads: Array) -> Mask:
    """Whether each replica meets every target at each of its loads, [replicas, loads].

    Percentile targets are checked later by simulation; the closed form only selects candidates.
    """
    many = loads.shape[1]
    priced = aggregated.of_table(family, np.repeat(table, many, axis=1), loads.ravel())
    ranked = ranking(priced, targets_of(query), "devices", query.question.confidence)
    if query.question.simulate and any(target.figure.percentile for target in ranked.targets):
        good = hopeful(ranked).feasible(priced, np.ones(len(priced)))
    else:
        good = ranked.feasible(priced, likely(priced, ranked.targets, query.question))
    return np.asarray(good.reshape(loads.shape))


def _why_none(query: Query, found: Sequence[Family], whys: Sequence[str]) -> str:
    """Why no replica serves any load, found by trying all shapes with a single request."""
    parts, said = [], list(whys)
    for family in found:
        table = _rows(family, query)
        try:
            if table.size:
                load = np.full(table.shape[1], _lowest(query))
                parts.append(aggregated.of_table(family, table, load))
        except RidgelineError:
            continue  # said already
    alone = joined(parts)
    if not len(alone):
        return "; ".join(said) or "no degrees split the model over the devices of a machine"
    tried = search(_with_load(query, _lowest(query)), (alone, ()))
    slack = tried.ranking.slack(alone)
    every = np.ones(len(alone), dtype=bool)
    loser = why_not.nearest(tried, int(alone.family[0]), every, slack)
    if tried.ranking.sound(alone).any():
        return f"misses its targets even with a single request: {loser.why}"
    if loser.at is None or alone.status[loser.at] != OutOfMemory.code:
        return loser.why
    return f"does not fit: {alone.messages.get(loser.at, loser.why)}"
