"""Responses of a server besides its pages: headers, refusals, warnings."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPMessage
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.dashboards import Served, served

HEADERS = {
    "X-Frame-Options": "SAMEORIGIN",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("headers"), "--host", "0.0.0.0") as running:
        yield running


def answer(url: str, **headers: str) -> tuple[int, HTTPMessage]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


@pytest.mark.parametrize("path", ["/", "/roofline?tp=2", "/_stcore/health", "/media/nothing"])
def test_every_answer_keeps_a_page_to_its_server_and_out_of_frames(server: Served, path: str):
    _, headers = answer(server.url + path)
    assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = dict(
        part.partition(" ")[::2] for part in headers["Content-Security-Policy"].split("; ")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == "'self'"
    assert "unsafe" not in policy["script-src"] and "http" not in " ".join(policy.values())


@pytest.mark.parametrize("origin", [
    "http://elsewhere.invalid", "null", "http://localhost:1", "http://127.0.0.1:1",
])  # fmt: skip
def test_a_page_of_another_origin_gets_no_answer(server: Served, origin: str):
    """Not even one on another port of this machine."""
    status, headers = answer(server.url + "/_stcore/health", Origin=origin)
    assert status == 403 and "Access-Control-Allow-Origin" not in headers
    stream = server.url.replace("http", "ws") + "/_stcore/stream"
    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(stream, origin=origin, subprotocols=["streamlit"]),
    ):
        pass


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("ridgeline.example.org", "https://ridgeline.example.org"),
        ("ridgeline.example.org:443", "https://ridgeline.example.org"),
        ("ridgeline.example.org:8443", "https://ridgeline.example.org:8443"),
    ],
)
def test_a_proxy_that_passes_the_host_on_is_the_same_origin(server: Served, host: str, origin: str):
    status, _ = answer(server.url + "/_stcore/health", Host=host, Origin=origin)
    assert status == 200


@pytest.mark.slow
def test_an_origin_that_the_operator_names_is_answered_by_a_server_without_a_warning(
    tmp_path: Path,
):
    """A private server; those of test_data_of_servers are shared, and also print no warning."""
    named = {"STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS": "https://one.example https://two.example"}
    with served(tmp_path, "--host", "127.0.0.1", environment=named) as server:
        for origin, expected in {
            "https://one.example": 200, "https://two.example": 200, "https://three.example": 403,
        }.items():  # fmt: skip
            assert answer(server.url + "/_stcore/health", Origin=origin)[0] == expected
        assert "Warning" not in server.log.read_text()


def test_an_open_address_without_shared_is_warned_of_in_one_sentence(server: Served):
    warnings = [line for line in server.log.read_text().splitlines() if "Warning" in line]
    assert warnings == [
        "Warning: anyone who can reach 0.0.0.0 may save, delete and measure as you can; give "
        "--shared to separate visitors."
    ]
