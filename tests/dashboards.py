"""A dashboard server on this machine, started like the command starts it, measured and ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_ROOT = Path(__file__).parents[1]
_START = "from app.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Served:
    """A running server.

    url: without a slash at its end.  log: its output.
    """

    url: str
    log: Path
    process: psutil.Process

    @property
    def memory_bytes(self) -> int:
        """Resident memory of the server alone, without its short-lived child processes."""
        return self.process.memory_info().rss

    @property
    def own_processor_s(self) -> float:
        """Processor time of the server's process, which draws the pages, without its jobs."""
        times = self.process.cpu_times()
        return float(times.user + times.system)

    @property
    def processor_s(self) -> float:
        """Processor time of all its processes, including those that have ended."""
        total = 0.0
        for process in (self.process, *self.process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])  # user, system, and both of ended children
        return total


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def served(
    folder: Path,
    *options: str,
    port: int = 0,
    base_path: str = "",
    under: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """The dashboard as `ridgeline app` serves it, from the tree of this file.

    It ends with the block.  folder: for its log and as its working folder.  under: a command that
    starts it.  environment: variables in addition to those of the tests.
    """
    port, log = port or free_port(), folder / "log"
    command = [*under, sys.executable, "-c", _START, "app", "--port", str(port), "--no-browser"]
    path = os.pathsep.join([str(_ROOT), *filter(None, sys.path)])
    with log.open("w") as out:
        server = subprocess.Popen(
            [*command, "--base-path", base_path, *options],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": path, **(environment or {})},
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}{base_path}"
        _wait_until_healthy(server, url, log)
        yield Served(url, log, psutil.Process(server.pid))
    finally:
        server.terminate()
        server.wait(timeout=20)


def _wait_until_healthy(
    server: subprocess.Popen, url: str, log: Path, timeout_s: float = 60.0
) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and server.poll() is None:
        with (
            contextlib.suppress(urllib.error.URLError, OSError),
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=2),
        ):
            return
        time.sleep(0.1)
    raise TimeoutError(f"the dashboard did not start at {url}:\n{log.read_text()}")
