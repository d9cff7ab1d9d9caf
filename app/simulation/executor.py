"""Where many pieces of work run: processes of this machine, or the workers of a Dask cluster.

A cluster gives the work of a worker that died to another one; where a process of this machine dies,
or every worker that takes a piece of work, the run ends with what was complete.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    wait,
)
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from genz_core.errors import InvalidValue, MeasurementError
from genz_core.installing import pip_install_extra
from genz_core.progress import Cancel

Result = TypeVar("Result")
_ASK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Where:
    """Where pieces of work run.

    workers: processes, 1 for this one, 0 for one a core.  cluster: address of a Dask scheduler
    that takes their place.
    """

    workers: int = 1
    cluster: str = ""

    def here(self, pieces: int) -> bool:
        """Whether this process does so many pieces of work alone."""
        return self.processes(pieces) == 1 and not self.cluster

    def processes(self, pieces: int) -> int:
        """Processes for so many pieces of work."""
        return min(self.workers or os.cpu_count() or 1, max(pieces, 1))


#: This process alone.
HERE = Where()


def outcomes(
    work: Callable[..., Result],
    pieces: Mapping[int, tuple[Any, ...]],
    where: Where,
    cancelled: Cancel,
) -> Generator[tuple[int, Result], None, None]:
    """Numbers of pieces of work with their results, as they are done; none after a cancellation.

    work: a function of a module.  pieces: its arguments by the number of the piece.

    Raises:
        InvalidValue: Dask is not installed.
        MeasurementError: a process died, every worker that took a piece, or the scheduler; or no
            scheduler answers.
    """
    with _executor(where.processes(len(pieces)), where.cluster) as pool:
        futures = {pool.submit(work, *arguments): at for at, arguments in pieces.items()}
        try:
            yield from _completed(futures, cancelled)
        finally:
            for future in futures:
                future.cancel()
            pool.shutdown()


@contextmanager
def _executor(workers: int, cluster: str) -> Iterator[Executor]:
    """Processes of this machine, or the workers of a cluster.

    Raises:
        InvalidValue: Dask is not installed.
        MeasurementError: no scheduler answers at the address.
    """
    if not cluster:
        alone = sys.platform == "linux" and threading.active_count() == 1
        # a copy of this process has all that it loaded; one of several threads may hold locks
        context = multiprocessing.get_context("fork" if alone else "spawn")
        yield ProcessPoolExecutor(workers, context, _end_with_interrupt)
        return
    try:
        from distributed import Client
    except ImportError:
        raise InvalidValue(
            f"a cluster needs Dask, which is not installed; run: {pip_install_extra('cluster')}"
        ) from None
    try:
        client: Any = Client(cluster, timeout=10)
    except (OSError, ValueError) as error:
        raise MeasurementError(f"no Dask scheduler answers at {cluster}: {error}") from None
    with client:
        yield client.get_executor(pure=False)


def _completed(
    futures: Mapping[Future[Result], int], cancelled: Cancel
) -> Iterator[tuple[int, Result]]:
    """As `outcomes`."""
    waiting, died = set(futures), _deaths()
    while waiting and not cancelled():
        done, waiting = wait(waiting, _ASK_EVERY_S, FIRST_COMPLETED)
        for future in done:
            try:
                result = future.result()
            except died:
                if cancelled():
                    return
                raise MeasurementError(
                    "a worker died, perhaps for want of memory: run again with fewer workers; "
                    "what was complete is kept"
                ) from None
            yield futures[future], result


def _deaths() -> tuple[type[BaseException], ...]:
    """Errors of work whose worker is gone."""
    if "distributed" not in sys.modules:
        return (BrokenExecutor,)
    from distributed.scheduler import KilledWorker

    return BrokenExecutor, CancelledError, KilledWorker


def _end_with_interrupt() -> None:
    """A worker ends at once when Ctrl-C is pressed, and says nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
