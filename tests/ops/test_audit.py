"""The audit of dependencies checks every pin, fails for a vulnerability, and reports an unreachable
service.
"""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.dashboards import free_port

ROOT = Path(__file__).parents[2]
AUDIT = ROOT / ".ci" / "audit"
PINS = {
    canonicalize_name(pin.name): pin
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line and not line.startswith("#")
    for pin in [Requirement(line)]
}


def audit(constraints: Path, url: str, *options: str) -> subprocess.CompletedProcess[str]:
    pytest.importorskip("pip_audit")
    return subprocess.run(
        [sys.executable, str(AUDIT), "--constraints", str(constraints), "--osv-url", url, *options],
        check=False, capture_output=True, text=True, timeout=300,
        env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"},
    )  # fmt: skip


@pytest.fixture
def advisories() -> Iterator[tuple[str, list[str]]]:
    """A service that speaks OSV's protocol and knows one vulnerability, of ijson 3.3.0."""
    asked: list[str] = []
    weakness = {
        "id": "TEST-2026-1", "summary": "made for a test", "schema_version": "1.0.0",
        "affected": [{
            "package": {"name": "ijson", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.4.0"}]}],
        }],
    }  # fmt: skip

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked_for = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            asked.append(asked_for["package"]["name"])
            weak = (asked_for["package"]["name"], asked_for["version"]) == ("ijson", "3.3.0")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({"vulns": [weakness]} if weak else {}).encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query", asked
        server.shutdown()


@pytest.fixture
def pinned(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        (tmp_path / "constraints.txt").write_text(text)
        return tmp_path / "constraints.txt"

    return written


def test_a_known_weakness_fails_the_audit_and_is_named_with_its_remedy(advisories, pinned):
    done = audit(pinned("ijson==3.3.0\nnumpy==2.0.0\n"), advisories[0])
    assert done.returncode == 1, done.stderr
    assert "ijson 3.3.0: TEST-2026-1; mended in 3.4.0" in done.stdout


def test_a_weakness_that_was_accepted_and_a_better_version_pass(advisories, pinned):
    old, new = pinned("ijson==3.3.0\n"), "ijson==3.4.0\n"
    assert audit(old, advisories[0], "--accept", "TEST-2026-1").returncode == 0
    assert audit(pinned(new), advisories[0]).returncode == 0


def test_the_audit_asks_about_every_pin_that_belongs_to_this_python(advisories):
    url, asked = advisories
    done = audit(ROOT / "constraints.txt", url)
    assert done.returncode == 0, done.stdout + done.stderr
    here = {name for name, pin in PINS.items() if pin.marker is None or pin.marker.evaluate()}
    assert set(asked) == here
    assert f"{len(here)} packages asked about" in done.stdout


def test_an_audit_that_reaches_nobody_is_no_pass(pinned):
    done = audit(pinned("numpy==2.0.0\n"), f"http://127.0.0.1:{free_port()}/v1/query")
    assert done.returncode == 3 and "nobody could be asked" in done.stderr


def test_every_pin_is_one_exact_version():
    for name, pin in PINS.items():
        assert re.fullmatch(r"==[^*,]+", str(pin.specifier)) and not pin.url, name


def test_every_package_that_an_installation_with_all_extras_brings_is_pinned():
    """The dependencies of this project, as far as they are installed here."""
    seen: set[str] = set()
    extras = metadata.metadata("ridgeline").get_all("Provides-Extra") or []
    waiting = [("ridgeline", extra) for extra in ("", *extras)]
    done: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in done:
            continue
        done.add((name, extra))
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        seen.add(name)
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                below = canonicalize_name(need.name)
                waiting += [(below, more) for more in ("", *need.extras)]
    assert len(seen) > 50
    assert not sorted(seen - set(PINS) - {"ridgeline", "pip", "setuptools", "wheel"})
