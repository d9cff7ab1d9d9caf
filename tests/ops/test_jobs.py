"""Heavy work beside a server: it ends when the server is killed, and delays no visitor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.dashboard import uploads
from app.jobs import MEASURING, Queue, server_queue
from app.jobs.job_files import JobFiles
from app.measuring import report_reading
from tests.app.pages import QWEN, ROOT, brought, cards, opened, settled
from tests.processes import alive, descendants, until


@pytest.fixture
def killed_server(tmp_path: Path) -> Path:
    """The data folder of a server that was killed while one job ran and one waited; none of its
    processes remains.
    """
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.ops.server_with_job", str(tmp_path)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip
    assert server.stdout is not None and server.stdout.readline() == "1\n"
    # starter, guard, worker, and the two programs
    until(lambda: len(descendants(server.pid)) >= 5)
    started = descendants(server.pid)
    os.kill(server.pid, signal.SIGKILL)
    server.wait()
    until(lambda: not alive(started))
    return tmp_path


@pytest.mark.slow
def test_a_killed_server_leaves_no_process_and_the_next_one_says_what_was_lost(
    killed_server: Path,
):
    queue = Queue(killed_server / "jobs")
    lost = [(job.title, job.lane, job.share, job.what) for job in queue.interrupted]
    assert lost == [
        ("Qwen3-8B", "measuring", 0.5, "started"),
        ("Qwen3-32B", "measuring", 0.0, "waiting"),
    ]
    (own,) = [path for path in queue.root.iterdir() if path.is_dir()]
    assert [path.name for path in own.iterdir()] == ["lock"]


def test_the_run_page_says_what_the_last_server_did_not_finish(own_data: Path):
    left = own_data / "jobs" / "dead" / "job"
    left.mkdir(parents=True)
    about = {"title": "Qwen3-8B", "lane": MEASURING.name, "asked": 0.0, "overlay": ""}
    (left / "about.json").write_text(json.dumps(about), encoding="utf-8")
    JobFiles(left).write_progress(0.43, "run 2 of 5")
    app = opened("run")
    assert not app.exception
    (warning,) = app.warning
    assert "Qwen3-8B, requested at 1970-01-01" in warning.value and "run 2 of 5" in warning.value
    app.button("dismiss_interrupted").click().run()
    assert not app.warning and server_queue().interrupted == []


@pytest.mark.slow
def test_a_large_report_is_read_by_a_job_and_its_page_draws_it(
    own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report_reading, "QUICK_BYTES", 1000)
    report = tmp_path / "large.json.gz"  # a name under which no other test has read it
    report.write_bytes(QWEN.read_bytes())
    app = brought(opened("reports"), "upload_files", report)
    assert not app.exception and not app.metric
    assert any("Reading large.json.gz" in bar.proto.text for bar in app.get("progress"))
    settled(app)
    assert cards(app)["Kernel launches"] == "1,465"
    assert uploads.KEPT.size > 0


def test_a_report_that_a_job_cannot_read_is_one_sentence(
    own_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(report_reading, "QUICK_BYTES", 1000)
    (tmp_path / "half.json").write_text('{"traceEvents": [' + " " * 2000, encoding="utf-8")
    app = settled(brought(opened("reports"), "upload_files", tmp_path / "half.json"))
    assert not app.exception
    assert app.error[0].value.startswith("half.json: ")


@pytest.mark.by_day(1)
@pytest.mark.parametrize("pattern", ["(.*)" * 20 + "!", "(a+)+$", "(?=x)", "(?:x{0,30}){0,30}!"])
def test_no_pattern_of_a_visitor_holds_the_server(pattern: str):
    app = opened("upload")
    app.pills("upload_samples").set_value([next(iter(uploads.REPORT_SAMPLES))]).run()
    started = time.process_time()  # a short report is read in this process
    app.text_input("pattern_prefill").set_value(pattern).run()
    assert time.process_time() - started < 5.0  # the page and its charts; the pattern milliseconds
    assert not app.exception
    assert cards(app)["Kernel launches"] == "1,465"


def test_a_measurement_waits_its_turn_and_says_its_place(own_data: Path):
    from tests.app.jobs import works

    queue = server_queue()
    first = queue.submit(works.wait, None, "another visitor's", MEASURING)
    app = opened("run")
    app.text_input("run_more").set_value("threads=1")
    next(button for button in app.button if button.label == "Measure").click().run()
    assert not app.exception
    (bar,) = app.get("progress")
    assert bar.proto.text == "Qwen/Qwen2.5-0.5B: number 1 in this server's queue (measuring)"
    next(button for button in app.button if button.label == "Cancel").click().run()
    first.cancel()
    settled(app)
    assert app.error[0].value == "cancelled before it started"
