"""No outside connections: those of a running server, as seen by Python and by the kernel."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app.dashboard import export
from tests.dashboards import free_port, served
from tests.ops.visitor import visit

#: Written beside the server's modules, so that Python loads it first.
AUDIT = """
import os, sys

def write(line):
    with open(os.environ["AUDIT_LOG"], "a") as log:
        log.write(line + "\\n")

def note(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        if isinstance(arguments[1], tuple):  # a socket of a file system has a path
            write(f"{event} {arguments[1][0]}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        write(f"{event} {arguments[0]}")
    elif event == "urllib.Request":
        write(f"{event} {arguments[0].split('/')[2].partition(':')[0]}")

write(f"loaded by {os.getpid()}")
sys.addaudithook(note)
"""
TRACED = "trace=connect,sendto,sendmsg,sendmmsg"
KERNEL = re.compile(r'inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"')
PYTHON = re.compile(r"^[\w.]+ (\S+)$")


@dataclass(frozen=True, slots=True)
class Watch:
    """A way to observe connections: the command and environment of a server, and its log."""

    under: Sequence[str]
    environment: Mapping[str, str]
    notes: Path
    pattern: re.Pattern[str]

    def lines(self) -> list[str]:
        return self.notes.read_text(errors="replace").splitlines() if self.notes.exists() else []

    def outside(self) -> list[str]:
        """The lines of the log with an address outside this machine."""
        return [line for line in self.lines() if any(map(is_outside, self.pattern.findall(line)))]


def is_outside(name: str) -> bool:
    if name in ("localhost", ""):
        return False
    try:
        return not (ip_address(name).is_loopback or ip_address(name).is_unspecified)
    except ValueError:
        return True  # a name, whose address must be looked up


def by_audit(folder: Path) -> Watch:
    """Python's own audit events: also name look-ups, and addresses in urllib."""
    (folder / "sitecustomize.py").write_text(AUDIT)
    notes, paths = folder / "audit", f"{folder}:{':'.join(p for p in sys.path if p)}"
    return Watch((), {"AUDIT_LOG": str(notes), "PYTHONPATH": paths}, notes, PYTHON)


def by_strace(folder: Path) -> Watch:
    """System calls of the server and all its threads and children."""
    notes = folder / "strace"
    under = ("strace", "-D", "-f", "-qq", "-s", "64", "-e", TRACED, "-o", str(notes))
    if not may_trace():
        pytest.skip("no strace here, or nothing may be traced")
    return Watch(under, {}, notes, KERNEL)


def by_all(folder: Path) -> list[Watch]:
    """The ways that are available on this machine."""
    return [way(folder) for way in (by_audit, *([by_strace] if may_trace() else []))]


@functools.cache
def may_trace() -> bool:
    program = shutil.which("strace")
    traced = [str(program), "-qq", "-o", os.devnull, "true"]
    return program is not None and not subprocess.run(traced, check=False).returncode


@pytest.fixture(params=[by_audit, by_strace], ids=["python", "kernel"])
def watch(request: pytest.FixtureRequest, tmp_path: Path) -> Watch:
    way: Callable[[Path], Watch] = request.param
    return way(tmp_path)


@pytest.mark.parametrize("code", [
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('192.0.2.1', 9))",
    "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'', ('192.0.2.1', 9))",
])  # fmt: skip
def test_a_word_to_the_outside_is_seen(watch: Watch, code: str):
    """TEST-NET-1 never answers; the attempt is what counts."""
    environment = {**os.environ, **watch.environment}
    subprocess.run([*watch.under, sys.executable, "-c", code], env=environment, check=False)
    assert watch.outside()


def test_a_name_that_is_looked_up_is_seen(tmp_path: Path):
    watch = by_audit(tmp_path)
    code = "import socket; socket.getaddrinfo('a.invalid', 80)"
    environment = {**os.environ, **watch.environment}
    subprocess.run([sys.executable, "-c", code], env=environment, check=False, capture_output=True)
    assert watch.outside()


def online(folder: Path) -> dict[str, str]:
    """Lets a server use the hub, with an empty cache."""
    return {"HF_HUB_OFFLINE": "0", "HF_HOME": str(folder / "hub")}


@pytest.mark.parametrize("host", [pytest.param("127.0.0.1", marks=pytest.mark.slow), "0.0.0.0"])
def test_a_server_asks_nobody(tmp_path: Path, host: str):
    """At its start, for pages, for model names that point elsewhere, for a page of another site."""
    python, *others = watches = by_all(tmp_path)
    under = [word for watch in others for word in watch.under]
    environment = {**python.environment, **online(tmp_path)}
    with served(
        tmp_path, "--host", host, "--shared", under=under, environment=environment
    ) as server:
        for query, page in {
            "": "",
            "model=hf:someone/else": "",
            "model=![x](http://pictures.invalid/b.png)": "models",
            "system=http://sheets.invalid/a.yaml": "hardware",
        }.items():
            with visit(server.url) as session:
                assert session.open(query, page).elements
        with (
            pytest.raises(InvalidStatus, match="403"),
            connect(
                server.url.replace("http", "ws") + "/_stcore/stream",
                origin="http://elsewhere.invalid",
                subprotocols=["streamlit"],
            ),
        ):
            pass
    assert [line for watch in watches for line in watch.outside()] == []
    assert all(watch.lines() for watch in watches)
    assert "External" not in server.log.read_text()


@pytest.mark.slow
def test_a_hub_model_is_asked_for_by_a_button_and_by_nothing_else(tmp_path: Path):
    """The hub is a port of 127.0.0.2 on which nothing listens; the log shows each attempt.

    A server with the usual address contacts nothing else.
    """
    pytest.importorskip("huggingface_hub")
    watch, hub = by_audit(tmp_path), f"http://127.0.0.2:{free_port()}"
    environment = {**watch.environment, **online(tmp_path), "HF_ENDPOINT": hub}
    with served(tmp_path, environment=environment) as server, visit(server.url) as session:
        session.open("model=hf:someone/else")
        assert "its config.json is not available here" in " ".join(session.words("alert")).lower()
        assert not [line for line in watch.lines() if "127.0.0.2" in line]
        session.press("Ask the Hugging Face hub")
        assert [line for line in watch.lines() if "127.0.0.2" in line]
        assert "paste its config.json instead" in " ".join(session.words("alert"))
    assert watch.lines() and watch.outside() == []


@pytest.mark.slow
@pytest.mark.skipif(not export.can_draw(), reason="no kaleido, or no browser to draw with")
def test_a_picture_drawn_on_the_server_asks_nobody(tmp_path: Path):
    """Chromium asks its kernel for a route to 2001:4860:4860::8888, to which nothing is sent."""
    watch = by_strace(tmp_path)
    code = """
from app.charts.figure import Figure, Trace
from app.dashboard import export
figure = Figure()
figure.add_trace(Trace(type="bar", y=[1]))
assert export.image(figure, "png").startswith(b"\\x89PNG")
"""
    subprocess.run([*watch.under, sys.executable, "-c", code], check=True)
    assert watch.lines()
    assert [line for line in watch.outside() if "2001:4860:4860::8888" not in line] == []
