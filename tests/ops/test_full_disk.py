"""A full disk: requests that only read are still answered.

It is simulated by a limit of zero bytes on file sizes: every write of this user's processes fails
with an OSError, as on a full disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboards import free_port
from tests.processes import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")

_FULL = """
import os, resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
os.execv(sys.executable, [sys.executable, "-m", "ridgeline", *sys.argv[1:]])
"""
MODEL = "meta-llama/Llama-3.1-8B"


@pytest.fixture
def full_server(tmp_path: Path) -> Iterator[str]:
    """The address of `ridgeline api` on a full disk."""
    port = free_port()
    command = [sys.executable, "-c", _FULL, "api", "--port", str(port)]
    server = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: answers_at(f"{url}/health"))
        yield url
    finally:
        server.terminate()
        server.wait(timeout=20)


def answers_at(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_programs_are_answered(full_server: str):
    """What takes long needs a lock of the system, which the limit forbids too: it is a sentence."""
    status, said = asked(f"{full_server}/estimate")
    assert status == 200 and len(said["rows"]) == 2
    status, said = asked(f"{full_server}/sweep")
    assert status == 503 and "no process for long questions can start" in said["error"]["message"]


def asked(url: str) -> tuple[int, Any]:
    body = json.dumps({"model": MODEL, "system": "h100", "batch": [1, 2]}).encode()
    question = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(question, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def answered(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of the command line with a disk that is full."""
    return subprocess.run(
        [sys.executable, "-c", _FULL, *words], cwd=folder, capture_output=True, text=True,
        check=False, timeout=120, env={**os.environ, "RIDGELINE_DATA": str(folder / "data")},
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("estimate", MODEL, "--system", "h100"),
        ("serve", MODEL, "--system", "h100", "--concurrency", "1,8"),
        ("systems", "h100"),
        ("models", MODEL),
        ("runs", "list"),
    ],
    ids=lambda words: words[0],
)
def test_commands_that_read_answer_as_with_room(words: tuple[str, ...], tmp_path: Path):
    kept = {**os.environ, "RIDGELINE_DATA": str(tmp_path / "data")}
    with_room = subprocess.run(
        [sys.executable, "-m", "ridgeline", *words, "--json"], cwd=tmp_path, check=True,
        capture_output=True, text=True, env=kept,
    )  # fmt: skip
    full = answered(tmp_path, *words, "--json")
    assert full.returncode == 0, full.stderr
    assert json.loads(full.stdout) == json.loads(with_room.stdout)


@pytest.mark.slow
def test_a_command_that_writes_says_why_it_cannot(tmp_path: Path):
    done = answered(tmp_path, "sweep", MODEL, "--batch", "1,2", "--output", "swept.csv")
    assert done.returncode == 2 and "swept.csv" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
