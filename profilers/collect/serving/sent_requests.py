"""Requests that threads send to a server: their answers, and the first error, which ends all."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from genz_core.common.progress import Cancel, Cancelled, Progress
from genz_core.errors import MeasurementError
from profilers.collect.serving.client import Answer, OpenRequests, Server, complete
from profilers.collect.serving.prompts import Prompts

#: Seconds between two looks at the progress of a run.
POLL_S = 0.1


class SentRequests:
    """Requests of (prompt, output) tokens, each with its answer once that is complete.

    failure: the first error of any request, after which none is sent.
    """

    def __init__(self, server: Server, prompts: Prompts, asked: Sequence[tuple[int, int]]) -> None:
        self.failure: MeasurementError | None = None
        self._server, self._prompts, self._asked = server, prompts, asked
        self._answers: dict[int, Answer] = {}
        self._open = OpenRequests()
        self._lock = threading.Lock()

    @property
    def ended(self) -> bool:
        """Whether an error or `end` has ended the run."""
        return self._open.aborted

    def send(self, number: int) -> None:
        """Send a request and wait for its answer; an error ends all requests."""
        isl, osl = self._asked[number]
        prompt = self._prompts.of(isl)
        try:
            self._answers[number] = complete(self._server, prompt, osl, self._open)
        except MeasurementError as error:
            with self._lock:
                self.failure = self.failure or error
            self.end()

    def end(self) -> None:
        """Abort the requests that are still open."""
        self._open.abort()

    def look(self, progress: Progress, cancelled: Cancel) -> None:
        """Tell how many requests are answered.  Raises `Cancelled` where `cancelled` says so."""
        done, count = len(self._answers), len(self._asked)
        progress(done / count, f"{done:,} of {count:,} requests")
        if cancelled():
            raise Cancelled(f"{done:,} of {count:,} requests")

    def answers(self) -> tuple[Answer, ...]:
        """The answers in the order of the requests.

        Raises:
            MeasurementError: a request failed.
        """
        if self.failure is not None:
            raise self.failure
        return tuple(self._answers[number] for number in range(len(self._asked)))
