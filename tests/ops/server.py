"""A server of the dashboard on this machine: started, measured, ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

_ROOT = Path(__file__).parents[2]
_START = "from app.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, with the processes that it started.

    url: its address.  log: what it prints.
    """

    url: str
    log: Path
    process: psutil.Process

    @property
    def memory_bytes(self) -> int:
        """Resident memory of the server alone; what it starts comes and goes."""
        return self.process.memory_info().rss

    @property
    def processor_s(self) -> float:
        """Processor time of all its processes, those that ended included."""
        own = self.process.cpu_times()
        total = own.children_user + own.children_system
        for process in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[Server]:
    """The dashboard as `ridgeline app` serves it, until the block ends.

    folder: for its log and its data.  options: further ones of the command.
    """
    port, log = _free_port(), folder / "server.log"
    command = [sys.executable, "-c", _START, "app", "--port", str(port), "--no-browser", *options]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, sys.path)]),
        "RIDGELINE_DATA": str(folder / "data"),
        "HF_HUB_OFFLINE": "1",
    }
    with log.open("w") as out:
        started = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env=environment,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_healthy(started, url, log)
        yield Server(url, log, psutil.Process(started.pid))
    finally:
        started.terminate()
        started.wait(timeout=20)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _wait_until_healthy(
    started: subprocess.Popen, url: str, log: Path, timeout_s: float = 60.0
) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and started.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=2),
        ):
            return
        time.sleep(0.1)
    raise TimeoutError(f"the dashboard did not come up at {url}:\n{log.read_text()}")
