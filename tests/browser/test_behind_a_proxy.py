"""The proxy examples of docs/examples in front of a real dashboard and API, in a browser."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from tests.browser.conftest import SETTLED
from tests.browser.proxies import Upstreams, proxy
from tests.dashboards import free_port, served

ROOT = Path(__file__).parents[2]
TOKEN = "a token of the tests"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address (host:port) of `ridgeline api` with a token."""
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(name)
    address, log = f"127.0.0.1:{free_port()}", tmp_path_factory.mktemp("api") / "log"
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    own = {**os.environ, "PYTHONPATH": path, "RIDGELINE_API_TOKEN": TOKEN}
    start = ["-c", "from app.cli import main; main()", "api", "--port", address.split(":")[1]]
    with log.open("w") as out:
        server = subprocess.Popen(
            [sys.executable, *start], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=own
        )
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with (
                contextlib.suppress(URLError, OSError),
                urllib.request.urlopen(f"http://{address}/health", timeout=2),
            ):
                break
            assert server.poll() is None, log.read_text()
            time.sleep(0.2)
        yield address
    finally:
        server.terminate()
        server.wait(timeout=20)


@dataclass(frozen=True, slots=True)
class Behind:
    """A proxy in front of a dashboard: its address, and that of the dashboard."""

    url: str
    hidden: str


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def behind(
    request: pytest.FixtureRequest, app_url: str, api: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Behind]:  # fmt: skip
    if shutil.which(request.param) is None:
        pytest.skip(f"no {request.param} on this machine")
    with served(tmp_path_factory.mktemp("app"), "--shared", base_path="/ridgeline") as dashboard:
        hidden = dashboard.url.removeprefix("http://").removesuffix("/ridgeline")
        folder = tmp_path_factory.mktemp(request.param)
        with proxy(request.param, Upstreams(hidden, api), folder) as url:
            yield Behind(url, hidden)


def test_a_page_is_drawn_over_the_websocket_of_the_proxy_alone(page, requested, behind: Behind):
    sockets: list[str] = []
    page.on("websocket", lambda socket: sockets.append(socket.url))
    page.goto(f"{behind.url}/ridgeline/explain?system=mi300x&tp=2")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_selector(SETTLED)
    assert page.locator('.st-key-system input[role="combobox"]').input_value() == "mi300x"
    assert sockets and all(s.startswith(behind.url.replace("http", "ws")) for s in sockets)
    assert all("/ridgeline/_stcore/stream" in socket for socket in sockets)
    addresses = [url for url in requested if not url.startswith(("data:", "blob:"))]
    assert all(url.startswith(f"{behind.url}/ridgeline/") for url in addresses)
    assert not any(behind.hidden in url for url in addresses)


def test_a_report_is_uploaded_through_the_proxy(page, behind: Behind):
    page.goto(f"{behind.url}/ridgeline/upload")
    page.wait_for_selector(SETTLED)
    sample = ROOT / "app" / "samples" / "mi300x_qwen3-8b_decode_sglang.json.gz"
    statuses: list[int] = []
    page.on("response", lambda r: statuses.append(r.status) if "/upload_file/" in r.url else None)
    padded = sample.read_bytes() + bytes(2_000_000)  # above nginx's default limit of 1 MB
    files = [
        {"name": "report.gz", "mimeType": "application/gzip", "buffer": sample.read_bytes()},
        {"name": "large.gz", "mimeType": "application/gzip", "buffer": padded},
    ]
    page.locator("input[type=file][multiple]").set_input_files(files)
    page.wait_for_selector(".js-plotly-plot .main-svg")
    page.wait_for_selector("text=large.gz")
    assert len(statuses) == 2 and all(200 <= status < 300 for status in statuses)


def asked(url: str, **headers: str) -> tuple[int, str]:
    try:
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def test_the_api_answers_below_its_own_path_and_counts_for_those_with_the_token(behind: Behind):
    below = f"{behind.url}/ridgeline-api"
    status, text = asked(f"{below}/health")
    assert status == 200 and json.loads(text)["status"] == "ok"
    assert asked(f"{below}/metrics")[0] == 401
    status, text = asked(f"{below}/metrics", Authorization=f"Bearer {TOKEN}")
    assert status == 200 and 'ridgeline_requests_total{status="200",verb="health"}' in text
