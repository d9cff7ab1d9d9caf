"""Run many pieces of work in processes of this machine or on the workers of a Dask cluster.

A cluster moves the work of a dead worker to another one.  If a local process dies, or every worker
that takes a piece of work, the run ends with the completed pieces.
"""

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

from genz_core.common.installation import pip_install_extra
from genz_core.common.progress import Cancel
from genz_core.errors import InvalidValue, MeasurementError

Result = TypeVar("Result")
_ASK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Where:
    """Where pieces of work run.

    workers: number of processes, 1 for this process only, 0 for one per core.  cluster: address of
    a Dask scheduler, used instead.
    """

    workers: int = 1
    cluster: str = ""

    def here(self, pieces: int) -> bool:
        """Whether this process computes this number of pieces alone."""
        return self.processes(pieces) == 1 and not self.cluster

    def processes(self, pieces: int) -> int:
        """Number of processes for this number of pieces."""
        return min(self.workers or os.cpu_count() or 1, max(pieces, 1))


#: Only this process.
HERE = Where()


def outcomes(
    work: Callable[..., Result],
    pieces: Mapping[int, tuple[Any, ...]],
    where: Where,
    cancelled: Cancel,
) -> Generator[tuple[int, Result], None, None]:
    """Results of pieces of work with their numbers, as they complete; none after a cancellation.

    work: a module-level function, unless this process computes alone.  pieces: its arguments by
    the number of the piece.

    Raises:
        InvalidValue: Dask is not installed.
        MeasurementError: a process, the scheduler or every worker that took a piece died; or no
            scheduler answers.
    """
    if where.here(len(pieces)):
        for at, arguments in pieces.items():
            if cancelled():
                return
            yield at, work(*arguments)
        return
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
    """Processes of this machine, or the workers of a cluster."""
    if not cluster:
        alone = sys.platform == "linux" and threading.active_count() == 1
        # a forked process has everything loaded, but forking with several threads may copy held
        # locks
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
                    "a worker died, perhaps because memory ran out: run again with fewer workers; "
                    "completed work is kept"
                ) from None
            yield futures[future], result


def _deaths() -> tuple[type[BaseException], ...]:
    """Exception types raised when the worker of a piece of work has died."""
    if "distributed" not in sys.modules:
        return (BrokenExecutor,)
    from distributed.scheduler import KilledWorker

    return BrokenExecutor, CancelledError, KilledWorker


def _end_with_interrupt() -> None:
    """Make a worker end at once and silently when Ctrl-C is pressed."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
