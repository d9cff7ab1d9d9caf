"""Responses of a server: headers, the page that scripts fill, refusals, warnings."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from http.client import HTTPMessage
from pathlib import Path

import pytest
import streamlit
from starlette.responses import FileResponse
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.dashboards import Served, served

ROOT = Path(__file__).parents[2]
STATIC = Path(streamlit.__file__).parent / "static"
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
    return sent(url, headers)[:2]


def sent(
    url: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, HTTPMessage, bytes]:
    """Status, headers and body of an answer."""
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def tag(file: Path) -> str:
    """The ETag of a file that Starlette serves."""
    return FileResponse(file, stat_result=file.stat()).headers["ETag"]


@pytest.mark.parametrize("path", ["/", "/roofline?tp=2", "/_stcore/health", "/media/nothing"])
def test_every_answer_keeps_a_page_to_its_server_and_out_of_frames(server: Served, path: str):
    _, headers = answer(server.url + path)
    assert {name: headers[name] for name in HEADERS} == HEADERS
    policy = dict(
        part.partition(" ")[::2] for part in headers["Content-Security-Policy"].split("; ")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == "'self'"
    assert "unsafe" not in policy["script-src"] and "http" not in " ".join(policy.values())


@pytest.mark.parametrize("asked", [{}, {"Accept-Encoding": "gzip"}, {"Range": "bytes=0-99"}])
@pytest.mark.parametrize("path", ["/", "/index.html", "/plan?tp=2", "/no/such/page"])
def test_each_address_of_a_page_answers_with_the_style_after_all_other_styles(
    server: Served, path: str, asked: Mapping[str, str]
):
    status, headers, page = sent(server.url + path, asked)
    style = b"<style>\n" + (ROOT / "app" / "pages.css").read_bytes() + b"</style>\n"
    assert page.count(style) == page.count(b"<style") == 1
    before, after = page.split(style)
    assert before + after == (STATIC / "index.html").read_bytes()
    assert b'<div id="root">' in before and after.split() == [b"</body>", b"</html>"]
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Content-Length"] == str(len(page)) and headers["Cache-Control"] == "no-cache"
    assert not {"Content-Encoding", "Content-Range", "Accept-Ranges"} & set(headers)

    status, of_head, body = sent(server.url + path, asked, "HEAD")
    assert (status, body) == (200, b"")
    for name in ("Content-Length", "Content-Type", "ETag", "Cache-Control"):
        assert of_head[name] == headers[name]


@pytest.mark.parametrize("path", ["/", "/plan"])
def test_a_browser_keeps_its_copy_of_the_page_until_the_page_or_its_style_changes(
    server: Served, path: str
):
    url = server.url + path
    _, headers, page = sent(url)
    current = headers["ETag"]
    for known in (current, f"W/{current}", f'"another", {current}', "*"):
        status, headers, body = sent(url, {"If-None-Match": known})
        assert (status, headers["ETag"], body) == (304, current, b"")
        assert "Content-Length" not in headers and headers["Cache-Control"] == "no-cache"
    copied_without_style = tag(STATIC / "index.html")
    for stale in ({"If-None-Match": '"another"'}, {"If-None-Match": copied_without_style},
                  {"If-Modified-Since": "Fri, 31 Dec 2100 23:59:59 GMT"}):  # fmt: skip
        status, headers, body = sent(url, stale)
        assert (status, headers["ETag"], body) == (200, current, page)


def test_what_is_not_the_page_is_sent_as_it_is(server: Served):
    script = next((STATIC / "static" / "js").glob("index.*.js"))
    for file in (script, STATIC / "manifest.json", STATIC / "favicon.png"):
        url = f"{server.url}/{file.relative_to(STATIC)}"
        status, headers, body = sent(url)
        assert (status, headers["ETag"], body) == (200, tag(file), file.read_bytes())
        assert sent(url, {"If-None-Match": tag(file)})[0] == 304
        assert sent(url, {"Range": "bytes=1-3"})[::2] == (206, file.read_bytes()[1:4])
    assert sent(server.url + "/_stcore/health")[2] == b"ok"
    assert b"<style" not in sent(server.url + "/static/js/no_such_script.js")[2]


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
        "Warning: anyone who can reach 0.0.0.0 can save, delete and measure as you can; give "
        "--shared to separate visitors."
    ]
