"""A worker: ranks in lock-step, the steps that they run, and the results of a step.

A worker is one rank, or the attention ranks that share experts.  The lanes of a worker are the
micro-batches of a pipeline: the next starts when the first stage is free, and every stage takes
steps in this order, so that a decode step waits behind a prompt in all of them.  Steps without
prompts are simulated together until a sequence ends, the cache is full or a request arrives that
might be admitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from genz_core.serving.simulation.jitter import Jitter
from genz_core.serving.simulation.policies import Plan, Scheduler
from genz_core.serving.simulation.rank import Job, Rank
from genz_core.serving.simulation.step_price import RankWork, StepPrice


@dataclass(slots=True)
class Flight:
    """Steps of a lane in progress: `steps` equal ones of `step_s`, starting at `start_s`.

    open: whether a request that arrives may be admitted before the last of them.
    reads: whether there are pieces of prompts among its plans.
    serial: of the event of its landing; it changes where the flight is cut.

    Its results when it lands: ended: sequences that ended; begun: those with their first token;
    resumed: those that decoded for the first time after another pool prefilled them; decoded:
    sequences that decoded in each of its steps.
    """

    lane: int
    start_s: float
    step_s: float
    steps: int
    plans: Sequence[Plan | None]
    open: bool
    reads: bool = False
    serial: int = 0
    ended: Sequence[Job] = ()
    begun: Sequence[Job] = ()
    resumed: Sequence[Job] = ()
    decoded: int = 0

    @property
    def end_s(self) -> float:
        return self.start_s + self.steps * self.step_s

    def cut(self, now: float, least: int) -> bool:
        """End with the current step, but after at least `least` steps in all; False if that changes
        nothing.
        """
        steps = max(math.ceil((now - self.start_s) / self.step_s - 1e-9), least, 1)
        if steps >= self.steps:
            return False
        self.steps = steps
        return True


#: After a step with a prompt the scheduler looks at new requests, regardless of its interval.
_LOOK = 10**9


class Worker:
    """Ranks in lock-step, see the module docstring.

    recv_interval: decode steps between two looks of the scheduler at new requests.
    batch_wait: most decode steps for which new prompts wait.  Several ranks read theirs when every
    rank has one, or else each time that this many steps have passed; a single rank reads when new
    prompts fill a step, or when the first has waited that long.  Prompts that do not fit into that
    step wait for the next time.
    ahead: whether the next step is planned while one runs, so that a new request joins the step
    after it.
    hand_over: steps that a sequence from another pool waits for while others run.
    jitter: of its steps, None for none.
    woken: of each lane, whether its start is among the events.
    stages_free_s: when each stage may take the next step.  link_free_s: when its link to another
    pool has sent everything.  busy_s: time in steps so far, averaged over its lanes.
    """

    def __init__(
        self,
        ranks: Sequence[Rank],
        scheduler: Scheduler,
        price: StepPrice,
        recv_interval: int = 1,
        batch_wait: int = 0,
        *,
        ahead: bool = False,
        hand_over: float = 0.0,
        jitter: Jitter | None = None,
    ) -> None:
        self.ranks = ranks
        self.scheduler = scheduler
        self.price = price
        self.recv_interval = recv_interval
        self.batch_wait = batch_wait
        self.ahead = ahead
        self.hand_over = hand_over
        self.jitter = jitter
        self._waited = 0  # decode steps that count towards `batch_wait`
        self.lanes = len(ranks[0].lanes)
        self.flights: list[Flight | None] = [None] * self.lanes
        self.woken = [False] * self.lanes
        self.stages_free_s = [0.0] * self.lanes
        self.link_free_s = 0.0
        self.busy_s = 0.0
        self.preemptions = 0

    def accept(self, rank: Rank, job: Job) -> None:
        """Add a request that has arrived for one of the ranks."""
        rank.mail.append(job)

    @property
    def free_s(self) -> float:
        """When the next step may start."""
        return self.stages_free_s[0]

    @property
    def hand_over_s(self) -> float:
        """Time until a sequence arriving now from another pool can be admitted."""
        running = (flight.step_s for flight in self.flights if flight)
        return self.hand_over * max(running, default=0.0)

    @property
    def least_steps(self) -> int:
        """Steps until the scheduler looks at new requests."""
        if self.recv_interval <= 1:
            return max(self.batch_wait - self._waited, 1) if self._holds() else 1
        return self.recv_interval - max(rank.received for rank in self.ranks)

    def late_s(self, flight: Flight) -> float:
        """Seconds by which the tokens of a step reach a client later than on average."""
        return self.jitter.late_s(flight.step_s) if self.jitter else 0.0

    def _holds(self) -> bool:
        """Whether new requests are held back until more arrive, or steps pass.

        A rank without any request runs a placeholder; one whose only requests are new waits for
        nothing.  Source: TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/py_executor.py,
        _balance_adp_requests and _waiting_requests.
        """
        if self._waited >= self.batch_wait:
            return False
        if any(rank.mail and not rank.running for rank in self.ranks):
            return False
        if len(self.ranks) > 1:
            most = getattr(self.scheduler, "sequences", math.inf)
            readable = [bool(rank.mail) and rank.running < most for rank in self.ranks]
            return any(readable) and not all(readable)
        new = self.ranks[0].mail
        full = getattr(self.scheduler, "budget", 0) or math.inf
        return bool(new) and sum(job.prompt for job in new) < full

    def start(self, lane: int, now: float, *, more_to_come: bool) -> Flight | None:
        """Start the next steps of a lane; None if there is nothing to do."""
        holds = self.batch_wait > 0 and self._holds()
        plans: list[Plan | None] = []
        steps = 0
        waits = pieces = reads = seen = False
        for rank in self.ranks:
            if rank.mail and not holds:
                if self.batch_wait:
                    rank.seen = len(rank.mail)
                self._look(rank)
            plan = self.scheduler.plan(rank, rank.lanes[lane], more_to_come=more_to_come)
            plans.append(plan)
            if rank.preempted:
                self._note_preempted(rank, now)
            if rank.seen:
                seen = True
            if plan is None:
                waits = True
                continue
            if not steps or plan.steps < steps:
                steps = plan.steps
            if plan.open or rank.loading:
                waits = True
            for _, new in plan.pieces:
                pieces = True
                if new > 0:
                    reads = True
        if self.batch_wait and not holds:
            self._hold_the_rest(reads=reads)
        if not steps:
            return None
        if self.lanes > 1:
            steps = 1
        if holds:
            steps = min(steps, self.batch_wait - self._waited)
        elif seen:
            steps = 1
        if reads and self.scheduler.prompts_alone:
            for plan in plans:
                if plan is not None:
                    plan.decodes = False
        works = []
        for at, plan in enumerate(plans):
            decodes, tokens = 0, 0.0
            prompts: Sequence[tuple[int, int]] = ()
            if plan is not None:
                if plan.pieces:
                    prompts = [(new, job.done) for job, new in plan.pieces if new]
                if plan.decodes:  # the middle one of the equal steps
                    of = self.ranks[at].lanes[lane]
                    decodes, tokens = of.count, of.tokens + of.rate * (steps - 1) / 2.0
            works.append(RankWork(decodes, tokens, prompts))
        latency_s, stage_s = self.price(works)
        factor = self.jitter.factor(steps) if self.jitter else 1.0
        step_s = latency_s * factor
        if self.lanes > 1:
            step_s = self._out_s(now, step_s, stage_s * factor) - now
        flight = Flight(lane, now, step_s, steps, plans, waits, pieces)
        self.flights[lane] = flight
        return flight

    def _out_s(self, now: float, latency_s: float, stage_s: float) -> float:
        """When a step that starts now leaves the last stage: it enters each as soon as it has come
        there and the step before it has left.

        latency_s: of the step if it never waits.  stage_s: in each stage.
        """
        next_s = (latency_s - stage_s) / (self.lanes - 1)  # between entering two stages
        enters_s = now
        for stage, free_s in enumerate(self.stages_free_s):
            if stage:
                enters_s = max(enters_s + next_s, free_s)
            self.stages_free_s[stage] = enters_s + stage_s
        return enters_s + stage_s

    def land(self, flight: Flight) -> None:
        """End a flight: update its sequences and prompts."""
        self.flights[flight.lane] = None
        waiting = False
        self.busy_s += flight.steps * flight.step_s / self.lanes
        for at, plan in enumerate(flight.plans):
            rank = self.ranks[at]
            if rank.mail:
                waiting = True
            if plan is None:
                continue
            if plan.decodes:
                self._decode(rank, flight)
            if plan.pieces:
                self._read(rank, flight, plan)
        if self.batch_wait:
            self._count(flight.steps, waiting=waiting)

    def _count(self, steps: int, *, waiting: bool) -> None:
        """Count decode steps towards `batch_wait`: on several ranks all of them, because an empty
        reading starts the next wait, too.
        """
        passed = self._waited + steps
        if len(self.ranks) == 1:
            self._waited = passed if waiting else 0
        else:
            self._waited = (
                1 + (passed - 1) % self.batch_wait if waiting else passed % self.batch_wait
            )

    def _hold_the_rest(self, *, reads: bool) -> None:
        """Begin the next wait, for prompts that the step had no room for, too."""
        for rank in self.ranks:
            rank.mail.extendleft(reversed(rank.waiting))
            rank.waiting.clear()
        if reads:
            self._waited = 0

    def _note_preempted(self, rank: Rank, now: float) -> None:
        for job in rank.preempted:
            job.stopped_s = now
        self.preemptions += len(rank.preempted)
        rank.preempted.clear()

    def _look(self, rank: Rank) -> None:
        """The scheduler looks at the requests that came, where it does so at this step."""
        if rank.received < self.recv_interval and rank.running:
            return
        mail = rank.mail
        if not (self.ahead and self._runs()):
            rank.waiting.extend(mail)
            mail.clear()
        else:
            for _ in range(rank.seen):
                rank.waiting.append(mail.popleft())
        rank.seen = len(mail)
        if not mail:
            rank.received = 0

    def _runs(self) -> bool:
        """Whether a sequence runs on any rank."""
        for rank in self.ranks:
            for lane in rank.lanes:
                if lane.count or lane.prefilling:
                    return True
        return False

    @staticmethod
    def _decode(rank: Rank, flight: Flight) -> None:
        lane, steps = rank.lanes[flight.lane], flight.steps
        flight.decoded += lane.count
        if lane.resumed:
            resumed = [job for job in lane.resumed if job.entered >= 0]
            flight.resumed = [*flight.resumed, *resumed]
            lane.resumed = []
        rank.advance(lane, steps)
        rank.received += steps
        if ended := lane.ended():
            for job in ended:
                rank.finish(job)
            flight.ended = [*flight.ended, *ended]

    @staticmethod
    def _read(rank: Rank, flight: Flight, plan: Plan) -> None:
        lane = rank.lanes[flight.lane]
        rank.received = _LOOK
        begun, ended = [], []
        for job, new in plan.pieces:
            job.done += new
            if job.left:
                continue
            lane.prefilling.remove(job)
            rank.read(job)
            begun.append(job)
            if job.steps:
                lane.enter(job)
            else:
                rank.finish(job)
                ended.append(job)
        flight.begun = [*flight.begun, *begun]
        flight.ended = [*flight.ended, *ended]
