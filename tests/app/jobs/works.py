"""Pieces of work for the tests of jobs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from genz_core.errors import MeasurementError

Progress = Callable[[float, str], None]
Cancel = Callable[[], bool]
#: The process that imported this module, from which its jobs are forked.
IMPORTED_BY = os.getpid()


def finish(argument: Any, progress: Progress, cancelled: Cancel) -> Any:
    progress(0.5, "half way")
    return argument


def priority(argument: Any, progress: Progress, cancelled: Cancel) -> int:
    return os.nice(0)


def priority_of_session(argument: Any, progress: Progress, cancelled: Cancel) -> str:
    return Path("/proc/self/autogroup").read_text(encoding="ascii").split()[-1]


def fail(argument: Any, progress: Progress, cancelled: Cancel) -> None:
    raise MeasurementError("the GPU vanished")


def die(argument: int, progress: Progress, cancelled: Cancel) -> None:
    os._exit(argument)


def crash(argument: int, progress: Progress, cancelled: Cancel) -> None:
    os.kill(os.getpid(), argument)
    time.sleep(60)


def stumble(argument: Any, progress: Progress, cancelled: Cancel) -> None:
    raise ZeroDivisionError


def wait(argument: Any, progress: Progress, cancelled: Cancel) -> str:
    progress(0.25, "waiting")
    while not cancelled():
        time.sleep(0.02)
    return "kept what was complete"


def fill(argument: int, progress: Progress, cancelled: Cancel) -> int:
    return len(bytearray(argument))


def write(argument: int, progress: Progress, cancelled: Cancel) -> bytes:
    return bytes(argument)


def hold_draft(argument: Any, progress: Progress, cancelled: Cancel) -> None:
    from app.measuring import run_store

    with run_store.scratch() as folder:
        progress(0.5, folder.name)
        time.sleep(600)


def start_programs(argument: Path, progress: Progress, cancelled: Cancel) -> None:
    """Start a program in a new session, which starts another one and ignores SIGTERM."""
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    inner = [sys.executable, "-c", f"import time  # {argument}\ntime.sleep(600)"]
    outer = f"import subprocess  # {argument}\nsubprocess.run({inner!r}, start_new_session=True)"
    subprocess.Popen([sys.executable, "-c", outer], start_new_session=True)
    progress(0.5, "started")
    time.sleep(600)


def tell_data_folder(argument: Any, progress: Progress, cancelled: Cancel) -> Path:
    from hardware_db.data_folder import data_folder

    return data_folder()


def tell_importer(argument: Any, progress: Progress, cancelled: Cancel) -> tuple[int, bool]:
    """The process that imported this module, and whether it is the worker's own."""
    return IMPORTED_BY, os.getpid() == IMPORTED_BY


def tell_systems(argument: Any, progress: Progress, cancelled: Cancel) -> list[str]:
    import hardware_db

    return hardware_db.names()
