"""The first minutes of a new user, timed: the README's first command in a fresh clone, then in a
browser the first answer, export, upload and measurement.

    python -m tests.browser.first_minutes --write docs/tour.md

The command runs unchanged, except for its own port, no browser, and no pip cache.  Missing packages
are installed with the command that the page prints, and the program is restarted.  Prints the
table; `--write` puts it into that document, and writes screenshots beside it.  Both show the Python
of that command without the folder of the clone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.page_timings import machine_words, replace_table
from tests.browser.conftest import QUIET, SETTLED, chromium
from tests.browser.journeys import DRAWN, JOURNEYS, TRACE, MachineBusy, Walk
from tests.browser.stills import Camera
from tests.dashboards import free_port

ROOT = Path(__file__).parents[2]
MARK = "<!-- python -m tests.browser.first_minutes --write docs/tour.md -->"
#: The command that a page prints for missing packages, up to the end of its line.
_HINT = re.compile(r"\S+ -m pip install [^\n]+")
#: Replaces a text wherever a page shows it.
_REPLACE = """([text, other]) => {
    const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode()) {
        nodes.currentNode.data = nodes.currentNode.data.replaceAll(text, other);
    }
}"""
_SIZE = {"width": 1400, "height": 900}
_PATIENCE_S = 900.0


@dataclass
class Clock:
    """Timed steps.  step: called with a description, and with seconds to leave out."""

    rows: list[tuple[str, float, str]] = field(default_factory=list)
    _begun: float = field(default_factory=time.monotonic)

    def step(self, words: str, said: str = "", apart_s: float = 0.0) -> None:
        now = time.monotonic()
        self.rows.append((words, now - self._begun - apart_s, said))
        print(f"{self.rows[-1][1]:6.0f} s  {words}  {said}", file=sys.stderr, flush=True)
        self._begun = now

    def table(self) -> str:
        """The steps as a Markdown table, with the time since the clone began."""
        lines = ["| step | seconds | since the start | what it said |", "|---|---|---|---|"]
        total = 0.0
        for words, seconds, said in self.rows:
            total += seconds
            shown = " ".join(said.split()).replace("|", "/").replace("$", "\\$")
            at = f"{int(total) // 60}:{int(total) % 60:02d}"
            lines.append(f"| {words} | {seconds:.0f} | {at} | {shown} |")
        return "\n".join(lines)


def first_command() -> list[str]:
    """The parts of the README's first command, which is joined by &&."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    command = re.search(r"^python3 -m venv .* && \.venv/bin/ridgeline app$", text, re.MULTILINE)
    assert command is not None
    return command[0].split(" && ")


@contextlib.contextmanager
def opened(command: str, clone: Path, environment: dict[str, str]) -> Iterator[str]:
    """The dashboard started by the last part of the command; its address once it answers."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    with (clone.parent / "log").open("ab") as log:
        server = subprocess.Popen(
            ["bash", "-c", f"exec {command} --port {port} --no-browser"],
            cwd=clone, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _wait_until_healthy(server, url)
        yield url
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


def _wait_until_healthy(server: subprocess.Popen[bytes], url: str) -> None:
    ends = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends and server.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError):
            urllib.request.urlopen(f"{url}/_stcore/health", timeout=5).close()
            return
        time.sleep(0.1)
    raise TimeoutError(f"no answer from {url}")


# ------------------------------------------------------------------------------- the browser


@dataclass
class Stranger:
    """A visitor with a clock.  stills: whether screenshots are taken."""

    page: Any
    clock: Clock
    stills: bool

    def begin(self, url: str) -> None:
        self.page.goto(url)
        self.page.wait_for_selector(SETTLED)
        self.page.wait_for_selector('[data-testid="stMetricValue"]')

    def ask(self, words: str, walk: Callable[[Walk], str], still: str = "") -> None:
        """Run a walk, and record its time without that of the screenshot at its end."""
        camera = Camera(self.page)
        said = walk(Walk(self.page, patience_ms=int(1000 * _PATIENCE_S)))
        if self.stills and still:
            camera.take(still)
        self.clock.step(words, said, camera.spent_s)


def exported(walk: Walk) -> str:
    """Save the page's table; returns the name of the file and its lines."""
    walk.press("Export")
    with walk.page.expect_download() as saving:
        walk.press("Table (CSV)")
    saved = saving.value
    # while it is open, a click anywhere closes it and does nothing else
    walk.page.keyboard.press("Escape")
    lines = Path(saved.path()).read_text(encoding="utf-8").count("\n")
    return f"{saved.suggested_filename}, {lines} lines"


