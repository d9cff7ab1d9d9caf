"""Closed loops: a fixed number of users, each sending the next request when the last is
answered.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from threading import Lock, Thread

import numpy as np

from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from genz_core.serving.simulation.draws import uniform_lengths
from profilers.collect.serving.client import Answer, Server
from profilers.collect.serving.prompts import Prompts
from profilers.collect.serving.sent_requests import POLL_S, SentRequests

#: Default number of requests per user, the same as in a simulation's closed loop.
PER_USER = 10


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """A closed-loop load.

    concurrency: users.  requests: of all users together, 0 for ten a user.
    isl, osl: longest prompt and output in tokens; lengths are drawn uniformly from
    [length_ratio, 1] times these, with `seed`.
    """

    concurrency: int
    requests: int = 0
    isl: int = 128
    osl: int = 64
    length_ratio: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        bounds = {
            "concurrency": (1, 1024),
            "requests": (0, 1_000_000),
            "isl": (1, 1_000_000),
            "osl": (1, 1_000_000),
            "seed": (0, 2**63 - 1),
        }
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise InvalidValue(f"{name} = {value:,}: give a whole number, {least} to {most:,}")
        if not 0 < self.length_ratio <= 1:
            raise InvalidValue(f"length_ratio = {self.length_ratio:g} is not between 0 and 1")
        if self.requests and self.requests < self.concurrency:
            raise InvalidValue(
                f"{self.requests} requests are too few for {self.concurrency} users: "
                f"give {self.concurrency} at least"
            )

    @property
    def count(self) -> int:
        """Requests of the run."""
        return self.requests or self.concurrency * PER_USER

    def lengths(self) -> list[tuple[int, int]]:
        """(prompt, output) tokens of every request, as a simulation of that seed draws them."""
        generator = np.random.default_rng(np.random.SeedSequence(self.seed).spawn(2)[0])
        pair = [
            uniform_lengths(self.count, nominal, self.length_ratio, generator).astype(int).tolist()
            for nominal in (self.isl, self.osl)
        ]
        return list(zip(*pair, strict=True))


@dataclass(frozen=True, slots=True)
class ServedLoad:
    """A load and its answers, in the order in which the requests were sent.

    asked: (prompt, output) tokens of each.  started_s: when all users sent their first request.
    counted: see `Prompts`.
    """

    load: ClosedLoop
    asked: tuple[tuple[int, int], ...]
    answers: tuple[Answer, ...]
    started_s: float
    counted: bool = True

    @property
    def seconds(self) -> float:
        """From the first request to the last piece of the last answer."""
        return max(answer.chunks_s[-1] for answer in self.answers) - self.started_s

    def then(self, later: ServedLoad) -> ServedLoad:
        """Both loads joined, as if the later one had begun when this one ended."""
        moved_s = self.started_s + self.seconds - later.started_s
        answers = tuple(
            replace(
                answer,
                sent_s=answer.sent_s + moved_s,
                chunks_s=tuple(at + moved_s for at in answer.chunks_s),
            )
            for answer in later.answers
        )
        return replace(self, asked=self.asked + later.asked, answers=self.answers + answers)


def serve(
    server: Server,
    prompts: Prompts,
    load: ClosedLoop,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> ServedLoad:
    """Send a load and record the times of its answers.

    Raises:
        MeasurementError: a request failed, see `client.complete`; the others are ended.
        Cancelled: `cancelled` returned True.
    """
    asked = tuple(load.lengths())
    sent, numbers, lock = SentRequests(server, prompts, asked), iter(range(len(asked))), Lock()

    def user() -> None:
        """Send one request after another until none is left or one fails."""
        while not sent.ended:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            sent.send(number)

    started = time.perf_counter()
    threads = [Thread(target=user, daemon=True) for _ in range(load.concurrency)]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            threads[0].join(POLL_S) if threads[0].is_alive() else time.sleep(POLL_S)
            sent.look(progress, cancelled)
    finally:
        sent.end()
        for thread in threads:
            thread.join()
    return ServedLoad(load, asked, sent.answers(), started, prompts.counted)
