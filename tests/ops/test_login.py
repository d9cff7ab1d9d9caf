"""Login by OpenID Connect: a real server, a provider on this machine, a client that follows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("authlib")
import httpx

from hardware_db import user_files
from hardware_db.data_folder import overlay
from tests.dashboards import Served, free_port, served
from tests.ops.oidc_provider import CLIENT, Provider, provider
from tests.ops.visitor import visit

BASE = "/ridgeline"


@pytest.fixture(scope="module")
def oidc() -> Iterator[Provider]:
    with provider() as running:
        yield running


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def server(
    tmp_path_factory: pytest.TempPathFactory, oidc: Provider, data: Path
) -> Iterator[Served]:
    """A shared server below a path, with the secrets from the documentation."""
    folder, port = tmp_path_factory.mktemp("login"), free_port()
    secrets = folder / "secrets.toml"
    secrets.write_text(f"""
[auth]
redirect_uri = "http://127.0.0.1:{port}{BASE}/oauth2callback"
cookie_secret = "a long and random text for the tests"
client_id = "{CLIENT}"
client_secret = "not a secret"
server_metadata_url = "{oidc.url}/.well-known/openid-configuration"
""")
    options = ("--shared", "--login", str(secrets))
    environment = {"RIDGELINE_DATA": str(data)}
    with served(folder, *options, port=port, base_path=BASE, environment=environment) as running:
        yield running


def logged_in(server: Served) -> dict[str, str]:
    """The cookies of a browser after Log in, the provider, and the way back."""
    with visit(server.url) as session:
        session.open()
        asked = session.press("Log in").redirect
    parts = urlsplit(server.url)
    with httpx.Client(follow_redirects=True) as browser:
        answer = browser.get(f"{parts.scheme}://{parts.netloc}{asked}")
        assert answer.status_code == 200 and urlsplit(str(answer.url)).path == f"{BASE}/"
        return {cookie.name: str(cookie.value) for cookie in browser.cookies.jar}


def test_without_a_login_no_page_is_drawn(server: Served):
    with visit(server.url) as session:
        for page in ("", "hardware", "run"):
            session.open("system=mi300x", page)
            kinds = {kind for kind, _ in session.elements}
            assert session.words("button") == ["Log in"]
            assert not kinds & {"selectbox", "plotly_chart", "arrow_data_frame", "metric"}


def test_a_visitor_logs_in_at_the_provider_and_sees_the_pages(server: Served):
    with visit(server.url, logged_in(server)) as session:
        session.open()
        kinds = {kind for kind, _ in session.elements}
        assert {"selectbox", "plotly_chart"} <= kinds
        assert "Log out" in session.words("button") and "Log in" not in session.words("button")


def test_a_forged_cookie_is_no_login(server: Served):
    cookies = logged_in(server)
    (name,) = (name for name in cookies if name.endswith("_user"))
    value = cookies[name]
    forged = value[:-6] + "".join("A" if c != "A" else "B" for c in value[-6:])
    with visit(server.url, {**cookies, name: forged}) as session:
        assert session.open().words("button") == ["Log in"]


def test_logging_out_ends_the_session(server: Served):
    with visit(server.url, logged_in(server)) as session:
        session.open()
        assert urlsplit(session.press("Log out").redirect).path == f"{BASE}/auth/logout"
        assert "Log in" in session.open().words("button")


@pytest.mark.slow
def test_visitors_keep_their_own_systems_from_one_visit_to_the_next(
    server: Served, oidc: Provider, data: Path
):
    """Saved systems stay in the server's folder, where no other visitor can read them."""
    person = hashlib.sha256(f"{oidc.url}\nada".encode()).hexdigest()[:32]
    with overlay(data / "visitors" / person):
        user_files.write_system({"include": "h100-sxm5-80gb", "id": "adas", "name": "Ada's"})
    offered = {}
    for name in ("ada", "bob"):
        oidc.subject = name
        with visit(server.url, logged_in(server)) as session:
            offered[name] = session.open().options("System")
    assert "adas" in offered["ada"]
    assert "adas" not in offered["bob"] and "h100-sxm5-80gb" in offered["bob"]
