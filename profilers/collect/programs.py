"""Run other programs with their output in a file, a time limit and cancellation."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from genz_core.common.progress import Cancel, Cancelled, never
from genz_core.errors import MeasurementError

#: Interval at which cancellation is polled, and time that a program gets to end by itself.
_ASK_S, _GRACE_S = 0.2, 10.0


def run(
    argv: Sequence[str],
    log: Path,
    name: str,
    timeout_s: float,
    cancelled: Cancel = never,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Run a command with its output in `log`; returns its exit code.

    name: of the program, for messages.  environment: its variables, by default this program's.

    Raises:
        MeasurementError: it cannot be run, or did not end within `timeout_s`.
        Cancelled: `cancelled` returned True.
    """
    deadline = time.monotonic() + timeout_s
    with background(argv, log, environment) as child:
        while True:
            try:
                return child.wait(_ASK_S)
            except subprocess.TimeoutExpired:
                if cancelled():
                    raise Cancelled(name) from None
                if time.monotonic() > deadline:
                    raise MeasurementError(f"{name} did not end within {timeout_s:g} s") from None


@contextmanager
def background(
    argv: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in the background inside the block, its output in `log`; end it and its
    children after.

    environment: see `run`.

    Raises:
        MeasurementError: it cannot be run.
    """
    try:
        with log.open("wb") as out:
            child = subprocess.Popen(
                argv, stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=environment
            )
    except OSError as error:
        raise MeasurementError(f"{argv[0]} cannot be run: {error.strerror}") from None
    try:
        yield child
    finally:
        _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Stop a program and its children, if it still runs."""
    for ask in (signal.SIGTERM, signal.SIGKILL):
        if child.poll() is not None:
            return
        try:
            os.killpg(child.pid, ask)
            child.wait(_GRACE_S)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
