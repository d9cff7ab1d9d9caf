"""A function in a child process: its result, its error, its end, however it comes."""

import os
import time
from collections.abc import Callable
from pathlib import Path

from app.measuring import background_job
from genz_core.errors import MeasurementError

Progress = Callable[[float, str], None]
Cancel = Callable[[], bool]


def finish(argument: dict, progress: Progress, cancelled: Cancel) -> str:
    progress(0.5, "half way")
    return argument["name"]


def fail(argument: dict, progress: Progress, cancelled: Cancel) -> str:
    raise MeasurementError("the GPU vanished")


def die(argument: dict, progress: Progress, cancelled: Cancel) -> str:
    os._exit(9)


def wait(argument: dict, progress: Progress, cancelled: Cancel) -> str:
    while not cancelled():
        time.sleep(0.02)
    return "kept what was complete"


def hold(argument: dict, progress: Progress, cancelled: Cancel) -> None:
    from app.measuring import run_store

    with run_store.scratch() as folder:
        progress(0.5, folder.name)
        time.sleep(600)


def ended(job: background_job.Job) -> background_job.Job:
    deadline = time.monotonic() + 60
    while not job.over and time.monotonic() < deadline:
        job.poll()
        time.sleep(0.02)
    job.end()
    return job


def test_a_job_tells_its_result():
    job = ended(background_job.start(finish, {"name": "run-1"}))
    assert (job.result, job.error, job.share, job.what) == ("run-1", "", 0.5, "half way")


def test_a_job_that_fails_tells_its_sentence():
    assert ended(background_job.start(fail, {})).error == "the GPU vanished"


def test_a_job_that_is_killed_is_a_failure_and_not_a_wait():
    assert "code 9" in ended(background_job.start(die, {})).error


def test_a_cancelled_job_keeps_what_was_complete():
    job = background_job.start(wait, {})
    job.cancel()
    assert ended(job).result == "kept what was complete"


def test_a_job_that_is_ended_at_once_is_over():
    job = background_job.start(wait, {})
    job.end()
    assert "before it was complete" in ended(job).error


def test_a_job_that_is_ended_leaves_no_draft_behind(own_data: Path):
    job = background_job.start(hold, {})
    deadline = time.monotonic() + 60
    while job.share == 0.0 and time.monotonic() < deadline:
        job.poll()
        time.sleep(0.02)
    assert (own_data / "runs" / job.what).is_dir()
    job.end()
    assert not (own_data / "runs" / job.what).exists()
