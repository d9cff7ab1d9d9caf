"""Servers started on this machine: a free port, whether they answer, the end of their log."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from genz_core.common.progress import Cancel, Cancelled, never

_POLL_S, _ANSWER_S = 0.2, 5.0


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def why_not_ready(
    child: subprocess.Popen[bytes],
    pages: Sequence[str],
    timeout_s: float,
    cancelled: Cancel = never,
) -> str:
    """Wait until a server answers one of its pages with 200; "" once it does, otherwise the reason.

    pages: addresses.

    Raises:
        Cancelled: `cancelled` returned True before it answered.
    """
    deadline = time.monotonic() + timeout_s
    while not any(map(_answers, pages)):
        if (code := child.poll()) is not None:
            return f"the server ended with code {code} before it was ready"
        if time.monotonic() > deadline:
            return f"the server was not ready within {timeout_s:g} s"
        if cancelled():
            raise Cancelled("starting the server")
        time.sleep(_POLL_S)
    return ""


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=_ANSWER_S) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def last_lines(log: Path, count: int, longest: int) -> tuple[str, ...]:
    """The last non-empty lines of a log, each cut to `longest` characters."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    lines = [line.rstrip()[:longest] for line in text.splitlines() if line.strip()]
    return tuple(lines[-count:])
