"""Replicas behind one router that start and stop by a policy, and are lost and replaced.

A replica serves `start_s` after it is ordered, and is billed from the order on.  A replica that is
no longer wanted takes no more requests and stops after its last one.  When a replica is lost, its
requests move to others at once, the oldest first, and prefill their prompts and generated tokens
again (request migration).  The lost replica is back after `replace_s` and a start, with an empty
cache.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from genz_core.serving.simulation.answers import Simulation
from genz_core.serving.simulation.rank import Job, Rank
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.router import Router
from genz_core.serving.simulation.scaling import Observed, Policy
from genz_core.serving.simulation.simulator import (
    _CALLS,
    Cancel,
    Client,
    Homes,
    Pool,
    Progress,
    Simulator,
)
from genz_core.serving.simulation.worker import Flight, Worker
from genz_core.types import Array

Loss = tuple[float, int]


@dataclass(frozen=True, slots=True)
class ReplicaSetPlan:
    """The number of replicas over time, and their losses.

    policy: decides the number.  initial: replicas that serve at the start.
    start_s: from the order of a replica until it serves.  losses: (time, slot of a replica) of
    every loss.  Slots are numbered from 0 and a new replica takes the lowest free one; a loss has
    no effect if the slot's replica is not serving.  replace_s: from a loss until the replacement is
    started.
    open_each: most requests per replica; others wait at the router, 0 for no limit.
    until_s: least time that replicas are billed for.
    """

    policy: Policy
    initial: int
    start_s: float = 0.0
    losses: Sequence[Loss] = ()
    replace_s: float = 0.0
    open_each: int = 0
    until_s: float = 0.0


@dataclass(eq=False, slots=True)
class Replica:
    """A replica.  place: its slot.  numbers: of its workers in the pool.

    ready: whether it takes requests.  leaving: whether it stops after its last request.  ordered_s:
    start of billing.
    """

    place: int
    ordered_s: float
    numbers: range = range(0)
    ranks: Sequence[Rank] = ()
    ready: bool = False
    leaving: bool = False

    @property
    def load(self) -> int:
        return sum(rank.load for rank in self.ranks)


@dataclass(frozen=True, slots=True)
class ReplicaSetCourse:
    """The replicas during a run.

    time_s, wanted, ready, there: at every change, [changes]; there: number billed.
    replica_s: total billed time.  starts, losses: of replicas.  moved: requests that a loss moved
    to another replica.  held: requests that waited at the router.
    """

    time_s: Array
    wanted: Array
    ready: Array
    there: Array
    replica_s: float
    starts: int
    losses: int
    moved: int
    held: int


@dataclass(slots=True)
class _Counts:
    """Requests since the policy's last look, and their tokens."""

    since_s: float = 0.0
    arrived: int = 0
    read: float = 0.0
    written: float = 0.0


@dataclass(slots=True)
class _Log:
    changes: list[tuple[float, int, int, int]] = field(default_factory=list)
    replica_s: float = 0.0
    starts: int = 0
    losses: int = 0
    moved: int = 0
    held: int = 0


