"""Jobs are forks of one process: what they need not import, what they read afresh, how it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.jobs import Queue, starter
from tests.app.jobs import works
from tests.app.jobs.lane import LANE, ended
from tests.processes import alive, descendants, until

ROOT = Path(__file__).parents[3]
forks = pytest.mark.skipif(sys.platform != "linux", reason="jobs are forked on Linux")


def importer(queue: Queue) -> tuple[int, bool]:
    """Which process imported the module of a job's function, and whether it is the worker."""
    job = ended(queue.submit(works.tell_importer, None, "a test", LANE))
    assert not job.error
    found: tuple[int, bool] = job.result
    return found


@forks
def test_modules_are_imported_once_for_all_jobs(queue: Queue):
    first, second = importer(queue), importer(queue)
    assert first == second and not first[1] and first[0] != os.getpid()


def test_where_nothing_is_forked_every_job_has_a_python_of_its_own(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(starter, "_FORKS", False)
    assert importer(queue)[1]


@forks
def test_jobs_go_on_without_the_process_that_forked_them_and_the_next_starts_another(queue: Queue):
    before, _ = importer(queue)
    running = queue.submit(works.wait, None, "a test", LANE)
    until(lambda: running.poll() or running.share > 0.0)
    os.kill(before, signal.SIGKILL)
    after, _ = importer(queue)
    assert after != before
    running.cancel()
    assert ended(running).result == "kept what was complete"


@forks
@pytest.mark.parametrize(
    ("program", "why"), [("/bin/false", "ended or hangs"), ("/nowhere/python", "No such file")]
)
def test_a_job_that_cannot_start_says_why(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, program: str, why: str
):
    monkeypatch.setattr(starter, "_STARTER", starter._Starter())
    monkeypatch.setattr(sys, "executable", program)
    job = ended(queue.submit(works.finish, None, "a test", LANE))
    assert job.error.startswith("no process can be started: ") and why in job.error


def test_a_job_reads_the_files_and_the_environment_of_its_time(
    queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def systems() -> list[str]:
        result: list[str] = ended(queue.submit(works.tell_systems, None, "a test", LANE)).result
        return result

    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "one"))
    own = tmp_path / "one" / "systems" / "mine.yaml"
    assert "mine" not in systems()
    own.parent.mkdir(parents=True)
    own.write_text("include: h100-sxm5-80gb\nid: mine\nname: Mine\n", encoding="utf-8")
    assert "mine" in systems()
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "other"))
    assert "mine" not in systems()


SERVER = """
import sys, time
from pathlib import Path
from app.jobs import MEASURING, Queue
from tests.app.jobs import works
from tests.app.jobs.lane import LANE, ended
job = Queue(Path(sys.argv[1])).submit(works.wait, None, "a test", MEASURING)
while not job.share:
    job.poll()
    time.sleep(0.02)
print("runs", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_no_process_outlives_its_server(tmp_path: Path, killed: bool):
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path / "jobs")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    ) as server:  # fmt: skip
        assert server.stdout is not None and server.stdout.readline() == b"runs\n"
        started = descendants(server.pid)
        assert len(started) == 2 + starter._FORKS  # guard and worker
        if killed:
            server.kill()
    until(lambda: not alive(started))
