"""Speed of the API: cached estimates per second, over a socket.

The aim was 200 per second on two cores, including the clients.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BODY = json.dumps(
    {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "batch": 16}
)
CLIENTS, EACH, ASKED_A_SECOND = 4, 100, 200

pytestmark = pytest.mark.benchmark


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "app" / "python")])
    command = [sys.executable, "-m", "app.cli", "api", "--port", str(free)]
    server = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths})
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", free)) == 0:
                    break
            time.sleep(0.1)
        yield free
    finally:
        server.terminate()
        server.wait()


def asked(port: int, count: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for _ in range(count):
        connection.request("POST", "/estimate", BODY, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["rows"]
    connection.close()


def test_estimates_that_were_asked_before(benchmark, port):
    asked(port, 1)

    def all_clients() -> None:
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda _: asked(port, EACH), range(CLIENTS)))

    benchmark.pedantic(all_clients, rounds=5)
    rate = CLIENTS * EACH / benchmark.stats["median"]
    benchmark.extra_info["estimates_per_s"] = rate
    assert rate > ASKED_A_SECOND
