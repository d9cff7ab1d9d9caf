"""A job: result, limits and every way to end; the queue and its order."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.jobs import MEASURING, SIMULATING, Interrupted, Job, Queue
from app.jobs.job_files import JobFiles
from app.jobs.queue import MOST_OF_ONE
from genz_core.errors import InvalidValue
from hardware_db.data_folder import overlay
from tests.app.jobs import works
from tests.app.jobs.lane import LANE, ended
from tests.processes import alive, descendants, until


def begun(job: Job) -> Job:
    """The job after its first report of progress."""

    def told() -> bool:
        job.poll()
        return job.share > 0.0

    until(told)
    return job


def test_a_job_tells_its_progress_and_its_result(queue: Queue):
    job = ended(queue.submit(works.finish, {"name": "run-1"}, "a test", LANE))
    assert (job.result, job.error, job.share, job.what) == ({"name": "run-1"}, "", 0.5, "half way")
    assert not job.folder.exists()


def test_pages_come_before_jobs_but_not_before_measurements(queue: Queue):
    own = os.nice(0)
    simulation, measurement = (
        ended(queue.submit(works.priority, None, "a test", replace(LANE, niceness=niceness)))
        for niceness in (SIMULATING.niceness, MEASURING.niceness)
    )
    assert own == measurement.result < simulation.result


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="sessions share one queue")
def test_the_session_of_a_job_comes_after_the_servers(queue: Queue):
    """A job has a session of its own, which Linux weighs against the server's."""
    low = ended(queue.submit(works.priority_of_session, None, "a test", SIMULATING))
    level = ended(queue.submit(works.priority_of_session, None, "a test", MEASURING))
    assert (low.result, level.result) == (str(SIMULATING.niceness), "0")


def test_the_size_of_a_result_is_that_of_its_file(queue: Queue):
    small, large = (ended(queue.submit(works.finish, bytes(n), "a test", LANE)) for n in (1, 9999))
    assert 0 < small.size_bytes < 9999 < large.size_bytes


def test_an_abandoned_job_is_gone_soon_and_nobody_waits_for_it(queue: Queue):
    job = begun(queue.submit(works.wait, None, "a test", LANE))
    before = time.monotonic()
    job.abandon()
    assert time.monotonic() - before < 0.1
    until(lambda: job not in queue.under_way)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("work", "argument", "words"),
    [
        (works.fail, None, "the GPU vanished"),
        (works.die, 9, "ended with code 9 before it was complete"),
        (works.stumble, None, "ended with code 1 before it was complete"),
        (works.crash, signal.SIGKILL, "killed, perhaps because memory ran out"),
        (works.crash, signal.SIGSEGV, "crashed (SIGSEGV)"),
        (works.fill, 2 << 30, "memory ran out: a job may use 1.1 GB here"),
    ],
)
def test_a_job_that_fails_says_why(queue: Queue, work: Callable, argument: object, words: str):
    job = ended(queue.submit(work, argument, "a test", LANE))
    assert words in job.error and job.result is None


def test_a_job_beyond_its_time_is_ended_with_a_sentence(queue: Queue):
    job = ended(queue.submit(works.wait, None, "a test", replace(LANE, limit_s=0.5)))
    assert job.error == "ended: it took longer than 0.5 s"


def test_a_result_beyond_its_cap_is_not_read(queue: Queue):
    job = ended(queue.submit(works.write, 3_000_000, "a test", replace(LANE, result_bytes=10**6)))
    assert job.error == "its result has 3 MB, 1 are allowed" and job.result is None


def test_a_cancelled_job_keeps_what_was_complete(queue: Queue):
    job = queue.submit(works.wait, None, "a test", LANE)
    job.cancel()
    assert ended(job).result == "kept what was complete"


def test_a_job_that_is_ended_at_once_is_over(queue: Queue):
    job = queue.submit(works.wait, None, "a test", LANE)
    job.end()
    assert job.over and (job.result or "before it was complete" in job.error)


def test_a_job_that_is_ended_leaves_no_draft_behind(queue: Queue, own_data: Path):
    job = begun(queue.submit(works.hold_draft, None, "a test", LANE))
    assert (own_data / "runs" / job.what).is_dir()
    job.end()
    assert not (own_data / "runs" / job.what).exists()


@pytest.mark.slow
def test_no_program_that_a_job_started_outlives_it(queue: Queue, tmp_path: Path):
    job = begun(queue.submit(works.start_programs, tmp_path, "a test", LANE))
    (importer, _) = ended(queue.submit(works.tell_importer, None, "a test", LANE)).result
    # guard, worker, and the two programs
    until(lambda: len(descendants(importer)) >= 4)
    of_job = descendants(importer)
    job.end()
    until(lambda: not alive(of_job), 1.0)


def test_jobs_of_a_lane_start_in_turn_and_know_their_place(queue: Queue):
    one = replace(LANE, at_once=1)
    first, second, third = (queue.submit(works.wait, n, "a test", one) for n in range(3))
    assert [job.place for job in (first, second, third)] == [0, 1, 2]
    second.cancel()
    assert (second.over, second.error) == (True, "cancelled before it started")
    assert third.place == 1
    first.cancel()
    until(lambda: third.place == 0)
    begun(third).cancel()
    assert ended(third).result == "kept what was complete"


