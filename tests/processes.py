"""Other processes, observed by tests of jobs and servers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil


def until(met: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not met() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert met()


def commands_with(mark: Path) -> list[str]:
    """Command lines of the processes that contain a path."""
    lines = (" ".join(p.info["cmdline"] or ()) for p in psutil.process_iter(["cmdline"]))
    return [line for line in lines if str(mark) in line]
