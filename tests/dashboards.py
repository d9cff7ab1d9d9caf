"""A dashboard that runs: its server, started as the command starts it, and sessions without a
browser that speak Streamlit's own protocol."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import ClientConnection, connect

START = "from app.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers.  url: without a slash at its end.  log: what it prints."""

    url: str
    log: Path
    process: subprocess.Popen


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_healthy(
    server: subprocess.Popen, url: str, log: Path, timeout_s: float = 60
) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail(f"the dashboard did not come up at {url}:\n{log.read_text()}")


@contextlib.contextmanager
def served(
    folder: Path,
    *options: str,
    port: int = 0,
    base_path: str = "",
    under: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[Served]:
    """The dashboard as `ridgeline app` serves it; it ends with the block.

    folder: for its log and as its working folder.  under: a command that starts it.  environment:
    variables beside those of the tests.
    """
    port, log = port or free_port(), folder / "log"
    command = [*under, sys.executable, "-c", START, "app", "--port", str(port), "--no-browser"]
    with log.open("w") as out:
        server = subprocess.Popen(
            [*command, "--base-path", base_path, *options],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}{base_path}"
        wait_until_healthy(server, url, log)
        yield Served(url, log, server)
    finally:
        server.terminate()
        server.wait(timeout=20)


@dataclass
class Session:
    """One visitor's session, as a browser's tab has it.

    elements: of the page as last drawn, with their kinds ("button", "markdown").  redirect: where
    the page sends the browser, "" for nowhere.
    """

    socket: ClientConnection
    elements: list[tuple[str, Any]] = field(default_factory=list)
    redirect: str = ""

    def open(self, query: str = "", page: str = "") -> Session:
        """Draw a page, "roofline" or "" for the first, as its address is opened."""
        message = BackMsg()
        message.rerun_script.query_string, message.rerun_script.page_name = query, page
        return self._drawn(message)

    def press(self, label: str) -> Session:
        """Draw the page again after a press of the button of that label."""
        button = next(b for kind, b in self.elements if kind == "button" and b.label == label)
        message = BackMsg()
        state = message.rerun_script.widget_states.widgets.add()
        state.id, state.trigger_value = button.id, True
        return self._drawn(message)

    def words(self, kind: str) -> list[str]:
        """The texts of the elements of a kind: alerts, headings, labels of buttons."""
        found = [element for name, element in self.elements if name == kind]
        return [getattr(element, "body", "") or getattr(element, "label", "") for element in found]

    def options(self, label: str) -> list[str]:
        """What the box of that label offers."""
        boxes = [box for kind, box in self.elements if kind == "selectbox"]
        return next(list(box.options) for box in boxes if box.label == label)

    def _drawn(self, message: BackMsg) -> Session:
        self.socket.send(message.SerializeToString())
        self.elements = []
        while True:
            answer = ForwardMsg.FromString(self.socket.recv(timeout=90))  # type: ignore[arg-type]
            kind = answer.WhichOneof("type")
            if kind == "delta" and answer.delta.HasField("new_element"):
                element = answer.delta.new_element
                name = element.WhichOneof("type")
                self.elements.append((name, getattr(element, name)))
            elif kind == "auth_redirect":
                self.redirect = answer.auth_redirect.url
            elif kind == "script_finished":
                return self


@contextlib.contextmanager
def visit(url: str, cookies: Mapping[str, str] | None = None) -> Iterator[Session]:
    """A session of a visitor on the server at `url`; it disconnects with the block."""
    with urllib.request.urlopen(f"{url}/_stcore/health", timeout=10) as answer:
        name, _, xsrf = answer.headers["Set-Cookie"].partition(";")[0].partition("=")
    held = "; ".join(f"{key}={value}" for key, value in {**(cookies or {}), name: xsrf}.items())
    parts = urlsplit(url)
    with connect(
        url.replace("http", "ws", 1) + "/_stcore/stream",
        origin=f"{parts.scheme}://{parts.netloc}",
        subprotocols=["streamlit", xsrf],
        additional_headers={"Cookie": held},
        max_size=None,
    ) as opened:
        yield Session(opened)
