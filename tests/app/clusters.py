"""Dask clusters of programs of their own, as on several machines: a scheduler and workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
_SCHEDULER = ("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show",
              "--no-dashboard")  # fmt: skip
_WORKER = ("distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", "--no-dashboard",
           "--memory-limit", "0", "--death-timeout", "120")  # fmt: skip


class Machines:
    """A cluster.  address: of its scheduler.  workers: programs."""

    def __init__(self, address: str, workers: list[subprocess.Popen[str]]) -> None:
        self.address, self.workers = address, workers
        self.killed = 0

    def kill_one(self) -> None:
        """End a worker without a word, the first time that this is called."""
        if not self.killed:
            self.killed = self.workers[0].pid
            os.kill(self.killed, signal.SIGKILL)


@contextmanager
def machines(folder: Path, count: int = 2) -> Iterator[Machines]:
    """A scheduler and workers, each a program; all are ended."""
    own = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'app' / 'python'}", "OMP_NUM_THREADS": "1"}

    def started(words: tuple[str, ...]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=folder, env=own, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
        )  # fmt: skip

    programs = [started(_SCHEDULER)]
    try:
        address = _said(programs[0], r"Scheduler at:\s+(tcp://\S+)")
        programs += [started((*_WORKER, address)) for _ in range(count)]
        for program in programs[1:]:
            _said(program, r"(Registered to:)")
        yield Machines(address, programs[1:])
    finally:
        for program in reversed(programs):
            program.kill()
            program.wait()
            assert program.stderr
            program.stderr.close()


def _said(program: subprocess.Popen[str], pattern: str) -> str:
    """What a program says of a pattern on its standard error."""
    assert program.stderr
    for line in program.stderr:
        if match := re.search(pattern, line):
            return match[1]
    raise AssertionError(f"{program.args} ended before it said {pattern}")
