"""Where many pieces of work run: processes of this machine, or the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

from genz_core.errors import InvalidValue, MeasurementError
from genz_core.installing import pip_install_extra


@contextmanager
def executor(workers: int, cluster: str) -> Iterator[Executor]:
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


def _end_with_interrupt() -> None:
    """A worker ends at once when Ctrl-C is pressed, and says nothing."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
