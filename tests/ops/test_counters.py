"""The dashboard's counters and its log of requests."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path

from tests.dashboards import served

TOKEN = "only-for-this-test"


def sent(url: str, **headers: str) -> tuple[int, str]:
    """Status and text of an answer."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_shared_dashboard_counts_and_writes_a_line_a_request(tmp_path: Path):
    own = {"RIDGELINE_API_TOKEN": TOKEN}
    with served(tmp_path, "--shared", base_path="/ridgeline", environment=own) as server:
        assert sent(f"{server.url}/_stcore/health")[0] == 200
        root = server.url.removesuffix("/ridgeline")
        assert sent(f"{root}/metrics")[0] == 401
        status, text = sent(f"{root}/metrics", Authorization=f"Bearer {TOKEN}")
        assert status == 200
        assert "ridgeline_sessions 0.0" in text and "ridgeline_jobs 0.0" in text
        assert 'ridgeline_requests_total{status="200"' in text
        log = server.log.read_text()
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert ("/metrics", 401) in [(line["path"], line["status"]) for line in lines]
    assert TOKEN not in log


def test_counters_are_for_this_machine_where_no_token_is_set(tmp_path: Path):
    with served(tmp_path, environment={"RIDGELINE_API_TOKEN": ""}) as server:
        assert sent(f"{server.url}/metrics")[0] == 200
        assert sent(f"{server.url}/metrics", **{"X-Forwarded-For": "192.0.2.1"})[0] == 403
        assert "{" not in server.log.read_text()  # a private server writes no log
