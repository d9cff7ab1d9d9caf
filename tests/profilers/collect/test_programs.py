"""Other programs: their end, their time limit, and that none outlives the call."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from genz_core.common.progress import Cancelled
from genz_core.errors import MeasurementError
from profilers.collect import programs

SLEEP = [sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"]


def gone(log: Path) -> bool:
    """Whether the program that wrote its number into `log`, if it got that far, has ended."""
    said = log.read_text().strip()
    return not said or not Path(f"/proc/{said}").exists()


def test_what_a_program_prints_and_returns_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    argv = [sys.executable, "-c", "import os; print(os.environ['WORD']); raise SystemExit(3)"]
    code = programs.run(argv, log, "python", 60, environment={**os.environ, "WORD": "here"})
    assert (code, log.read_text()) == (3, "here\n")


def test_a_program_beyond_its_time_is_stopped_and_said(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(MeasurementError, match=r"sleep did not end within 0\.1 s"):
        programs.run(SLEEP, tmp_path / "log", "sleep", 0.1)
    assert time.monotonic() - began < 30 and gone(tmp_path / "log")


def test_a_cancelled_program_is_stopped(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        programs.run(SLEEP, tmp_path / "log", "sleep", 60, lambda: True)
    assert gone(tmp_path / "log")


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="/no/such/tool cannot be run: No such file"):
        programs.run(["/no/such/tool"], tmp_path / "log", "tool", 1)