def test_a_job_sees_the_data_folders_of_whoever_submits_it(queue: Queue, tmp_path: Path):
    with overlay(tmp_path / "visitor"):
        job = queue.submit(works.tell_data_folder, None, "a test", LANE)
    assert ended(job).result == tmp_path / "visitor"


def test_who_asks_the_same_waits_for_one_job_and_who_leaves_ends_it_for_nobody_else(queue: Queue):
    def asked(question: str) -> Job:
        return queue.submit(works.wait, None, "a test", LANE, question=question)

    first, second, other = asked("a plan"), asked("a plan"), asked("another plan")
    assert first is second and other is not first and len(queue.under_way) == 2
    assert not first.let_go() and begun(first) and not first.over
    assert second.let_go()  # nobody is left, so the job may be cancelled, and nobody joins it
    third = asked("a plan")
    assert third is not first and third.join()
    for job in (first, third, other):
        job.end()


def test_a_job_without_a_question_is_joined_by_nobody(queue: Queue):
    one, other = (queue.submit(works.wait, None, "a test", LANE) for _ in range(2))
    assert one is not other


def test_the_result_reaches_whoever_joined_however_late_it_is_read(queue: Queue):
    job = queue.submit(works.finish, 7, "a test", LANE, question="a plan")
    until(lambda: job not in queue.under_way)
    late = queue.submit(works.finish, 7, "a test", LANE, question="a plan")
    assert late is job and ended(late).result == 7


def test_another_lane_does_not_wait(queue: Queue):
    measuring = replace(LANE, name="measuring", at_once=1)
    held = queue.submit(works.wait, None, "a measurement", measuring)
    assert ended(queue.submit(works.finish, 1, "a report", LANE)).result == 1
    held.cancel()
    ended(held)


def test_a_full_queue_refuses_with_a_sentence(queue: Queue, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("app.jobs.queue.MOST_WAITING", 1)
    one = replace(LANE, at_once=1)
    queue.submit(works.wait, None, "a test", one)
    queue.submit(works.wait, None, "a test", one)
    with pytest.raises(InvalidValue, match="1 jobs are waiting already"):
        queue.submit(works.wait, None, "a test", one)


def test_measurements_of_two_servers_on_a_folder_take_turns(tmp_path: Path):
    alone = replace(LANE, name=MEASURING.name, alone=True)
    first, second = Queue(tmp_path / "jobs"), Queue(tmp_path / "jobs")
    holding = begun(first.submit(works.wait, None, "a test", alone))
    waiting = second.submit(works.finish, 1, "a test", alone)

    def waits() -> bool:
        waiting.poll()
        return waiting.what == "waiting for a measurement of another server"

    until(waits)
    holding.cancel()
    assert ended(waiting).result == 1
    ended(holding)


def test_what_a_server_left_unfinished_is_shown_once_and_removed(tmp_path: Path):
    left = tmp_path / "jobs" / "dead" / "job"
    left.mkdir(parents=True)
    (left / "about.json").write_text(
        '{"title": "Qwen3-8B", "lane": "measuring", "asked": 1.0, "overlay": "/visitor"}',
        encoding="utf-8",
    )
    JobFiles(left).write_progress(0.43, "run 2 of 5")
    (left.parent / "damaged").mkdir()
    (left.parent / "damaged" / "about.json").write_text("{", encoding="utf-8")
    queue = Queue(tmp_path / "jobs")
    found = queue.interrupted
    assert found == [Interrupted("Qwen3-8B", "measuring", 1.0, 0.43, "run 2 of 5", "/visitor")]
    assert queue.lost(MEASURING) == []
    with overlay(Path("/visitor")):
        assert queue.lost(MEASURING) == found and queue.lost(LANE) == []
    assert not left.parent.exists()
    assert Queue(tmp_path / "jobs").interrupted == []


def test_the_jobs_of_a_living_server_are_left_alone(queue: Queue):
    job = begun(queue.submit(works.wait, None, "a test", LANE))
    assert Queue(queue.root).interrupted == [] and job.folder.is_dir()
    job.cancel()
    ended(job)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path):
    (tmp_path / "jobs").write_text("a file")
    with pytest.raises(InvalidValue, match="no job can be kept in"):
        Queue(tmp_path / "jobs")


@pytest.mark.slow
def test_a_visitor_of_a_shared_server_has_few_jobs_at_once(queue: Queue):
    for _ in range(MOST_OF_ONE):
        queue.submit(works.wait, None, "a long one", LANE, "ann")
    with pytest.raises(InvalidValue, match=r"of your jobs are running or waiting.*a long one"):
        queue.submit(works.wait, None, "one more", LANE, "ann")
    queue.submit(works.wait, None, "another's", LANE, "bob")
    queue.submit(works.wait, None, "the user's", LANE)
    queue.under_way[0].end()
    until(lambda: len([job for job in queue.under_way if job.visitor == "ann"]) < MOST_OF_ONE)
    assert queue.submit(works.wait, None, "one more", LANE, "ann").visitor == "ann"
