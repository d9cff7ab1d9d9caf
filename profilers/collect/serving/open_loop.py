"""Open loops: requests arrive at a rate, whether or not the earlier ones are answered."""

from __future__ import annotations

import threading
import time

import numpy as np

from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import MeasurementError
from profilers.collect.serving.client import Answer, OpenRequests, Server, complete
from profilers.collect.serving.closed_loop import ClosedLoop, ServedLoad
from profilers.collect.serving.endpoint_load import EndpointLoad
from profilers.collect.serving.prompts import Prompts

#: Largest number of open requests; beyond it the client would be measured, not the server.
_MOST_OPEN = 1024
_POLL_S = 0.1


def serve(
    server: Server,
    prompts: Prompts,
    load: EndpointLoad,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> ServedLoad:
    """Send requests at the rate of a load and record the times of their answers.

    Raises:
        MeasurementError: a request failed, see `client.complete`, or more than 1,024 were open.
        Cancelled: `cancelled` returned True.
    """
    gaps = np.random.default_rng(load.seed).exponential(1.0 / load.rate, load.count)
    arrivals = _Arrivals(server, prompts, load)
    started = time.perf_counter()
    try:
        for number, due in enumerate(np.cumsum(gaps) - gaps[0]):
            arrivals.wait(started + float(due), progress, cancelled)
            arrivals.send(number)
        arrivals.finish(progress, cancelled)
    finally:
        arrivals.end()
    if arrivals.failure is not None:
        raise arrivals.failure
    answers = tuple(arrivals.answers[number] for number in range(load.count))
    as_asked = ((load.isl, load.osl),) * load.count
    described = ClosedLoop(1, load.count, load.isl, load.osl, seed=load.seed)
    return ServedLoad(described, as_asked, answers, started, prompts.counted)


class _Arrivals:
    """Requests under way, each in a thread.  failure: the first error, which ends all requests."""

    def __init__(self, server: Server, prompts: Prompts, load: EndpointLoad) -> None:
        self.answers: dict[int, Answer] = {}
        self.failure: MeasurementError | None = None
        self._server, self._prompts, self._load = server, prompts, load
        self._requests = OpenRequests()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()

    def send(self, number: int) -> None:
        """Send a request.

        Raises:
            MeasurementError: too many are open.
        """
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= _MOST_OPEN:
            raise MeasurementError(
                f"{_MOST_OPEN:,} requests are open: the server does not keep up with "
                f"{self._load.rate:g} requests/s; give a lower --rate"
            )
        thread = threading.Thread(target=self._one, args=(number,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def wait(self, until: float, progress: Progress, cancelled: Cancel) -> None:
        """Sleep until a time, or until something ends the run."""
        while (left := until - time.perf_counter()) > 0 and self.failure is None:
            self._look(progress, cancelled)
            time.sleep(min(left, _POLL_S))
        if self.failure is not None:
            raise self.failure

    def finish(self, progress: Progress, cancelled: Cancel) -> None:
        """Wait for the answers that are still open."""
        while any(thread.is_alive() for thread in self._threads) and self.failure is None:
            self._look(progress, cancelled)
            time.sleep(_POLL_S)

    def end(self) -> None:
        """Abort the requests that are still open."""
        self._requests.abort()
        for thread in self._threads:
            thread.join()

    def _look(self, progress: Progress, cancelled: Cancel) -> None:
        done = len(self.answers)
        progress(done / self._load.count, f"{done:,} of {self._load.count:,} requests")
        if cancelled():
            raise Cancelled(f"{done:,} of {self._load.count:,} requests")

    def _one(self, number: int) -> None:
        prompt = self._prompts.of(self._load.isl)
        try:
            self.answers[number] = complete(self._server, prompt, self._load.osl, self._requests)
        except MeasurementError as error:
            with self._lock:
                self.failure = self.failure or error
