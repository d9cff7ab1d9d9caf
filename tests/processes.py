"""Other processes, observed by tests of jobs and servers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import psutil


def until(met: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not met() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert met()


def descendants(pid: int) -> list[psutil.Process]:
    """The processes that a process has started, and that these have."""
    return psutil.Process(pid).children(recursive=True)


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; one that has ended but that nobody waited for does not."""
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
