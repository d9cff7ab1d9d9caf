"""Open loops: requests arrive at a rate, whether or not the earlier ones are answered."""

from __future__ import annotations

import time
from threading import Thread

import numpy as np

from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import MeasurementError
from profilers.collect.serving.client import Server
from profilers.collect.serving.closed_loop import ClosedLoop, ServedLoad
from profilers.collect.serving.endpoint_load import EndpointLoad
from profilers.collect.serving.prompts import Prompts
from profilers.collect.serving.sent_requests import POLL_S, SentRequests

#: Largest number of open requests; beyond it the client would be measured, not the server.
_MOST_OPEN = 1024


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
    asked = ((load.isl, load.osl),) * load.count
    sent, threads = SentRequests(server, prompts, asked), list[Thread]()
    started = time.perf_counter()
    try:
        for number, due in enumerate(np.cumsum(gaps) - gaps[0]):
            while (left := started + float(due) - time.perf_counter()) > 0 and not sent.ended:
                sent.look(progress, cancelled)
                time.sleep(min(left, POLL_S))
            if sent.ended:
                break
            threads = [thread for thread in threads if thread.is_alive()]
            _refuse_too_many(len(threads), load.rate)
            threads.append(Thread(target=sent.send, args=(number,), daemon=True))
            threads[-1].start()
        while any(thread.is_alive() for thread in threads) and not sent.ended:
            sent.look(progress, cancelled)
            time.sleep(POLL_S)
    finally:
        sent.end()
        for thread in threads:
            thread.join()
    described = ClosedLoop(1, load.count, load.isl, load.osl, seed=load.seed)
    return ServedLoad(described, asked, sent.answers(), started, prompts.counted)


def _refuse_too_many(under_way: int, rate: float) -> None:
    if under_way >= _MOST_OPEN:
        raise MeasurementError(
            f"{_MOST_OPEN:,} requests are open: the server does not keep up with {rate:g} "
            "requests/s; give a lower --rate"
        )