class ReplicaSetSimulator(Simulator):
    """Sends requests to replicas that start and stop.

    made: makes the empty workers of one replica.  The other arguments: see `Simulator`.
    """

    def __init__(
        self,
        requests: Requests,
        steps: Array,
        made: Callable[[], Sequence[Worker]],
        plan: ReplicaSetPlan,
        router: Router,
        client: Client,
        progress: Progress | None = None,
        cancelled: Cancel | None = None,
    ) -> None:
        self._made, self._plan = made, plan
        self._workers: list[Worker] = list(made())
        super().__init__(
            requests, steps, [Pool(self._workers, router)], client, progress, cancelled
        )
        self._first = range(len(self._workers))
        self._serving: list[Replica] = []  # replicas that take requests, by slot
        self._homes = [self._homes_of([])]
        self._replicas: list[Replica] = []
        self._of: dict[int, Replica] = {}  # by worker number
        self._held: deque[Job] = deque()
        self._leaving = 0
        self._now_s = 0.0
        self._counts, self._log = _Counts(), _Log()
        self._wanted = plan.initial
        self._periodic = 0  # events that occur in any case

    def run_with_course(self) -> tuple[Simulation, ReplicaSetCourse]:
        """Simulate every request.

        Raises:
            InvalidValue: requests that no scheduler ever admits.
        """
        plan = self._plan
        for _ in range(plan.initial):
            self._ready(0.0, self._ordered(0.0))
        for time_s, place in plan.losses:
            self._periodically(time_s, self._lose, place)
        if math.isfinite(plan.policy.interval_s):
            self._periodically(0.0, self._look)
        answers = self.run()
        end_s = max(self._now_s, plan.until_s)
        for replica in self._replicas:
            self._log.replica_s += end_s - replica.ordered_s
        return answers, self._course()

    # --------------------------------------------------------------------------- the policy

    def _periodically(self, time_s: float, call: Callable[..., None], *given: object) -> None:
        self._periodic += 1
        self._push(time_s, _CALLS, (self._if_left, call, *given))

    def _if_left(self, now: float, call: Callable[..., None], *given: object) -> None:
        self._periodic -= 1
        if self._left:
            call(now, *given)

    def _look(self, now: float) -> None:
        """Let the policy look, and start and stop replicas accordingly."""
        seen = self._observed(now)
        if not self._going_on and seen.ready and seen.open and self._wanted == seen.replicas:
            self._refuse_waiting()
        self._counts = _Counts(now)
        self._wanted = self._plan.policy.wanted(seen)
        for _ in range(self._wanted - seen.replicas):
            replica = self._ordered(now)
            self._push(now + self._plan.start_s, _CALLS, (self._ready, replica))
        for _ in range(seen.replicas - self._wanted):
            self._leave(now)
        if self._wanted != seen.replicas:
            self._note(now)
        self._periodically(now + self._plan.policy.interval_s, self._look)

    @property
    def _going_on(self) -> bool:
        """Whether events remain other than autoscaler checks and device losses."""
        return len(self._events) > self._periodic

    def _observed(self, now: float) -> Observed:
        there = [one for one in self._replicas if not one.leaving]
        ready = [one for one in there if one.ready]
        open_ = waiting = len(self._held)
        for replica in self._replicas:
            for rank in replica.ranks:
                open_ += rank.load
                waiting += len(rank.waiting) + len(rank.mail)
        used = [rank.cache.used / rank.cache.capacity for one in ready for rank in one.ranks]
        seen = self._counts
        arrived = max(seen.arrived, 1)
        return Observed(
            now, len(there), len(ready), open_, waiting, len(self._held),
            sum(used) / len(used) if used else 0.0,
            seen.arrived, now - seen.since_s, seen.read / arrived, seen.written / arrived,
        )  # fmt: skip

    # --------------------------------------------------------------------------- replicas

    def _ordered(self, now: float) -> Replica:
        """Order a new replica in the lowest free slot."""
        taken = {one.place for one in self._replicas}
        place = next(at for at in range(len(taken) + 1) if at not in taken)
        replica = Replica(place, now)
        self._replicas.append(replica)
        self._log.starts += 1
        return replica

    def _ready(self, now: float, replica: Replica) -> None:
        """Make a replica ready once it has started, unless it was stopped before."""
        if replica not in self._replicas or replica.ready:
            return
        if self._first and not self._of:
            replica.numbers = self._first
        else:
            start = len(self._workers)
            self._workers.extend(self._made())
            replica.numbers = range(start, len(self._workers))
        replica.ranks = [rank for at in replica.numbers for rank in self._workers[at].ranks]
        self._of |= dict.fromkeys(replica.numbers, replica)
        replica.ready = True
        self._changed(now)

    def _changed(self, now: float) -> None:
        """Update the router after a change of the replicas that take requests."""
        serving = [one for one in self._replicas if one.ready and not one.leaving]
        self._serving = sorted(serving, key=lambda one: one.place)
        self._homes[0] = self._homes_of(self._serving)
        there = [self._workers[at] for one in self._replicas for at in one.numbers]
        self._record.watch(there or [self._workers[at] for at in self._first])
        self._note(now)
        self._release(now)

    def _homes_of(self, replicas: Sequence[Replica]) -> Homes:
        numbers = [number for one in replicas for number in one.numbers]
        return Homes.of(self._workers, numbers, len(replicas))

    def _note(self, now: float) -> None:
        serving, there = len(self._serving), len(self._replicas)
        self._log.changes.append((now, self._wanted, serving, there))

    def _leave(self, now: float) -> None:
        """Stop one replica: one that is not serving yet, otherwise the newest."""
        there = [one for one in self._replicas if not one.leaving]
        replica = max(there, key=lambda one: (not one.ready, one.ordered_s, one.place))
        replica.leaving = True
        self._leaving += 1
        if not replica.load:
            self._gone(now, replica)
        self._changed(now)

    def _gone(self, now: float, replica: Replica) -> None:
        self._replicas.remove(replica)
        self._leaving -= 1
        self._log.replica_s += now - replica.ordered_s

    def _lose(self, now: float, place: int) -> None:
        """Lose the replica in a slot, if one serves there."""
        replica = next((one for one in self._replicas if one.place == place and one.ready), None)
        if replica is None:
            return
        self._log.losses += 1
        jobs = self._taken_from(now, replica)
        replica.numbers, replica.ranks, replica.ready = range(0), (), False
        if replica.leaving:
            self._gone(now, replica)
        else:
            back_s = now + self._plan.replace_s + self._plan.start_s
            self._push(back_s, _CALLS, (self._ready, replica))
        self._log.moved += len(jobs)
        self._held.extendleft(reversed(jobs))
        self._changed(now)

    def _taken_from(self, now: float, replica: Replica) -> list[Job]:
        """The requests of a lost replica, the oldest first, ready to start over."""
        jobs: list[Job] = []
        for number in replica.numbers:
            worker = self._workers[number]
            for flight in worker.flights:
                if flight is not None:
                    self._cut_off(now, worker, flight)
            for rank in worker.ranks:
                jobs += [*rank.waiting, *rank.mail]
                for lane in rank.lanes:
                    while (job := rank.take_out(lane)) is not None:
                        job.stopped_s = now
                        jobs.append(job)
                rank.waiting.clear()
                rank.mail.clear()
        return sorted(jobs, key=lambda job: job.row)

    def _cut_off(self, now: float, worker: Worker, flight: Flight) -> None:
        """End a flight with the last complete step; its unfinished prefill is lost."""
        worker.flights[flight.lane] = None
        whole = min(int((now - flight.start_s) / flight.step_s + 1e-9), flight.steps - 1)
        if whole <= 0:
            return
        for rank, plan in zip(worker.ranks, flight.plans, strict=True):
            if plan is not None and plan.decodes:
                flight.decoded += rank.lanes[flight.lane].count
                rank.advance(rank.lanes[flight.lane], whole)
        flight.steps = whole
        worker.busy_s += whole * flight.step_s / worker.lanes
        self._record.stepped(flight, now)

    # --------------------------------------------------------------------------- requests

    def _arrive(self, now: float, pool: int, job: Job) -> None:
        seen = self._counts
        seen.arrived += 1
        seen.read += job.prompt
        seen.written += job.length - job.prompt
        self._held.append(job)
        self._release(now)
        self._log.held += bool(self._held)

    def _free_homes(self) -> Homes:
        """The ranks of the replicas that can take another request."""
        most = self._plan.open_each
        if not most:
            return self._homes[0]
        return self._homes_of([one for one in self._serving if one.load < most])

    def _release(self, now: float) -> None:
        """Release requests that wait at the router, in order, as far as replicas have space."""
        while self._held and (homes := self._free_homes()).ranks:
            self._route(now, 0, self._held.popleft(), homes)

    def _place_of(self, number: int, at: int) -> int:
        return self._of[number].place

    def _end(self, now: float, late_s: float, pool: int, worker: Worker, job: Job) -> None:
        super()._end(now, late_s, pool, worker, job)
        self._now_s = now
        if self._leaving:
            for replica in [one for one in self._replicas if one.leaving and not one.load]:
                self._gone(now, replica)
                self._changed(now)
        if self._held:
            self._release(now)

    def _course(self) -> ReplicaSetCourse:
        log = self._log
        time_s, wanted, ready, there = np.array(log.changes, dtype=float).reshape(-1, 4).T
        return ReplicaSetCourse(
            time_s, wanted, ready, there, log.replica_s, log.starts, log.losses, log.moved,
            log.held,
        )  # fmt: skip
