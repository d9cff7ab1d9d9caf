"""The event loop: requests arrive, workers run steps, tokens are produced."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from genz_core.errors import InvalidValue
from genz_core.serving.simulation.answers import Recorder, Simulation
from genz_core.serving.simulation.rank import Job, Rank
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.router import Router
from genz_core.serving.simulation.tiers import Load
from genz_core.serving.simulation.worker import Flight, Worker
from genz_core.types import Array

Progress = Callable[[int, int], None]
Cancel = Callable[[], bool]
#: Time [s], kind, serial number, and what the kind needs.
Event: TypeAlias = tuple[float, int, int, Any]
#: Order of simultaneous events.
_LANDS, _ARRIVES, _AGREED, _LOADED, _STARTS, _CALLS = range(6)
_REPORT_EVERY = 1000


@dataclass(frozen=True, slots=True)
class HandOver:
    """The transfer of a prompt's cache to the next pool.

    busy_s: function from prompt tokens to the time that a worker's link is busy after the last
    step; transfers are sequential.  latency_s: added to each.
    shown_by: the pool that delivers the first token to the user.
    """

    busy_s: Callable[[int], float]
    latency_s: float = 0.0
    shown_by: Literal["prefill", "decode"] = "prefill"


@dataclass(frozen=True, slots=True)
class Pool:
    """Workers behind one router.

    deployments: number of equal deployments that the workers belong to, in order; attention ranks
    that share nothing are separate workers.
    hand_over: transfer of prefilled prompts to the next pool, None in the last pool.
    """

    workers: Sequence[Worker]
    router: Router
    deployments: int = 1
    hand_over: HandOver | None = None

    @classmethod
    def of(
        cls,
        made: Callable[[], Sequence[Worker]],
        deployments: int,
        router: Router,
        hand_over: HandOver | None = None,
    ) -> Pool:
        """A pool of new workers.  made: makes the empty workers of a deployment."""
        workers = [worker for _ in range(deployments) for worker in made()]
        return cls(workers, router, deployments, hand_over)


@dataclass(frozen=True, slots=True)
class Homes:
    """Ranks that requests may be sent to: the first of every deployment, then the second of each.

    With this order, a router that takes the first of equally loaded ranks spreads requests over
    deployments.
    numbers: of the workers that the ranks belong to.
    """

    ranks: Sequence[Rank]
    numbers: Sequence[int]
    deployments: int

    @classmethod
    def of(cls, workers: Sequence[Worker], numbers: Iterable[int], deployments: int) -> Homes:
        """The ranks of the given workers, which belong to equal deployments in order."""
        pairs = [(rank, number) for number in numbers for rank in workers[number].ranks]
        each = len(pairs) // max(deployments, 1)
        turns = [pairs[at + each * one] for at in range(each) for one in range(deployments)]
        return cls([rank for rank, _ in turns], [number for _, number in turns], deployments)


@dataclass(frozen=True, slots=True)
class Client:
    """The client that sends the requests, and the delays between it and the scheduler.

    concurrency: most open requests, 0 for no limit.  start_s: time over which its users send their
    first requests, evenly.  delay_s: from an answer to the next request in its place.
    request_s: from an arrival until the scheduler has the request; token_s: further, for each token
    of its prompt.
    """

    concurrency: int = 0
    start_s: float = 0.0
    delay_s: float = 0.0
    request_s: float = 0.0
    token_s: float = 0.0


class Simulator:
    """Sends requests through pools of workers.

    steps: decode steps of every request after its first token, [requests]; each yields an equal
    share of the answer.
    progress: called from time to time with the numbers of ended and of all requests.
    cancelled: called as often; if it returns True, the results cover the requests ended so far.
    counted: rows of the requests that figures are computed from, all by default.
    """

    def __init__(
        self,
        requests: Requests,
        steps: Array,
        pools: Sequence[Pool],
        client: Client,
        progress: Progress | None = None,
        cancelled: Cancel | None = None,
        counted: range | None = None,
    ) -> None:
        self._requests = requests
        self._steps = [int(count) for count in steps]
        self._inputs = requests.input_tokens.astype(int).tolist()
        self._outputs = requests.output_tokens.astype(int).tolist()
        self._arrivals = requests.arrival_s.tolist()
        self._pools = pools
        self._client = client
        self._progress = progress
        self._cancelled = cancelled
        self._events: list[Event] = []
        self._later_arrivals: list[Event] = []  # the next one last
        self._serial = 0
        self._arriving = 0
        self._open = 0
        self._stopped = False
        workers = [pool.workers for pool in pools]
        self._record = Recorder(requests, workers, counted or range(len(requests)))
        self._homes = [
            Homes.of(pool.workers, range(len(pool.workers)), pool.deployments) for pool in pools
        ]
        after = requests.after.tolist() or [-1] * len(requests)
        self._to_send = deque(row for row, before in enumerate(after) if before < 0)
        self._turns: dict[int, list[int]] = {}
        for row, before in enumerate(after):
            if before >= 0:
                self._turns.setdefault(before, []).append(row)

    def run(self) -> Simulation:
        """Simulate every request.

        Raises:
            InvalidValue: requests that no scheduler ever admits.
        """
        self._begin()
        events = self._events
        while events and not self._stopped:
            now, kind, serial, payload = heapq.heappop(events)
            if kind == _LANDS:
                self._land(now, serial, *payload)
            elif kind == _ARRIVES:
                self._arriving -= 1
                if self._later_arrivals:
                    heapq.heappush(events, self._later_arrivals.pop())
                self._arrive(now, *payload)
            elif kind == _AGREED:
                self._agreed(now, *payload)
            elif kind == _LOADED:
                self._loaded(now, *payload)
            elif kind == _STARTS:
                _, worker, lane = payload
                worker.woken[lane] = False
                self._start(now, *payload)
            else:
                call, *given = payload
                call(now, *given)
        if self._left and not self._stopped:
            self._refuse_waiting()
        return self._record.answers()

    @property
    def _left(self) -> int:
        """Number of requests that have not ended."""
        return len(self._requests) - self._record.ended

    def _refuse_waiting(self) -> None:
        """Refuse requests that no scheduler ever admits.

        Raises:
            InvalidValue: with their number.
        """
        raise InvalidValue(
            f"{self._left} requests can never run: the scheduler admits none of them"
        )

    def _push(self, time_s: float, kind: int, payload: tuple[Any, ...]) -> int:
        self._serial += 1
        heapq.heappush(self._events, (time_s, kind, self._serial, payload))
        return self._serial

    # --------------------------------------------------------------------------- the client

    def _begin(self) -> None:
        """Send the first requests; a closed loop sends them one after the other."""
        users = self._client.concurrency if self._client.start_s else 0
        for user in range(min(users, len(self._to_send))):
            self._request(self._to_send.popleft(), user * self._client.start_s / users)
        self._send(0.0)
        self._hold_back_arrivals()

    def _hold_back_arrivals(self) -> None:
        """Only the next of the known arrivals stands among the events: a short heap is fast."""
        arrivals = [event for event in self._events if event[1] == _ARRIVES]
        arrivals.sort(reverse=True)
        self._events = [event for event in self._events if event[1] != _ARRIVES]
        if arrivals:
            self._events.append(arrivals.pop())
        heapq.heapify(self._events)
        self._later_arrivals = arrivals

    def _send(self, now: float) -> None:
        """Send as many requests as the client may have open."""
        most = self._client.concurrency
        while self._to_send and (not most or self._open < most):
            row = self._to_send.popleft()
            self._request(row, max(now, self._arrivals[row]))

    def _request(self, row: int, arrival_s: float) -> None:
        requests, alone = self._requests, len(self._pools) == 1
        self._open += 1
        self._record.arrives(row, arrival_s)
        job = Job(
            row,
            self._inputs[row],
            self._outputs[row] if alone else 1,
            self._steps[row] if alone else 0,
            requests.prefix[row] if requests.prefix else (),
        )
        self._arriving += 1
        intake_s = self._client.request_s + self._client.token_s * job.prompt
        self._push(arrival_s + intake_s, _ARRIVES, (0, job))

    def _answered(self, now: float, row: int) -> None:
        """Handle a complete answer: send the next turn and the next request that waited for a
        place.
        """
        self._open -= 1
        for turn in self._turns.get(row, ()):
            self._request(turn, now + self._arrivals[turn])
        self._send(now + self._client.delay_s)
        if self._record.ended % _REPORT_EVERY == 0:
            if self._progress:
                self._progress(self._record.ended, len(self._requests))
            self._stopped = bool(self._cancelled and self._cancelled())

    # --------------------------------------------------------------------------- the workers

    def _arrive(self, now: float, pool: int, job: Job) -> None:
        self._route(now, pool, job, self._homes[pool])

    def _route(self, now: float, pool: int, job: Job, homes: Homes) -> None:
        """Send a request to one of the ranks, or refuse it if no cache is large enough."""
        ranks, at = homes.ranks, 0
        if len(ranks) > 1:
            at = self._pools[pool].router(job, ranks, homes.deployments)
        number, rank = homes.numbers[at], ranks[at]
        worker = self._pools[pool].workers[number]
        if rank.cache.prompt_bytes(job.length) > rank.cache.capacity:
            self._record.refused(job.row)
            self._answered(now, job.row)
            return
        self._record.routed(job.row, self._place_of(number, at))
        if pool and (later_s := worker.hand_over_s):
            rank.coming += 1
            self._push(now + later_s, _AGREED, (pool, worker, rank, job))
        else:
            self._accept(now, pool, worker, rank, job)

    def _place_of(self, number: int, at: int) -> int:
        """The recorded number of a rank: its index among the ranks of its pool."""
        return at

    def _agreed(self, now: float, pool: int, worker: Worker, rank: Rank, job: Job) -> None:
        """Give a worker a sequence that another pool has prefilled."""
        rank.coming -= 1
        self._accept(now, pool, worker, rank, job)

    def _accept(self, now: float, pool: int, worker: Worker, rank: Rank, job: Job) -> None:
        worker.accept(rank, job)
        self._notice(now, pool, worker)

    def _notice(self, now: float, pool: int, worker: Worker) -> None:
        """Tell a worker that it has new work: start idle lanes, and cut flights that allow it."""
        for lane, flight in enumerate(worker.flights):
            if flight is None:
                self._wake(now, pool, worker, lane)
            elif flight.open and flight.cut(now, worker.least_steps):
                self._fly(pool, worker, flight)

    def _wake(self, now: float, pool: int, worker: Worker, lane: int) -> None:
        if not worker.woken[lane]:
            worker.woken[lane] = True
            self._push(max(now, worker.free_s), _STARTS, (pool, worker, lane))

    def _start(self, now: float, pool: int, worker: Worker, lane: int) -> None:
        if now < worker.free_s and worker.lanes > 1:
            self._wake(now, pool, worker, lane)
            return
        flight = worker.start(lane, now, more_to_come=self._arriving > 0)
        for rank in worker.ranks:
            if rank.asked:
                self._read_tiers(now, pool, worker, rank)
        if flight is None:
            return
        if flight.reads:
            for plan in flight.plans:
                for job, _ in plan.pieces if plan else ():
                    self._record.scheduled(job.row, now, job.done)
        self._fly(pool, worker, flight)

    def _read_tiers(self, now: float, pool: int, worker: Worker, rank: Rank) -> None:
        """Start reading the blocks that sequences wait for."""
        asked, rank.asked = rank.asked, []
        for job in asked:
            if rank.tiers and job.load:  # the sequence may have been preempted since
                end_s = rank.tiers.send(job.load, now)
                self._record.loads(job.row, job.load)
                self._push(end_s, _LOADED, (pool, worker, rank, job, job.load))

    def _loaded(
        self, now: float, pool: int, worker: Worker, rank: Rank, job: Job, load: Load
    ) -> None:
        """Handle the arrival of blocks that a sequence waits for."""
        if job.load is load:
            rank.loaded(job)
            self._notice(now, pool, worker)

    def _fly(self, pool: int, worker: Worker, flight: Flight) -> None:
        self._serial = flight.serial = serial = self._serial + 1
        end_s = flight.start_s + flight.steps * flight.step_s
        heapq.heappush(self._events, (end_s, _LANDS, serial, (pool, worker, flight)))

    def _land(self, now: float, serial: int, pool: int, worker: Worker, flight: Flight) -> None:
        lane = flight.lane
        if flight.serial != serial or worker.flights[lane] is not flight:
            return  # it was cut short, or its replica is lost
        worker.land(flight)
        self._record.stepped(flight, now)
        for job in flight.begun:
            if not self._shown_later(pool, job):
                self._record.began(job, now)
        for job in flight.resumed:
            self._record.resumed(job, flight)
        if flight.ended:
            ended = [(self._late_s(pool, worker, job, flight), job) for job in flight.ended]
            if len(ended) > 1:
                ended.sort(key=lambda pair: pair[0])
            for late_s, job in ended:
                self._end(now, late_s, pool, worker, job)
        events = self._events
        alone = not events or events[0][0] > now  # no other event at this time
        if alone and worker.free_s <= now and not worker.woken[lane]:
            self._start(now, pool, worker, lane)
        else:
            self._wake(now, pool, worker, lane)

    def _shown_later(self, pool: int, job: Job) -> bool:
        """Whether the next pool delivers the first token to the user."""
        hand_over = self._pools[pool].hand_over
        later = hand_over is not None and hand_over.shown_by == "decode"
        return later and self._steps[job.row] > 0

    def _is_last(self, pool: int, job: Job) -> bool:
        """Whether a request ends in a pool."""
        return self._pools[pool].hand_over is None or not self._steps[job.row]

    def _late_s(self, pool: int, worker: Worker, job: Job, flight: Flight) -> float:
        """Delay of a request's last token at its client, relative to the mean [s]."""
        if not self._is_last(pool, job):
            return 0.0
        way_s = self._client.request_s  # no request reaches the scheduler before its cause
        return min(max(worker.late_s(flight), -way_s), way_s)

    def _end(self, now: float, late_s: float, pool: int, worker: Worker, job: Job) -> None:
        hand_over = self._pools[pool].hand_over
        if hand_over is None or self._is_last(pool, job):
            self._record.ends(job.row, now)
            self._answered(now + late_s, job.row)
            return
        later = Job(job.row, job.prompt, self._outputs[job.row], self._steps[job.row], ())
        later.done = later.prompt
        sent_s = max(now, worker.link_free_s) + hand_over.busy_s(job.prompt)
        worker.link_free_s = sent_s
        arrives_s = sent_s + hand_over.latency_s
        later.stopped_s = arrives_s if self._shown_later(pool, job) else now
        self._push(arrives_s, _ARRIVES, (pool + 1, later))
        self._arriving += 1
