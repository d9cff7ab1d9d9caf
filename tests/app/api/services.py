"""`ridgeline api` and `ridgeline mcp --http` in processes of their own, as people start them."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.dashboards import free_port

ROOT = Path(__file__).parents[3]


@contextlib.contextmanager
def service(folder: Path, *words: str, token: str = "") -> Iterator[str]:
    """The address of a command that listens; it ends with the block.  Arguments as `started`."""
    with started(folder, *words, token=token) as (url, _):
        yield url


@contextlib.contextmanager
def started(
    folder: Path, *words: str, token: str = ""
) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address and the process of a command that listens; it ends with the block.

    folder: for its log and as its working folder.  words: the command with its options.
    """
    port, log = free_port(), folder / "log"
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'app' / 'python'}"}
    environment.pop("RIDGELINE_API_TOKEN", None)
    if token:
        environment["RIDGELINE_API_TOKEN"] = token
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *words, "--port", str(port)],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env=environment,
        )  # fmt: skip
    try:
        _wait_until_it_listens(process, port, log)
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_it_listens(
    started: subprocess.Popen, port: int, log: Path, timeout_s: float = 60.0
) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and started.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return
        time.sleep(0.1)
    raise TimeoutError(f"no server listens on {port}:\n{log.read_text()}")