def uploaded(walk: Walk) -> str:
    """Upload a trace; after earlier questions the page asks whether to price the uploaded run."""
    walk.press("Measured")
    walk.press("Upload", role="menuitem")
    walk.bring(TRACE)
    walk.page.wait_for_selector(DRAWN)
    walk.press("Set the scenario from the report")
    return walk.see("reach(es)? .* of the roof")


def measured(walk: Walk) -> str:
    """Calibrate this machine and measure a model; returns the page's hint if something is
    missing.
    """
    walk.press("Measured")
    walk.press("Measure", role="menuitem")
    walk.press("Calibrate and measure")
    ends = time.monotonic() + _PATIENCE_S
    main = walk.page.get_by_test_id("stMain")
    while time.monotonic() < ends:
        text = main.inner_text()
        if hint := _HINT.search(text):
            return hint[0]
        if found := re.search(r"[^\n]*predicted .* measured [^\n]*", text):
            return found[0]
        if busy := re.search(r"[^\n]*other programs use the cores[^\n]*", text):
            raise MachineBusy(busy[0])
        walk.page.wait_for_timeout(500)
    raise TimeoutError(f"no measurement within {_PATIENCE_S:g} s; the page says: {text}")


def walked(stranger: Stranger, url: str) -> str:
    """Everything that works after the first installation; returns the hint of what is missing, or
    "".
    """
    journeys = {journey.name: journey for journey in JOURNEYS}
    stranger.begin(url)
    stranger.clock.step("the first page is drawn")
    predict, upload = journeys["predict"], journeys["upload"]
    stranger.ask(f"first answer: {predict.question}", predict.walk, "first-answer")
    stranger.ask("first export: Answer, Export, Table (CSV)", exported)
    stranger.ask(f"first upload: {upload.question}", uploaded)
    camera = Camera(stranger.page)
    said = measured(Walk(stranger.page))
    shown = re.sub(r"^\S+(?= -m pip)", ".venv/bin/python3", said)
    if stranger.stills:
        stranger.page.evaluate(_REPLACE, [said, shown])
        camera.take("first-measurement")
    stranger.clock.step("first measurement asked for: page Measure", shown, camera.spent_s)
    return said if _HINT.search(said) else ""


def run(stills: bool) -> Clock:
    """The first minutes; returns the clock."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        clone, clock = Path(name) / "ridgeline", Clock()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        clock.step("clone")
        environment = {**os.environ, "PIP_NO_CACHE_DIR": "1", "RIDGELINE_DATA": f"{name}/data"}
        environment.pop("PYTHONPATH", None)
        *install, start = first_command()

        def command(words: str) -> None:
            subprocess.run(
                ["bash", "-ec", words], cwd=clone, env=environment, check=True,
                stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
            )  # fmt: skip

        command(" && ".join(install))
        clock.step("install: " + " && ".join(f"`{part}`" for part in install))
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        page = browser.new_page(viewport=_SIZE)
        page.set_default_timeout(1000 * _PATIENCE_S)
        stranger = Stranger(page, clock, stills)
        with opened(start, clone, environment) as url:
            clock.step(f"`{start}` answers")
            hint = walked(stranger, url)
        if hint:
            command(hint)
            clock.step("what that page asked to install, as printed")
            with opened(start, clone, environment) as url:
                stranger.begin(url)
                stranger.ask("first measurement: machine calibration, then the model", measured)
        browser.close()
    return clock


def main() -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--write", type=Path, help="document in which the table is replaced")
    chosen = parser.parse_args()
    before = machine_words()
    clock = run(stills=chosen.write is not None)
    text = f"{clock.table()}\n\n{datetime.now(UTC):%Y-%m-%d}, {before} before; no GPU is asked for."
    print(text)
    if chosen.write:
        replace_table(chosen.write, MARK, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
